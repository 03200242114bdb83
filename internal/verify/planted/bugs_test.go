package planted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trialed are the anomalies that the small trials look for. The others need a group of several members, a kill, a
// drain, a retry topic or measured time. The proof covers them: it runs every planted bug end to end.
func trialed() []string {
	return []string{
		"commit-before-dlq", "commit-without-dlq", "commit-advanced-while-dlq-down", "failure-not-surfaced",
		"commit-regressed", "over-retried",
		"under-retried", "backoff-early", "backoff-not-growing", "cap-exceeded", "no-jitter", "permanent-retried",
		"logical-dead-lettered", "dual-terminal", "reordered",
		"duplicate", "payload-changed", "key-changed", "headers-lost", "metadata-wrong", "dlq-duplicate", "replay-lost",
		"replay-duplicated", "replay-altered", "replay-wrong-topic", "selected-wrong",
	}
}

func inTrials(bug Bug) bool {
	ownScenario := slices.Contains([]string{"mix", "dlq-down", "dlq-slow", "replay"}, bug.Scenario)
	switch bug.Name {
	case "payload-re-encoded", "envelope-twice", "reason-of-another", "epoch-made-up":
		return false // the trials identify a dead letter by its value, and check only its position and attempts
	case "attempts-from-zero", "letters-written-in-batches":
		return false // the trials report wrong attempts as missing, and have fewer dead letters than a batch
	}
	return bug.Name == "none" ||
		bug.Invariant == "graceful-stop" && bug.Anomaly != "stop-timeout" || bug.Name == "commit-past-unfinished" ||
		bug.Name == "metadata-missing" || ownScenario && slices.Contains(trialed(), bug.Anomaly)
}

// TestEveryBugShowsItsAnomaly runs the control, and each planted bug that small trials can show, through the same
// trials, which look for every anomaly.
func TestEveryBugShowsItsAnomaly(t *testing.T) {
	none, err := Named("none")
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range append([]Bug{none}, All()...) {
		if !inTrials(bug) {
			continue
		}
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			found := anomalies{}
			if bug.Consumer != nil {
				tryConsumer(t, bug, found)
			}
			if bug.Replay != nil {
				tryReplay(t, bug, found)
			}
			if bug.Name == "none" && len(found) > 0 {
				t.Errorf("the control shows %v", found)
			}
			if bug.Name != "none" && found[bug.Anomaly] == 0 {
				t.Errorf("%s is not among %v", bug.Anomaly, found)
			}
		})
	}
}

func TestBugsAreDescribed(t *testing.T) {
	seen := map[string]bool{"none": true}
	for _, bug := range All() {
		if seen[bug.Name] || bug.What == "" || bug.Anomaly == "" || bug.Invariant == "" ||
			bug.Scenario == "" || parts(bug) != 1 {
			t.Errorf("%+v", bug)
		}
		seen[bug.Name] = true
		if named, err := Named(bug.Name); err != nil || named.What != bug.What {
			t.Errorf("%s is not found by its name: %v", bug.Name, err)
		}
	}
	if _, err := Named("no-such"); err == nil || !strings.Contains(err.Error(), "commit-before-dlq-ack") {
		t.Errorf("an unknown name gave %v", err)
	}
}

// parts counts the components that have the bug.
func parts(bug Bug) int {
	count := 0
	for _, has := range []bool{bug.Consumer != nil, bug.Replay != nil, bug.Router != nil, bug.Worker != nil,
		bug.Keeper != nil} {
		if has {
			count++
		}
	}
	return count
}

// anomalies counts findings by anomaly.
type anomalies map[string]int

func (a anomalies) note(bad bool, name string) {
	if bad {
		a[name]++
	}
}

const records = 80

// fate is the handler's answer for an offset.
func fate(offset int64) string {
	switch offset % 20 {
	case 2, 12:
		return "transient"
	case 4, 14:
		return "permanent"
	case 6, 16:
		return "logical"
	case 8, 18:
		return "exhausted"
	}
	return "success"
}

// trial is a Kafka with a topic of 80 records in 4 keys, and the handler's observations of them.
type trial struct {
	*testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	log     bytes.Buffer

	mu        sync.Mutex
	attempts  map[int64]int
	successes map[int64]int
	finished  map[int64]bool
	open      map[string]int64
	found     anomalies
}

func newTrial(t *testing.T, found anomalies) *trial {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "dlq"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); cluster.Close() })
	tr := &trial{T: t, cluster: cluster, client: client, attempts: map[int64]int{}, successes: map[int64]int{},
		finished: map[int64]bool{}, open: map[string]int64{}, found: found}
	all := make([]*kgo.Record, records)
	for i := range all {
		all[i] = original(i)
	}
	if err := client.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return tr
}

func original(i int) *kgo.Record {
	return &kgo.Record{
		Topic: "in", Key: fmt.Appendf(nil, "k%d", i%4), Value: fmt.Appendf(nil, "v%d", i),
		Headers: []kgo.RecordHeader{{Key: idHeader, Value: fmt.Appendf(nil, "id%d", i)}, {Key: "trace", Value: []byte("t")}},
	}
}

func (tr *trial) handle(_ context.Context, record *kgo.Record) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	at, key := record.Offset, string(record.Key)
	if open, found := tr.open[key]; found && open != at {
		tr.found.note(true, "reordered")
	}
	tr.open[key] = at
	tr.attempts[at]++
	switch what := fate(at); {
	case what == "permanent":
		return &consumer.Error{Class: consumer.Permanent, Err: errors.New("broken")}
	case what == "logical":
		tr.end(key, at)
		return &consumer.Error{Class: consumer.Logical, Err: errors.New("declined")}
	case what == "exhausted", what == "transient" && tr.attempts[at] < 3:
		return errors.New("down")
	}
	tr.successes[at]++
	tr.end(key, at)
	return nil
}

func (tr *trial) end(key string, at int64) {
	tr.finished[at] = true
	delete(tr.open, key)
}

func settings() consumer.Settings {
	s := consumer.DefaultSettings()
	s.RetryBackoffMS, s.MaxRetryBackoffMS, s.RetryJitterMS = 10, 40, 2
	s.CommitInterval = units.Duration(5 * time.Millisecond)
	return s
}

// start runs the planted bug. The returned function stops it.
func (tr *trial) start(bug Bug, s consumer.Settings, handler consumer.Handler) (*consumer.Consumer, func()) {
	tr.Helper()
	config := consumer.Config{
		Bootstrap: tr.cluster.ListenAddrs(), Topic: "in", DLQTopic: "dlq", Group: "g", Settings: s, Handler: handler,
		Logger: zerolog.New(&tr.log),
	}
	parts := consumer.DefaultParts(s)
	bug.Consumer(&config, &parts)
	c, err := consumer.New(config, parts)
	if err != nil {
		tr.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			tr.Error(err)
		}
	}
}

// await waits until the condition holds or a time limit passes, because a planted bug may prevent the condition.
func (tr *trial) await(condition func() bool) {
	for deadline := time.Now().Add(10 * time.Second); !condition() && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
}

func (tr *trial) committed() int64 {
	offsets, err := kadm.NewClient(tr.client).FetchOffsets(context.Background(), "g")
	if at, found := offsets.Lookup("in", 0); err == nil && found {
		return at.At
	}
	return 0
}

// content returns the records of a topic by value.
func (tr *trial) content(topic string) map[string][]*kgo.Record {
	ends, err := kadm.NewClient(tr.client).ListEndOffsets(context.Background(), topic)
	if err != nil {
		tr.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	reader, err := kgo.NewClient(kgo.SeedBrokers(tr.cluster.ListenAddrs()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		tr.Fatal(err)
	}
	defer reader.Close()
	all := map[string][]*kgo.Record{}
	for n := int64(0); n < end.Offset; {
		for _, record := range reader.PollFetches(tr.Context()).Records() {
			all[strings.TrimSpace(string(record.Value))] = append(all[strings.TrimSpace(string(record.Value))], record)
			n++
		}
	}
	return all
}

// tryConsumer continues until the anomaly is found. For the control it runs all trials.
func tryConsumer(t *testing.T, bug Bug, found anomalies) {
	for _, try := range []func(){
		func() { tryPolicy(bug, found) },
		func() { tryProcessing(newTrial(t, found), bug) },
		func() { tryOutage(newTrial(t, anomalies{}), bug, found) },
		func() { tryStop(newTrial(t, anomalies{}), bug, found) },
	} {
		if try(); found[bug.Anomaly] > 0 {
			return
		}
	}
}

// tryPolicy asks the policy for its waits, because measured waits would be noisy.
func tryPolicy(bug Bug, found anomalies) {
	s := settings()
	s.MaxRetries = 8
	config, parts := consumer.Config{Settings: s}, consumer.DefaultParts(s)
	bug.Consumer(&config, &parts)
	wait := func(attempts int, err error) time.Duration {
		return parts.Policy.Decide(&kgo.Record{}, attempts, err).Wait
	}
	down := errors.New("down")
	first, second, fifth := wait(1, down), wait(2, down), wait(5, down)
	found.note(second < first*3/2, "backoff-not-growing")
	found.note(first < 10*time.Millisecond || wait(1, &consumer.Error{RetryAfter: time.Second, Err: down}) < time.Second,
		"backoff-early")
	found.note(fifth > 42*time.Millisecond, "cap-exceeded")
	same := true
	for range 50 {
		same = same && wait(1, down) == first
	}
	found.note(same, "no-jitter")
}

// tryProcessing consumes everything and compares the commits, the attempts and the dead letters with the planned
// answers.
func tryProcessing(tr *trial, bug Bug) {
	last := int64(0)
	tr.cluster.ControlKey(int16(kmsg.OffsetCommit), func(request kmsg.Request) (kmsg.Response, error, bool) {
		tr.cluster.KeepControl()
		commit, _ := request.(*kmsg.OffsetCommitRequest)
		at := commit.Topics[0].Partitions[0].Offset
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.found.note(at < last, "commit-regressed")
		last = max(last, at)
		for offset := range at {
			tr.found.note(!tr.finished[offset] && fate(offset) == "transient", "commit-past-unfinished")
		}
		return nil, nil, false
	})
	_, stop := tr.start(bug, settings(), func(ctx context.Context, record *kgo.Record) error {
		err := tr.handle(ctx, record)
		if err != nil && (fate(record.Offset) == "permanent" || fate(record.Offset) == "exhausted") {
			tr.mu.Lock()
			delete(tr.open, string(record.Key)) // judged by the transient failures, whose end is visible here
			tr.mu.Unlock()
		}
		return err
	})
	tr.await(func() bool { return tr.committed() >= records-10 && len(tr.content("dlq")) >= 16 })
	stop()
	letters := tr.content("dlq")
	for offset := range int64(records) {
		tr.judge(offset, letters[fmt.Sprintf("v%d", offset)])
	}
}

func (tr *trial) judge(offset int64, letters []*kgo.Record) {
	attempts, what := tr.attempts[offset], fate(offset)
	tr.found.note(what == "exhausted" && attempts > 3, "over-retried")
	tr.found.note(what == "exhausted" && attempts < 3, "under-retried")
	tr.found.note(what == "permanent" && attempts > 1, "permanent-retried")
	tr.found.note(what == "logical" && len(letters) > 0, "logical-dead-lettered")
	tr.found.note(tr.successes[offset] > 0 && len(letters) > 0, "dual-terminal")
	tr.found.note(tr.successes[offset] > 1, "duplicate")
	tr.found.note(len(letters) > 1, "dlq-duplicate")
	for _, letter := range letters {
		source := original(int(offset))
		failure, missing := deadletter.Plain{}.Open(letter)
		tr.found.note(!bytes.Equal(letter.Value, source.Value), "payload-changed")
		tr.found.note(!bytes.Equal(letter.Key, source.Key), "key-changed")
		tr.found.note(len(missing) > 0, "metadata-missing")
		tr.found.note(failure.Offset != offset || failure.Topic != "in" || failure.Partition != 0, "metadata-wrong")
		for _, header := range source.Headers {
			tr.found.note(!slices.ContainsFunc(letter.Headers, func(h kgo.RecordHeader) bool {
				return h.Key == header.Key && bytes.Equal(h.Value, header.Value)
			}), "headers-lost")
		}
	}
}

// tryOutage makes the DLQ refuse everything until the commits stop, and then lifts the outage. A planted bug that has
// given up the dead letter never publishes it, so there is nothing to wait for.
func tryOutage(tr *trial, bug Bug, found anomalies) {
	fault := tr.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "dlq", Err: kerr.NotEnoughReplicas,
		Count: -1})
	_, stop := tr.start(bug, settings(), func(_ context.Context, record *kgo.Record) error {
		if record.Offset == 7 {
			return &consumer.Error{Class: consumer.Permanent, Err: errors.New("broken")}
		}
		return nil
	})
	tr.await(func() bool { return tr.committed() >= 7 && fault.Hits() > 8 || tr.committed() > 7 })
	passed := tr.committed() > 7
	fault.Remove()
	tr.await(func() bool {
		return len(tr.content("dlq")) > 0 || bug.Anomaly == "commit-without-dlq" ||
			fault.Hits() < 8 && passed && bug.Name != "commit-before-dlq-ack"
	})
	letters := len(tr.content("dlq")["v7"])
	tr.await(func() bool { return tr.committed() >= records-10 })
	stop()
	found.note(passed && letters > 0, "commit-before-dlq")
	found.note(passed && letters == 0, "commit-without-dlq")
	found.note(passed && fault.Hits() > 2, "commit-advanced-while-dlq-down")
	found.note(!strings.Contains(tr.log.String(), `"level":"error"`) && !passed, "failure-not-surfaced")
}

// tryStop stops while half of the records are in backoff.
func tryStop(tr *trial, bug Bug, found anomalies) {
	s := settings()
	s.RetryBackoffMS, s.MaxRetryBackoffMS, s.Ordering = 60_000, 60_000, consumer.OrderingNone
	c, stop := tr.start(bug, s, func(_ context.Context, record *kgo.Record) error {
		if record.Offset%2 == 1 {
			return errors.New("down")
		}
		return nil
	})
	tr.await(func() bool { return c.Health().Waiting == records/2 })
	stop()
	letters := len(tr.content("dlq"))
	found.note(tr.committed() > 1 && letters == 0, "lost")
	found.note(letters > 0, "premature-dead-letter")
}

// tryReplay replays half of the dead letters and compares the replayed records with the originals.
func tryReplay(t *testing.T, bug Bug, found anomalies) {
	tr := newTrial(t, found)
	var letters []*kgo.Record
	for i := range records {
		letter := deadletter.Plain{}.Seal(original(i), deadletter.Failure{Reason: []string{"even", "odd"}[i%2], Attempts: 3,
			Topic: "back", Offset: int64(i)})
		letter.Topic = "dlq"
		letters = append(letters, letter)
	}
	if err := tr.cluster.CreateTopic("back", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := tr.client.ProduceSync(t.Context(), letters...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	config := deadletter.Config{Bootstrap: tr.cluster.ListenAddrs(), From: "dlq", Where: `reason == "even"`}
	bug.Replay(&config)
	if _, err := deadletter.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	back, kept := tr.content("back"), tr.content("dlq")
	for i := range records {
		value := fmt.Sprintf("v%d", i)
		copies := back[value]
		found.note(i%2 == 0 && len(copies) > 1, "replay-duplicated")
		found.note(len(kept[value]) > 1, "replay-wrong-topic")
		found.note(i%2 == 0 && len(copies) == 0 && len(kept[value]) == 1, "replay-lost")
		found.note(i%2 == 1 && len(copies) > 0, "selected-wrong")
		for _, record := range copies {
			source := original(i)
			found.note(string(record.Value) != string(source.Value) || string(record.Key) != string(source.Key) ||
				fmt.Sprint(record.Headers) != fmt.Sprint(source.Headers), "replay-altered")
		}
	}
}
