package run

// What a subject reads, writes and calls, for a subject file that does not say so.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// Discovery collects what a subject shows of itself that its file may not say. It is safe for concurrent use.
type Discovery struct {
	// Answer, if set, returns the body of the answer 200 to a call over HTTP without a record's id, which is answered 404
	// otherwise. One over gRPC is answered with an empty message. And a run does not wait for a subject that has ended.
	Answer func(call workload.Called) string
	// Likely are names that topics may have. In a first look, they are created when a client asks for all topics: one
	// that then answers its application from what it has (kafka-go's Writer) asks for no topic by its name.
	Likely []string

	mu     sync.Mutex
	seen   Sighting
	latest time.Time // when the last topic that it reads was first seen
	made   map[string]bool
}

// Sighting is what was seen of a subject.
type Sighting struct {
	// Groups are the consumer and share groups that it joins.
	Groups []JoinedGroup
	// Read are the topics that it fetches from, in the order in which they were first seen.
	Read []string
	// Calls are its calls over HTTP and gRPC, up to a limit.
	Calls []DownstreamCall
	// Others are the records in the topics that the run does not know, in which it found something at its end.
	Others map[string][]OtherRecord
}

// JoinedGroup is a group that a member joins. Session is the timeout that it asks for, 0 where the broker sets it.
// Topics are those that members subscribe to by name.
type JoinedGroup struct {
	Name    string
	Share   bool
	Session time.Duration
	Topics  []string
}

// DownstreamCall is a call of a downstream.
type DownstreamCall struct {
	Downstream string
	workload.Called
}

// OtherRecord is a record in a topic that the run does not know. Record is the number of the one that it is about,
// history.None if it names none.
type OtherRecord struct {
	Record int32
	Found  *kgo.Record
}

const (
	// callsKept bounds the calls that are kept, and othersKept the records of a topic.
	callsKept, othersKept = 2000, 2000
	// namedQuiet is how long no further topic is read before the names count as complete: listeners in one process
	// start one after the other.
	namedQuiet = 1500 * time.Millisecond
	// createLimit bounds the creation of a topic, during which the client waits for its answer.
	createLimit = 5 * time.Second
)

// Seen returns what has been seen so far.
func (d *Discovery) Seen() Sighting {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.seen
	seen.Groups, seen.Calls = slices.Clone(seen.Groups), slices.Clone(seen.Calls)
	seen.Read, seen.Others = slices.Clone(seen.Read), maps.Clone(seen.Others)
	return seen
}

// Discover starts the subject with all that it needs, and ends it once it reads from a topic: the Discovery of the
// options then has its names. It sends no records, and judges nothing.
func Discover(ctx context.Context, options Options) (dir string, err error) {
	if err := procgroup.Supported(); err != nil {
		return "", environment("starting a run", err)
	}
	options.namesOnly = true
	cleanUpBefore(ctx, options)
	r, err := prepare(options)
	if err != nil {
		return "", err
	}
	r.enter(history.PhaseSetup)
	stopWatching := r.watch()
	defer stopWatching()
	return r.dir.path, r.seal(ctx, r.whileSetUp(ctx, r.discover))
}

func (r *run) discover(ctx context.Context) error {
	waiting, done := context.WithTimeout(ctx, r.subject.ReadyLimit(0)) // its readiness may say less than its fetches
	defer done()
	select {
	case <-r.options.Discovery.named(waiting):
	case <-waiting.Done():
	}
	return errors.Join(r.abandonment(), context.Cause(ctx))
}

// named returns a channel that is closed when the subject reads from topics, and has found no further one for a while.
func (d *Discovery) named(ctx context.Context) <-chan struct{} {
	named := make(chan struct{})
	go func() {
		tick := time.NewTicker(namedQuiet / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.mu.Lock()
				quiet := !d.latest.IsZero() && time.Since(d.latest) >= namedQuiet
				d.mu.Unlock()
				if quiet {
					close(named)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return named
}

// discovering sees the requests of the subject before next does.
type discovering struct {
	*Discovery
	run  *run
	next tap.Interceptor
}

// Intercept implements tap.Interceptor. In a first look it creates the topics that a client asks for, before the
// answer. Later runs leave topics out that the file does not name, as every other run does.
func (d discovering) Intercept(x *tap.Exchange) tap.Action {
	if x.Instance >= 0 && x.APIKey != int16(kmsg.Produce) {
		if request, err := x.Request(); err == nil {
			d.see(x, request)
		}
	}
	return d.next.Intercept(x)
}

func (d discovering) see(x *tap.Exchange, request kmsg.Request) {
	switch r := request.(type) {
	case *kmsg.MetadataRequest:
		switch all := len(r.Topics) == 0 && (r.Topics == nil || r.Version == 0); {
		case !d.lookingOn() && !d.run.options.namesOnly:
		case all:
			d.create(d.Likely)
		default:
			d.create(x.Names())
		}
	case *kmsg.FetchRequest, *kmsg.ShareFetchRequest:
		d.reads(x.Names())
	case *kmsg.JoinGroupRequest:
		if r.ProtocolType == "consumer" {
			d.joins(JoinedGroup{Name: r.Group, Session: time.Duration(r.SessionTimeoutMillis) * time.Millisecond},
				tap.Subscribed(r))
		}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		d.joins(JoinedGroup{Name: r.Group}, r.SubscribedTopicNames)
	case *kmsg.ShareGroupHeartbeatRequest:
		d.joins(JoinedGroup{Name: r.GroupID, Share: true}, r.SubscribedTopicNames)
	}
}

func (d *Discovery) joins(group JoinedGroup, topics []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.seen.Groups, func(g JoinedGroup) bool { return g.Name == group.Name })
	if at < 0 {
		at = len(d.seen.Groups)
		d.seen.Groups = append(d.seen.Groups, group)
	}
	for _, topic := range topics {
		if !slices.Contains(d.seen.Groups[at].Topics, topic) {
			d.seen.Groups[at].Topics = append(d.seen.Groups[at].Topics, strings.Clone(topic))
		}
	}
}

func (d *Discovery) reads(topics []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, topic := range topics {
		if topic != "" && !slices.Contains(d.seen.Read, topic) {
			d.seen.Read, d.latest = append(d.seen.Read, topic), time.Now()
		}
	}
}

// create makes the topics that are asked for and that the run does not have. The client's connection waits for it: many
// clients give up at a topic that is not there. Kafka's own topics, and those that Kafka Streams makes with partitions
// of its choice, are left alone, and so is a cluster that others use.
func (d discovering) create(names []string) {
	if d.run.options.Cluster.provider().shared {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if name == "" || strings.HasPrefix(name, "__") || strings.HasSuffix(name, "-changelog") ||
			strings.HasSuffix(name, "-repartition") || d.made[name] || d.run.header.TopicIndex(name) >= 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), createLimit)
		err := d.run.cluster.CreateTopics(ctx, []cluster.Topic{{Name: name,
			Partitions: d.run.scenario.Topics.Input.Partitions}})
		cancel()
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // the consumer may have created it
			d.run.options.Log.Warn().Err(err).Msg("a topic that the consumer asks for could not be created")
			continue
		}
		if d.made == nil {
			d.made = map[string]bool{}
		}
		d.made[name] = true
	}
}

// lookingOn reports whether the run only looks at what the subject does.
func (d *Discovery) lookingOn() bool { return d != nil && d.Answer != nil }

// ended reports whether no instance is left.
func (r *run) ended() bool {
	for instance := range r.scenario.InstanceCount() {
		if r.subject.Alive(instance) {
			return false
		}
	}
	return true
}

// observer returns what a downstream stub tells of its calls; nil without a Discovery.
func (d *Discovery) observer(downstream string) func(workload.Called) (body string, answered bool) {
	if d == nil {
		return nil
	}
	return func(call workload.Called) (string, bool) {
		d.mu.Lock()
		if len(d.seen.Calls) < callsKept {
			d.seen.Calls = append(d.seen.Calls, DownstreamCall{downstream, call})
		}
		d.mu.Unlock()
		if !d.lookingOn() {
			return "", false
		}
		return d.Answer(call), true
	}
}

// auditOthers reads the topics that the subject asked for and that the run does not know.
func (r *run) auditOthers(ctx context.Context) error {
	d := r.options.Discovery
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.Others = map[string][]OtherRecord{}
	for topic := range d.made {
		err := r.readTopic(ctx, topic, func(found *kgo.Record) {
			number, known := findRecord(r.ids, found)
			if !known {
				number = history.None
			}
			if kept := d.seen.Others[topic]; len(kept) < othersKept {
				d.seen.Others[topic] = append(kept, OtherRecord{number, found})
			}
		})
		if err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
	}
	return nil
}
