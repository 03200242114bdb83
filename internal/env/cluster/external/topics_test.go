package external

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// Topics that do not belong to the run are not touched, and impossible ones are reported. Nothing is created in
// either case.
func TestTopicsThatAreRefused(t *testing.T) {
	name := prefix + ".input"
	for what, one := range map[string]struct {
		topics  []cluster.Topic
		largest int
		answer  func(*kmsg.CreateTopicsResponseTopic)
		is      error
		says    []string
	}{
		"not under the prefix": {topics: []cluster.Topic{{Name: "orders", Partitions: 1}}, is: ErrForeign,
			says: []string{"orders", "must begin with its id"}},
		"a prefix of another run": {topics: []cluster.Topic{{Name: prefix + "4.input", Partitions: 1}}, is: ErrForeign},
		"exists already": {topics: []cluster.Topic{{Name: prefix + ".old", Partitions: 1}}, is: ErrForeign,
			says: []string{"exists already"}},
		"no such broker": {topics: []cluster.Topic{{Name: name, Partitions: 1, Broker: 4}},
			says: []string{"no broker 4", "1 to 3"}},
		"no partitions": {topics: []cluster.Topic{{Name: name}}, says: []string{"0 partitions"}},
		"too large records": {
			topics: []cluster.Topic{{Name: name, Partitions: 1}}, largest: 1 << 20, is: ErrLimit,
			says: []string{"max.message.bytes", "up to 1048588 bytes", "has 1048576"},
			answer: func(topic *kmsg.CreateTopicsResponseTopic) {
				limit := kmsg.NewCreateTopicsResponseTopicConfig()
				limit.Name, limit.Value = "max.message.bytes", kmsg.StringPtr("1048588")
				topic.Configs = append(topic.Configs, limit)
			},
		},
		"a policy": {
			topics: []cluster.Topic{{Name: name, Partitions: 600}}, is: ErrForbidden,
			says: []string{"with 600 partitions", "create.topic.policy", "at most 100"},
			answer: func(topic *kmsg.CreateTopicsResponseTopic) {
				topic.ErrorCode, topic.ErrorMessage = 44, kmsg.StringPtr("at most 100 partitions.")
			},
		},
		"a quota": {
			topics: []cluster.Topic{{Name: name, Partitions: 600}}, is: ErrLimit, says: []string{"quota"},
			answer: func(topic *kmsg.CreateTopicsResponseTopic) { topic.ErrorCode = 89 },
		},
		"somebody is faster": {
			topics: []cluster.Topic{{Name: name, Partitions: 1}}, is: ErrForeign, says: []string{"exists already"},
			answer: func(topic *kmsg.CreateTopicsResponseTopic) { topic.ErrorCode = 36 },
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := start(t, 3, kfake.SeedTopics(1, prefix+".old"))
			owner := theirs(t, c)
			ledger := filepath.Join(t.TempDir(), "external.json")
			k := connect(t, plainConfig(c), Options{LargestRecord: one.largest, Ledger: ledger})
			if one.answer != nil {
				c.ControlKey(19, func(request kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
					topic := kmsg.NewCreateTopicsResponseTopic()
					topic.Topic = request.(*kmsg.CreateTopicsRequest).Topics[0].Topic
					one.answer(&topic)
					response.Topics = append(response.Topics, topic)
					return response, nil, true
				})
			}
			err := k.CreateTopics(within(t), append(one.topics, cluster.Topic{Name: prefix + ".other", Partitions: 1}))
			want(t, err, one.says...)
			if one.is != nil && !errors.Is(err, one.is) {
				t.Errorf("%v is not of kind %q", err, one.is)
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
			if got := owner.names(t); !slices.Equal(got, []string{prefix + ".old"}) {
				t.Errorf("there are %q", got)
			}
			if _, err := os.Stat(ledger); !os.IsNotExist(err) {
				t.Errorf("the ledger: %v", err)
			}
		})
	}
}

// A message size limit that the scenario itself sets is intentional.
func TestScenariosOwnLimitIsMeant(t *testing.T) {
	k := connect(t, plainConfig(start(t, 1)), Options{LargestRecord: 5000})
	topics := runTopics() // the DLQ takes 2000 bytes
	if err := k.CreateTopics(within(t), topics); err != nil {
		t.Error(err)
	}
}

// A topic that reserves a broker is only on that broker; otherwise the cluster places the topics.
func TestReservedBroker(t *testing.T) {
	c := start(t, 4)
	var sent []kmsg.CreateTopicsRequestTopic
	c.ControlKey(19, func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		sent = request.(*kmsg.CreateTopicsRequest).Topics
		return nil, nil, false
	})
	k := connect(t, plainConfig(c), Options{})
	topics := []cluster.Topic{{Name: prefix + ".input", Partitions: 4}, {Name: prefix + ".dlq", Partitions: 2, Broker: 3}}
	must.Do(t, k.CreateTopics(within(t), topics))
	var got [][]int32
	for _, topic := range sent {
		for _, assignment := range topic.ReplicaAssignment {
			got = append(got, assignment.Replicas)
		}
	}
	// Node ids: broker 3 is node 2.
	want := [][]int32{{0, 1, 3}, {1, 3, 0}, {3, 0, 1}, {0, 1, 3}, {2}, {2}}
	if !slices.EqualFunc(got, want, slices.Equal[[]int32]) {
		t.Errorf("placed %v, want %v", got, want)
	}
	if configs := sent[1].Configs; len(configs) != 1 || configs[0].Name != configMinInSync || *configs[0].Value != "1" {
		t.Errorf("settings of the reserved topic: %+v", configs)
	}
	must.Do(t, k.CreateTopics(within(t), []cluster.Topic{{Name: prefix + ".later", Partitions: 5}}))
	if len(sent[0].ReplicaAssignment) > 0 || sent[0].NumPartitions != 5 || sent[0].ReplicationFactor != 3 {
		t.Errorf("placed by hand though nothing is reserved: %+v", sent[0])
	}
}

// The minimum rights that the user needs, and the error when one of them is missing.
func TestACLs(t *testing.T) {
	allow := func(resource kmsg.ACLResourceType, operations ...kmsg.ACLOperation) (all []kfake.ACL) {
		for _, operation := range operations {
			all = append(all, kfake.ACL{Resource: resource, Name: "20260102-", Pattern: kmsg.ACLResourcePatternTypePrefixed,
				Operation: operation, Allow: true})
		}
		return all
	}
	const topic, group = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	all := slices.Concat(
		allow(topic, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete),
		allow(group, kmsg.ACLOperationDescribe, kmsg.ACLOperationRead, kmsg.ACLOperationDelete),
	)
	without := func(missing kfake.ACL) []kfake.ACL {
		return slices.DeleteFunc(slices.Clone(all), func(acl kfake.ACL) bool { return acl == missing })
	}
	for name, one := range map[string]struct {
		acls           []kfake.ACL
		create, closed string
	}{
		"all": {acls: all},
		"no create": {acls: without(allow(topic, kmsg.ACLOperationCreate)[0]),
			create: "needs CREATE on topics with the run's prefix"},
		"no delete": {acls: without(allow(topic, kmsg.ACLOperationDelete)[0]),
			closed: "needs DELETE on topics with the run's prefix"},
		"no delete, groups": {acls: without(allow(group, kmsg.ACLOperationDelete)[0]),
			closed: "needs DELETE on groups with the run's prefix"},
		"nothing": {create: "needs DESCRIBE on the topic"},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, 1, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-256", "owner", "pass"),
				kfake.User("SCRAM-SHA-256", "app", "right", one.acls...))
			config := plainConfig(c)
			config.SASL = SASL{Mechanism: MechanismScramSHA256, Username: "app", Password: NewSecret("right")}
			ledger := filepath.Join(t.TempDir(), "external.json")
			k := connect(t, config, Options{Ledger: ledger})
			err := k.CreateTopics(within(t), runTopics())
			if one.create != "" {
				want(t, err, one.create)
				if !errors.Is(err, ErrForbidden) {
					t.Errorf("%v is not of the kind", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			leaveGroup(t, c, prefix, scramOption("owner", "pass"))
			err = k.Close()
			_, stat := os.Stat(ledger)
			if one.closed == "" {
				if err != nil || !os.IsNotExist(stat) {
					t.Errorf("closing: %v; the ledger: %v", err, stat)
				}
				return
			}
			want(t, err, one.closed)
			if !errors.Is(err, ErrForbidden) || stat != nil {
				t.Errorf("%v is not of the kind, or nothing is left for a later run: %v", err, stat)
			}
		})
	}
}

// leaveGroup creates a group with a committed offset and no members.
func leaveGroup(t testing.TB, c *kfake.Cluster, group string, options ...kgo.Opt) {
	t.Helper()
	member := join(t, c, group, options...)
	must.Do(t, member.CommitRecords(within(t), &kgo.Record{Topic: prefix + ".input", Partition: 0, Offset: 0}))
	member.Close()
}

// join creates a group with one member.
func join(t testing.TB, c *kfake.Cluster, group string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	joined := make(chan struct{}, 10)
	client := must.Get(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(prefix + ".input"),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			joined <- struct{}{}
		})}, options...)...))(t)
	t.Cleanup(client.Close)
	polling, stop := context.WithCancel(context.Background())
	defer stop()
	go client.PollFetches(polling)
	select {
	case <-joined:
	case <-time.After(patience):
		t.Fatal("no partitions were assigned")
	}
	return client
}

func groups(t testing.TB, o owner) []string {
	t.Helper()
	listed := must.Get(o.ListGroups(within(t)))(t)
	return listed.Groups()
}

// The groups of the run are removed, including those with abandoned members; other users' groups stay.
func TestGroupsAreRemoved(t *testing.T) {
	for name, options := range map[string][]kgo.Opt{
		"classic": nil, "KIP-848": {kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, 1)
			k := connect(t, plainConfig(c), Options{})
			must.Do(t, k.CreateTopics(within(t), runTopics()))
			leaveGroup(t, c, prefix+".idle", options...)
			leaveGroup(t, c, prefix+"4", options...) // belongs to another run
			leaveGroup(t, c, "orders", options...)
			stuck := join(t, c, prefix, options...)
			c.ControlKey(11, func(kmsg.Request) (kmsg.Response, error, bool) { // who was taken out does not come back
				c.KeepControl()
				return nil, errors.New("no"), true
			})
			c.ControlKey(68, func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if request.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch == 0 {
					return nil, errors.New("no"), true
				}
				return nil, nil, false
			})
			if err := k.Close(); err != nil {
				t.Error(err)
			}
			if got := groups(t, theirs(t, c)); !slices.Equal(got, []string{prefix + "4", "orders"}) {
				t.Errorf("there are the groups %q", got)
			}
			stuck.Close()
		})
	}
}

// A killed run leaves its ledger, and the next one removes exactly what the ledger lists.
func TestSweep(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	owner := theirs(t, c)
	owner.create(t, "orders")
	ledger := filepath.Join(t.TempDir(), "external.json")
	killed := connect(t, plainConfig(c), Options{Ledger: ledger})
	must.Do(t, killed.CreateTopics(within(t), runTopics()))
	leaveGroup(t, c, prefix)
	killed.client.Close() // and nothing more
	killed.closed = true
	owner.create(t, prefix+".input-changelog") // created by the subject itself
	must.Get(owner.DeleteTopic(within(t), prefix+".input.dlq"))(t)
	owner.create(t, prefix+".input.dlq") // recreated by another user

	other := start(t, 1, kfake.ClusterID("another"), kfake.SeedTopics(1, prefix+".input"))
	_, err := Sweep(within(t), Config{Bootstrap: other.ListenAddrs()}, ledger)
	want(t, err, `it ran on cluster "theirs", and this one is "another"`)
	if !errors.Is(err, ErrForeign) {
		t.Errorf("%v is not of the kind", err)
	}

	removed := must.Get(Sweep(within(t), Config{Bootstrap: c.ListenAddrs()}, ledger))(t)
	if want := []string{"topic " + prefix + ".input", "group " + prefix}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	if got, want := owner.names(t), []string{prefix + ".input-changelog", prefix + ".input.dlq", "orders"}; !slices.Equal(
		got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if _, err := os.Stat(ledger); !os.IsNotExist(err) {
		t.Errorf("the ledger: %v", err)
	}
	if removed, err := Sweep(within(t), Config{Bootstrap: []string{closedPort(t)}}, ledger); removed != nil || err != nil {
		t.Errorf("without a ledger: %q, %v", removed, err)
	}
}

// Killed between the ledger entry and the creation: there is an entry without an id, and perhaps a topic.
func TestSweepAfterHalfACreation(t *testing.T) {
	c := start(t, 1, kfake.SeedTopics(1, prefix+".a"))
	path := filepath.Join(t.TempDir(), "external.json")
	half := newLedger(path, prefix, "theirs")
	half.Topics = map[string]string{prefix + ".a": "", prefix + ".b": ""}
	must.Do(t, half.write())
	removed, err := Sweep(within(t), Config{Bootstrap: c.ListenAddrs()}, path)
	if err != nil || !slices.Equal(removed, []string{"topic " + prefix + ".a"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
}

func TestLedgersThatAreRefused(t *testing.T) {
	for name, one := range map[string]struct{ text, says string }{
		"no JSON":           {"{", "external.json"},
		"another format":    {`{"format": 2, "prefix": "p"}`, "not in format 1"},
		"no prefix":         {`{"format": 1, "topics": {"orders": ""}}`, "not in format 1"},
		"a topic of others": {`{"format": 1, "prefix": "p", "topics": {"orders": ""}}`, "not under the prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "external.json", one.text)
			_, err := Sweep(within(t), Config{Bootstrap: []string{closedPort(t)}}, path)
			want(t, err, one.says)
		})
	}
}

// Topics that dlqbench did not create stay, and are reported.
func TestOthersTopicsUnderThePrefixAreNamed(t *testing.T) {
	c := start(t, 1)
	owner := theirs(t, c)
	var said bytes.Buffer
	k := connect(t, plainConfig(c), Options{Log: zerolog.New(&said).Level(zerolog.WarnLevel)})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	owner.create(t, prefix+".changelog")
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if got := owner.names(t); !slices.Equal(got, []string{prefix + ".changelog"}) ||
		!strings.Contains(said.String(), prefix+".changelog") {
		t.Errorf("there are %q, and the log says %q", got, said.String())
	}
}

func TestKeep(t *testing.T) {
	c := start(t, 1)
	config := plainConfig(c)
	config.Keep = true
	ledger := filepath.Join(t.TempDir(), "external.json")
	k := connect(t, config, Options{Ledger: ledger})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	leaveGroup(t, c, prefix)
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	owner := theirs(t, c)
	if got := owner.names(t); len(got) != 2 || !slices.Equal(groups(t, owner), []string{prefix}) {
		t.Errorf("there are %q", got)
	}
	if _, err := os.Stat(ledger); !os.IsNotExist(err) {
		t.Errorf("the ledger, by which a later run would remove them: %v", err)
	}
}

// Observed on Kafka 4.4: the controller confirms that topics are deleted, while the broker, which has not fetched
// that yet, still lists them. A check after Close must find none.
func TestCloseWaitsUntilTopicsAreNotListed(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	k := connect(t, plainConfig(c), Options{})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	var deleted atomic.Bool
	var stale atomic.Int32
	c.ControlKey(int16(kmsg.DeleteTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		deleted.Store(true)
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Metadata), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !deleted.Load() || stale.Add(1) > 2 {
			return nil, nil, false
		}
		host, port, _ := net.SplitHostPort(c.ListenAddrs()[0])
		number, _ := strconv.Atoi(port)
		answer, broker := asked.ResponseKind().(*kmsg.MetadataResponse), kmsg.NewMetadataResponseBroker()
		broker.Host, broker.Port = host, int32(number)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr(runTopics()[0].Name)
		answer.Brokers, answer.Topics = append(answer.Brokers, broker), append(answer.Topics, topic)
		return answer, nil, true
	})
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if got := stale.Load(); got < 3 {
		t.Errorf("Close returned although topics were listed: it asked %d times, want 3", got)
	}
}

// The cluster is gone when the run ends: Close returns soon, and the remains are recorded.
func TestCloseWithoutTheCluster(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	ledger := filepath.Join(t.TempDir(), "external.json")
	k := connect(t, plainConfig(c), Options{Ledger: ledger})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	c.Close()
	began := time.Now()
	want(t, k.Close(), "the next run tries again")
	if took := time.Since(began); took > 2*closeLimit {
		t.Errorf("it took %s", took)
	}
	if _, err := os.Stat(ledger); err != nil {
		t.Errorf("nothing is noted: %v", err)
	}
}

// TestShareGroupsAreRemoved checks that removing a share group (KIP-932) also removes the setting that a run made
// for it, and that another group's setting stays.
func TestShareGroupsAreRemoved(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	k := connect(t, plainConfig(c), Options{})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	owner := theirs(t, c)
	for _, group := range []string{prefix, "orders"} {
		must.Do(t, admin.BeginShareGroup(within(t), owner.kafka, group, "", false, nil))
		shares(t, c, group)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if got := groups(t, owner); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("there are the groups %q", got)
	}
	if ours, others := owner.reset(t, prefix), owner.reset(t, "orders"); ours == "earliest" || others != "earliest" {
		t.Errorf("the run's share group begins at %q, another at %q", ours, others)
	}
}

// shares creates a share group with one member, which leaves it when the test ends.
func shares(t testing.TB, c *kfake.Cluster, group string) {
	t.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ShareGroup(group),
		kgo.ConsumeTopics(prefix+".input")))(t)
	t.Cleanup(client.Close)
	polling, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	must.Do(t, client.ProduceSync(within(t), &kgo.Record{Topic: prefix + ".input", Value: []byte("x")}).
		FirstErr())
	if client.PollFetches(polling).NumRecords() == 0 {
		t.Fatal("the share group's member was handed nothing")
	}
}

// reset returns the setting for where a share group without offsets begins, "" if it is not set.
func (o owner) reset(t testing.TB, group string) string {
	t.Helper()
	const shareReset = "share.auto.offset.reset"
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, group,
		[]string{shareReset}
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response := must.Get(request.RequestWith(within(t), o.kafka))(t)
	for _, described := range response.Resources {
		for _, config := range described.Configs {
			if config.Name == shareReset && config.Value != nil {
				return *config.Value
			}
		}
	}
	return ""
}
