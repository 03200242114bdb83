package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// exactlyOnce is a consumer that processes a record by asking the downstream, and dead-letters what fails: dead letters
// and offsets in one transaction (KIP-447). Each third transaction is aborted after everything in it was written. With
// leaky, dead letters are written outside of the transaction, after its end: the bug to be found.
func (j job) exactlyOnce(ctx context.Context, leaky bool) error {
	session, err := kgo.NewGroupTransactSession(append(j.options(), kgo.TransactionalID(j.group),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return err
	}
	defer session.Close()
	plain, err := kgo.NewClient(kgo.SeedBrokers(j.bootstrap...), kgo.DefaultProduceTopic(j.output))
	if err != nil {
		return err
	}
	defer plain.Close()
	done := map[string]bool{}
	for turn := 1; len(done) < j.count; {
		records := session.PollRecords(ctx, 20).Records()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", len(done), err)
		}
		if len(records) == 0 {
			continue
		}
		letters, err := attempt(ctx, records)
		if err != nil {
			return err
		}
		inside := letters
		if leaky {
			inside = nil
		}
		how := kgo.TransactionEndTry(turn%3 != 0)
		committed, err := transact(ctx, session, inside, how)
		if err != nil {
			return err
		}
		turn++
		if !committed {
			continue
		}
		if leaky {
			if err := plain.ProduceSync(ctx, letters...).FirstErr(); err != nil {
				return err
			}
		}
		for _, r := range records {
			done[string(r.Value)] = true
		}
	}
	return nil
}

// attempt asks the downstream about each record and returns the dead letters.
func attempt(ctx context.Context, records []*kgo.Record) (letters []*kgo.Record, err error) {
	for _, r := range records {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv(downstreamVariable),
			bytes.NewReader(r.Value))
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			letters = append(letters, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	return letters, nil
}

// transact writes the dead letters and the offsets in one transaction and ends it.
func transact(ctx context.Context, session *kgo.GroupTransactSession, letters []*kgo.Record,
	how kgo.TransactionEndTry) (committed bool, err error) {
	if err := session.Begin(); err != nil {
		return false, err
	}
	if err := session.ProduceSync(ctx, letters...).FirstErr(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Println("a dead letter failed, the transaction is aborted:", err)
		how = kgo.TryAbort
	}
	return session.End(ctx, how)
}

// downstreamVariable tells the consumer where the downstream is.
const downstreamVariable = "DLQBENCH_ORACLE_URL"

// stub answers attempts: each tenth record fails for good. It notes them as the harness's own would.
type stub struct {
	*rig
	mu    sync.Mutex
	tries map[int32]int32
}

func (o *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	record, found := o.ids.Find(body)
	if err != nil || !found {
		http.Error(w, "no record id", http.StatusNotFound)
		return
	}
	o.mu.Lock()
	o.tries[record]++
	attempt := o.tries[record]
	o.mu.Unlock()
	e := o.event(history.KindAttemptStart)
	e.Instance, e.Op, e.Record, e.N = 0, o.nextOp(), record, attempt
	o.events.Record(e)
	e.Kind, e.Outcome, e.Code = history.KindAttemptEnd, outcomeOf(record), http.StatusOK
	if e.Outcome != history.OutcomeSuccess {
		e.Code = http.StatusBadRequest
	}
	e.Time = o.clock.Now()
	o.events.Record(e)
	w.WriteHeader(int(e.Code))
}

func outcomeOf(record int32) history.Outcome {
	if record%10 == 0 {
		return history.OutcomePermanent
	}
	return history.OutcomeSuccess
}

func (r *rig) event(kind history.Kind) history.Event { return history.New(kind, r.clock.Now()) }

func (r *rig) phase(name string) {
	e := r.event(history.KindPhase)
	e.Text = name
	r.events.Record(e)
}

// workload produces the records from … to-1 and notes them as the harness's own would.
func (r *rig) workload(t *testing.T, from, to int) {
	t.Helper()
	ctx := within(t)
	client := r.direct(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := int32(from); i < int32(to); i++ {
		value := []byte(r.ids.Token(i))
		e := r.event(history.KindSend)
		e.Record, e.Topic, e.Partition, e.Outcome, e.ValueHash, e.Aux = i, 0, i%partitions, outcomeOf(i), xxhash.Sum64(value),
			int64(e.Time)
		r.events.Record(e)
		stored, err := client.ProduceSync(ctx, &kgo.Record{Topic: r.input, Partition: i % partitions, Value: value}).First()
		if err != nil {
			t.Fatal(err)
		}
		e = r.event(history.KindAcked)
		e.Record, e.Topic, e.Partition, e.Offset = i, 0, stored.Partition, stored.Offset
		r.events.Record(e)
	}
}

// audit reads the topics to their ends, as readers see them that do not want what was aborted, and the committed
// offsets.
func (r *rig) audit(t *testing.T) {
	t.Helper()
	committed, err := r.admin.FetchOffsets(within(t), r.group)
	if err != nil {
		t.Fatal(err)
	}
	for index, topic := range []string{r.input, r.output} {
		start := r.event(history.KindAuditStart)
		start.Topic = int16(index)
		r.events.Record(start)
		ends := r.each(t, topic, kgo.ReadCommitted(), func(record *kgo.Record, id int32) {
			e := r.event(history.KindAuditRecord)
			e.Topic, e.Partition, e.Offset, e.Record, e.ValueHash = int16(index), record.Partition, record.Offset, id,
				xxhash.Sum64(record.Value)
			r.events.Record(e)
		})
		for p := range int32(partitions) {
			e := r.event(history.KindAuditOffsets)
			e.Topic, e.Partition, e.Offset, e.Aux = int16(index), p, ends[p], history.None
			if at, found := committed.Lookup(topic, p); found {
				e.Aux = at.At
			}
			r.events.Record(e)
		}
	}
}

// judged are the invariants that a history without the harness's schedules, limits and envelopes can be held to.
func judged() []string {
	return []string{"no-loss", "commit-after-dlq", "commit-after-outcome", "bounded-retries", "classification", "dlq-once"}
}

func (r *rig) header(n int) history.Header {
	return history.Header{
		Format: history.FormatVersion, RunID: r.group, Scenario: "exactly-once", Instances: 1, Records: n,
		Topics: r.topics(), Consumers: []history.Consumer{{Group: r.group, Instances: 1, DLQ: 1, Contract: history.Contract{
			MaxAttempts: 1, Counter: history.CounterMemory, Permanent: []history.Outcome{history.OutcomePermanent},
			Ordering: history.OrderingNone, Retry: history.RetryInPlace, Envelope: "plain", OnFailure: history.OnFailureRetry,
		}}},
		Expect: history.Expect{Invariants: judged(), DuplicateShare: -1, DrainLimit: patience},
	}
}

// judge runs the exactly-once consumer, or its leaky form, over n records while leaders move, and judges what was
// observed.
func (r *rig) judge(t *testing.T, mode string, n int) *assertions.Verdict {
	t.Helper()
	server := httptest.NewServer(&stub{rig: r, tries: map[int32]int32{}})
	t.Cleanup(server.Close)
	t.Setenv(downstreamVariable, server.URL)
	r.phase(history.PhaseSetup)
	starting := r.event(history.KindInstanceStarting)
	starting.Instance = 0
	r.events.Record(starting)
	client := run(t, r.franz(t, mode, n))
	r.phase(history.PhaseSteady)
	r.workload(t, 0, n/2)
	r.moveLeaders(t, 1)
	r.workload(t, n/2, n)
	client.succeed(t, r.meanwhile)
	exited := r.event(history.KindInstanceExited)
	exited.Instance, exited.Flags = 0, history.Expected
	r.events.Record(exited)
	for _, phase := range []string{history.PhaseHeal, history.PhaseDrain, history.PhaseAudit} {
		r.phase(phase)
	}
	r.audit(t)
	r.phase(history.PhaseSeal)
	verdict, _, err := assertions.Judge(history.FromEvents(r.header(n), r.events.all))
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

// anomalies are the names of what a verdict holds against the consumer.
func anomalies(v *assertions.Verdict) []string {
	found := map[string]bool{}
	for _, invariant := range v.Invariants {
		for _, a := range invariant.Anomalies {
			found[a.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestExactlyOnce(t *testing.T) {
	c := startCluster(t)
	t.Run("sound", func(t *testing.T) {
		r := c.newRig(t)
		verdict := r.judge(t, "exactly-once", records)
		if verdict.Verdict != assertions.Pass {
			text, _ := json.MarshalIndent(verdict, "", " ")
			t.Errorf("a sound consumer is accused of %v:\n%s", anomalies(verdict), text)
		}
		r.expectTransactions(t)
		r.expectAbortedLetters(t)
	})
	t.Run("leaky", func(t *testing.T) {
		r := c.newRig(t)
		if found := anomalies(r.judge(t, "leaky", records)); !slices.Contains(found, "commit-before-dlq") {
			t.Errorf("dead letters were written after the transaction's end, and what was found is %v", found)
		}
	})
}

// expectTransactions: what the tap saw of transactions is what the broker made of them. Each ends once, and the next
// one has a newer epoch (KIP-890).
func (r *rig) expectTransactions(t *testing.T) {
	t.Helper()
	ends, commits, aborts, last := map[int64]bool{}, 0, 0, history.Event{ProducerEpoch: history.None}
	for _, e := range r.events.of(history.KindTxnEndResponse) {
		if e.Code != 0 {
			continue
		}
		ends[e.Op] = true
		if e.N == 1 {
			commits++
		} else {
			aborts++
		}
		if e.ProducerID == last.ProducerID && e.ProducerEpoch <= last.ProducerEpoch {
			t.Errorf("producer %d ended two transactions in epochs %d and %d", e.ProducerID, last.ProducerEpoch, e.ProducerEpoch)
		}
		last = e
	}
	if commits == 0 || aborts == 0 {
		t.Errorf("%d transactions were committed and %d aborted: nothing is shown", commits, aborts)
	}
	for _, e := range r.events.of(history.KindProduceResponse, history.KindCommitResponse) {
		if !e.Flags.Has(history.InTransaction) || e.ProducerID < 0 || e.ProducerEpoch < 0 {
			t.Errorf("a %s is not seen to be in a transaction: %+v", e.Kind, e)
		}
	}
	t.Logf("%d transactions committed, %d aborted, the last in epoch %d; spoken: %s", commits, aborts, last.ProducerEpoch,
		r.spoken)
}

// expectAbortedLetters: dead letters of aborted transactions are in the topic, and do not count.
func (r *rig) expectAbortedLetters(t *testing.T) {
	t.Helper()
	all, counted := r.read(t, r.output, kgo.ReadUncommitted()), r.read(t, r.output, kgo.ReadCommitted())
	aborted := 0
	for id := range int32(records) {
		want := 0
		if outcomeOf(id) != history.OutcomeSuccess {
			want = 1
		}
		if counted[id] != want {
			t.Errorf("record %d is dead-lettered %d times, want %d", id, counted[id], want)
		}
		aborted += all[id] - counted[id]
	}
	if aborted == 0 {
		t.Error("no dead letter of an aborted transaction is in the topic: nothing is shown")
	}
}
