package clients_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	provider "github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// events collects what the tap observed.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (l *events) Record(e history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *events) of(kinds ...history.Kind) []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []history.Event
	for _, e := range l.all {
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// spoken is what clients said to the tap, by API and version. It lets everything pass.
type spoken struct {
	asked *asked

	mu    sync.Mutex
	times map[[2]int16]int
}

func (s *spoken) Intercept(x *tap.Exchange) tap.Action {
	s.mu.Lock()
	s.times[[2]int16{x.APIKey, x.Version}]++
	s.mu.Unlock()
	s.asked.note(x)
	return tap.Action{}
}

// count is how often an API was used.
func (s *spoken) count(key int16) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, n := range s.times {
		if at[0] == key {
			times += n
		}
	}
	return times
}

func (s *spoken) has(key int16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.times {
		if at[0] == key {
			return true
		}
	}
	return false
}

// String lists the APIs with their versions and how often each was used.
func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for _, at := range slices.SortedFunc(maps.Keys(s.times), func(a, b [2]int16) int {
		return slices.Compare(a[:], b[:])
	}) {
		words = append(words, fmt.Sprintf("%s v%d ×%d", kmsg.NameForKey(at[0]), at[1], s.times[at]))
	}
	return strings.Join(words, ", ")
}

// rig is a tap with one instance before the brokers, the topics of one client's test, and the test's own way to the
// cluster.
type rig struct {
	*cluster
	tap           *tap.Tap
	bootstrap     string
	input, output string
	group         string
	ids           *history.IDs
	clock         *history.RunClock
	nextOp        func() int64
	events        *events
	spoken        *spoken
	asked         *asked
	meanwhile     func(*testing.T) // called again and again while a client is waited for
	placed        int32            // how moveLeaders was called last
	freed         int              // how often a stranded partition was freed
	warnings      *tail            // of the tap
	admin         *kadm.Client
	client        *kgo.Client
}

const partitions = 3

// newRig makes the topics and opens the tap.
func (c *cluster) newRig(t *testing.T) *rig {
	t.Helper()
	name := strings.NewReplacer("/", ".").Replace(t.Name())
	r := &rig{
		cluster: c, input: name + ".input", output: name + ".output", group: name, ids: history.NewIDs(name),
		events: &events{}, warnings: &tail{}, clock: history.NewClock(), meanwhile: func(*testing.T) {},
	}
	r.asked = newAsked(r.clock.Now)
	r.spoken = &spoken{asked: r.asked, times: map[[2]int16]int{}}
	var upstreams []tap.Upstream
	for _, b := range c.running.Brokers() {
		upstreams = append(upstreams, tap.Upstream{NodeID: b.ID, Dial: network.Upstream{Address: b.Address}.Connect})
	}
	r.client = c.direct(t)
	r.admin = kadm.NewClient(r.client)
	topics := []provider.Topic{{Name: r.input, Partitions: partitions}, {Name: r.output, Partitions: partitions}}
	if err := c.running.CreateTopics(within(t), topics); err != nil {
		t.Fatal(err)
	}
	var op atomic.Int64
	r.nextOp = func() int64 { return op.Add(1) }
	r.tap = tap.New(tap.Config{
		Clock: r.clock, Sink: r.events, NextOp: r.nextOp, IDs: r.ids, Topics: r.topics(),
		Upstreams: upstreams, Group: r.group, Log: zerolog.New(r.warnings).Level(zerolog.WarnLevel), Interceptor: r.spoken,
		TopicIDs: r.topicIDs,
	})
	bootstrap, err := r.tap.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	r.bootstrap = bootstrap
	t.Cleanup(func() {
		if err := r.tap.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) topicIDs(ctx context.Context, names []string) (map[string][16]byte, error) {
	ids := map[string][16]byte{}
	topics, err := r.admin.ListTopics(ctx, names...)
	for name, topic := range topics {
		ids[name] = topic.ID
	}
	return ids, err
}

func (r *rig) topics() []history.Topic {
	return []history.Topic{
		{Name: r.input, Role: history.RoleInput, Partitions: partitions},
		{Name: r.output, Role: history.RoleDLQ, Partitions: partitions},
	}
}

// direct returns a client that goes straight to the brokers.
func (c *cluster) direct(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(append(c.running.ClientOptions(), kgo.DisableClientMetrics(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // aiokafka and kafkajs have no codec of their own
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MetadataMinAge(100*time.Millisecond)), options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// feed produces records first … first+n-1 to the input, one every pause.
func (r *rig) feed(t *testing.T, first, n int, pause time.Duration) {
	t.Helper()
	ctx := within(t)
	failed := make(chan error, n)
	for i := first; i < first+n; i++ {
		record := &kgo.Record{Topic: r.input, Value: []byte(`{"id":"` + r.ids.Token(int32(i)) + `"}`)}
		r.client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed <- err
			}
		})
		time.Sleep(pause) // the pace of the load, not a wait for something
	}
	if err := r.client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatalf("feeding the input: %v", err)
	default:
	}
}

// moveLeaders gives every partition of the input and the output another leader.
func (r *rig) moveLeaders(t *testing.T, by int32) {
	t.Helper()
	r.placed = by
	ctx := within(t)
	var request kadm.AlterPartitionAssignmentsReq
	var elect kadm.TopicsSet
	for _, topic := range []string{r.input, r.output} {
		for p := range int32(partitions) {
			first := (p + by) % 3
			request.Assign(topic, p, []int32{first + 1, (first+1)%3 + 1, (first+2)%3 + 1})
			elect.Add(topic, p)
		}
	}
	if _, err := r.admin.AlterPartitionAssignments(ctx, request); err != nil {
		t.Fatalf("changing which replica is preferred: %v", err)
	}
	wait.Until(t, "every partition is led by its preferred replica", func() bool {
		results, err := r.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect)
		if err != nil {
			return false
		}
		settled := true
		for _, topic := range results {
			for _, one := range topic {
				settled = settled && (one.Err == nil || errors.Is(one.Err, kerr.ElectionNotNeeded))
			}
		}
		topics, err := r.admin.ListTopics(ctx, r.input, r.output)
		if err != nil {
			return false
		}
		topics.EachPartition(func(p kadm.PartitionDetail) { settled = settled && p.Leader == (p.Partition+by)%3+1 })
		return settled
	})
}

// restart ends a broker in an orderly way and starts it again on its ports and data.
func (r *rig) restart(t *testing.T, number int32) {
	t.Helper()
	if _, err := r.running.StopBroker(within(t), number); err != nil {
		t.Fatal(err)
	}
	r.asked.lost(number)
	if err := r.running.StartBroker(within(t), number); err != nil {
		t.Fatal(err)
	}
}

// program is a client that runs in a process of its own.
type program struct {
	command *exec.Cmd
	output  *tail
	ended   chan error
}

func run(t *testing.T, command *exec.Cmd) *program {
	t.Helper()
	p := &program{command: command, output: &tail{}, ended: make(chan error, 1)}
	command.Stdout, command.Stderr = p.output, p.output
	if err := command.Start(); err != nil {
		t.Fatalf("starting a client: %v", err)
	}
	waited := make(chan struct{})
	go func() { // ended below: the process is killed when the test is over
		defer close(waited)
		p.ended <- command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-waited
	})
	return p
}

// succeed waits until the program has ended by itself and well, and does something again and again meanwhile.
func (p *program) succeed(t *testing.T, meanwhile func(*testing.T)) {
	t.Helper()
	again, late := time.NewTicker(100*time.Millisecond), time.After(patience)
	defer again.Stop()
	for {
		select {
		case err := <-p.ended:
			if err != nil {
				lines := strings.Split(strings.TrimSpace(p.output.String()), "\n")
				t.Fatalf("the client failed: %v: %s\n%s", err, lines[len(lines)-1], p.output)
			}
			return
		case <-again.C:
			meanwhile(t)
		case <-late:
			t.Fatalf("the client did not end within %s:\n%s", patience, p.output)
		}
	}
}

// records are how many every client takes from the input and writes to the output.
const records = 300

// exercise feeds a client in three parts while leaders move and a broker is restarted, and holds the tap to its
// promises.
func (r *rig) exercise(t *testing.T, command *exec.Cmd) {
	t.Helper()
	client := run(t, command)
	w := startWatch(t, r.ports(t), command.Process.Pid)
	defer w.expectNone(t) // a client that went around the tap fails in other ways too: this tells why
	const pause = 5 * time.Millisecond
	r.feed(t, 0, records/3, pause)
	wait.Until(t, "the client has written something", func() bool {
		r.stillRuns(t, client)
		return len(r.events.of(history.KindProduceResponse)) > 0
	})
	r.moveLeaders(t, 1)
	r.feed(t, records/3, records/3, pause)
	r.restart(t, 2)
	r.moveLeaders(t, 2)
	r.feed(t, 2*records/3, records/3, pause)
	client.succeed(t, r.meanwhile)
	w.end()
	for port := range r.ports(t) {
		if strings.Contains(client.output.String(), fmt.Sprintf("127.0.0.1:%d", port)) {
			t.Errorf("the client was told of the broker at port %d:\n%s", port, client.output)
		}
	}
	r.expectCopied(t)
	if said := r.warnings.String(); strings.Contains(said, `"level":"error"`) {
		t.Errorf("the tap reported errors:\n%s", said)
	}
	t.Logf("%s: up to %d connections, %d looks; spoken: %s", t.Name(), w.through, w.looks, r.spoken)
	if os.Getenv("CLIENTS_SHOW") != "" {
		t.Log(client.output.String())
	}
}

func (r *rig) stillRuns(t *testing.T, client *program) {
	t.Helper()
	select {
	case err := <-client.ended:
		t.Fatalf("the client ended early: %v\n%s", err, client.output)
	default:
	}
}

// expectCopied compares what the tap saw with what is in the output.
func (r *rig) expectCopied(t *testing.T) {
	t.Helper()
	stored := r.read(t, r.output, kgo.ReadCommitted())
	acknowledged := map[int32]bool{}
	for _, e := range r.events.of(history.KindProduceResponse) {
		if e.Code == 0 {
			acknowledged[e.Record] = true
		}
	}
	for id := range int32(records) {
		switch {
		case stored[id] == 0:
			t.Errorf("record %d is not in the output", id)
		case !acknowledged[id]:
			t.Errorf("record %d is in the output, and the tap saw no acknowledgement of it", id)
		}
	}
}

// expectGroup: the tap saw what a consumer group does.
func (r *rig) expectGroup(t *testing.T) {
	t.Helper()
	fetched := r.fetched()
	for p := range int32(partitions) {
		if fetched[p] == 0 {
			t.Errorf("the tap saw nobody fetch from partition %d", p)
		}
	}
	for _, kind := range []history.Kind{history.KindAssigned, history.KindCommitRequest, history.KindCommitResponse} {
		if len(r.events.of(kind)) == 0 {
			t.Errorf("the tap saw no %s", kind)
		}
	}
}

// fetched is how many records of the input's partitions the tap saw handed out.
func (r *rig) fetched() map[int32]int64 {
	found := map[int32]int64{}
	for _, e := range r.events.of(history.KindFetched) {
		if e.Topic == 0 {
			found[e.Partition] += e.Aux - e.Offset + 1
		}
	}
	return found
}

// read counts the records in a topic by their ids, up to its ends of now.
func (r *rig) read(t *testing.T, topic string, isolation kgo.IsolationLevel) map[int32]int {
	t.Helper()
	found := map[int32]int{}
	r.each(t, topic, isolation, func(_ *kgo.Record, id int32) { found[id]++ })
	return found
}

// each gives every record of the topic with its id to take, and returns the ends up to which it read.
func (r *rig) each(t *testing.T, topic string, isolation kgo.IsolationLevel,
	take func(record *kgo.Record, id int32)) map[int32]int64 {
	t.Helper()
	ctx := within(t)
	offsets, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil || offsets.Error() != nil {
		t.Fatalf("asking for the ends of %s: %v %v", topic, err, offsets.Error())
	}
	ends, from := map[int32]int64{}, map[int32]kgo.Offset{}
	offsets.Each(func(o kadm.ListedOffset) {
		ends[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().At(0)
	})
	left := maps.Clone(ends)
	maps.DeleteFunc(left, func(_ int32, end int64) bool { return end == 0 })
	// Control records are handed out too, so that an end is seen that is one.
	reader := r.direct(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("reading %s: not at the end of %v", topic, left)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset >= left[record.Partition]-1 {
				delete(left, record.Partition)
			}
			if record.Attrs.IsControl() {
				return
			}
			id, ok := r.ids.Find(record.Value)
			if !ok {
				id = history.None
			}
			take(record, id)
		})
	}
	return ends
}
