package assertions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// lived is a run in which record 1 experiences every kind of event that a trace can contain.
func lived() *builder {
	b := newBuilder()
	b.h.Contract().Retry, b.h.Contract().Counter, b.h.Contract().Ordering = history.RetryTopics, history.CounterHeader,
		history.OrderingNone
	f := b.fault("kafka", "dlq", "Produce to dlq delayed by 100ms")
	b.begin().send(0).success(0).send(1).breaks(f).handsOn(1).kill().as(0, 1).up().assign(0, 1, 2, 3)
	b.where[1] = place{input, 0, 1}
	b.fetch(1).handsOn(1).commit(2).wait(98*ms).handsOn(1).heals(f).wait(199*ms).attempt(1, history.OutcomeTransient)
	b.inTxn(3, func() { b.letter(1).commitCopies(1) }).commitTxn(3)
	return b.drain()
}

func TestTraceTellsEverything(t *testing.T) {
	source := lived().done()
	told, err := Trace(source, 1)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, line := range told.Trace {
		texts = append(texts, line.Text)
	}
	at := 0
	for _, want := range []string{
		"sent to in-0, planned as", "acknowledged at in-0 offset 1", "instance 0 fetches in-0 offsets 1 to 1", "fault begins",
		"attempt 1 starts",
		"answered transient", "writes it to in.retry-0", "the write to in.retry-0 is accepted",
		"fetches in.retry-0 offsets 0 to 0", "gets KILL",
		"ends with code -1", "(start 2) starts", "(start 2) is assigned in-0", "fetches in-0 offsets 1 to 1",
		"attempt 2 starts, ",
		"asks to commit in-0 up to offset 2", "the commit of in-0 up to offset 2 is accepted", "attempt 3 starts, 1",
		"fault ends",
		"attempt 4 starts, 2", "writes it to in.dlq-0, in a transaction",
		"asks to commit in.retry-0 up to offset 3, in a transaction",
		"asks to commit its transaction", "the end of the transaction is accepted", "the audit finds it in in.dlq-0",
	} {
		found := slices.IndexFunc(texts[at:], func(text string) bool { return strings.Contains(text, want) })
		if found < 0 {
			t.Fatalf("%q is not told after line %d of\n%s", want, at, strings.Join(texts, "\n"))
		}
		at += found + 1
	}
	if told.ID != history.NewIDs("run").Token(1) || told.Topic != "in" || told.Offset != 1 ||
		told.Command != "dlqbench show-record run 1" {
		t.Errorf("%+v", told)
	}
}

// A trace says what the client of a write could not know.
func TestTraceTellsHowWritesAreAcknowledged(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Unreplicated)
	b.askLetter(0)
	b.events[len(b.events)-1].Flags |= history.Unanswered
	told, err := Trace(b.drain().done(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the write to in.dlq-0 is accepted by the leader alone (acks=1), which then fails",
		"instance 0 writes it to in.dlq-0 and asks for no answer (acks=0)"} {
		if !slices.ContainsFunc(told.Trace, func(line Line) bool { return line.Text == want }) {
			t.Errorf("%q is not told: %+v", want, told.Trace)
		}
	}
}

func TestRecordsAreFoundWhereTheyAre(t *testing.T) {
	source := lived().done()
	for at, want := range map[place]int32{{input, 0, 0}: 0, {input, 0, 1}: 1, {retry, 0, 2}: 1, {dlq, 0, 0}: 1,
		{input, 0, 9}: none, {input, 3, 0}: none} {
		number, err := RecordAt(source, []string{"in", "in.dlq", "in.retry"}[at.topic], at.partition, at.offset)
		if number != want || (err == nil) != (want >= 0) || err != nil && !errors.Is(err, ErrNoRecord) {
			t.Errorf("%v: record %d, %v; want %d", at, number, err, want)
		}
	}
	if _, err := RecordAt(source, "elsewhere", 0, 0); !errors.Is(err, ErrNoRecord) ||
		!strings.Contains(err.Error(), "in.retry") {
		t.Errorf("of a topic that is none of the run's: %v", err)
	}
	if _, err := Trace(source, 40); !errors.Is(err, ErrNoRecord) {
		t.Errorf("of a record that was never sent: %v", err)
	}
}

// TestCounterexamplesMarkWhatContradicts checks the marks; within a transaction, the ends are marked.
func TestCounterexamplesMarkWhatContradicts(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).fails(0, 3)
	asked := b.askLetter(0)
	b.inTxn(0, func() { b.commit(1) }).commitTxn(0).answerLetter(asked, 0, 0)
	w := resultOf(t, judged(t, b.drain().done()), "commit-after-dlq").Anomalies[0].Counterexamples[0]
	var marked []string
	for _, line := range w.Trace {
		if line.Marked {
			marked = append(marked, line.Text)
		}
	}
	if want := []string{"instance 0 asks to commit its transaction", "the write to in.dlq-0 is accepted"}; !slices.Equal(
		marked, want) {
		t.Errorf("marked are %q, want %q", marked, want)
	}
}

// TestOrderAmongEqualTimesMeansNothing checks that a history shuffled within equal times is judged identically, to the
// byte.
func TestOrderAmongEqualTimesMeansNothing(t *testing.T) {
	t.Run("consumer group", func(t *testing.T) {
		b := lived()
		b.done()
		turned(t, b)
	})
	t.Run("share group", func(t *testing.T) {
		b := newBuilder().shares(history.CounterMemory).share(0).share(1).share(2).success(0).accept(0).fails(1,
			2).release(1).kill()
		b.as(0, 1).up().hand(1).fails(1, 3).letter(1).reject(1).accept(2).success(2).drain().done()
		turned(t, b)
	})
}

func turned(t *testing.T, b *builder) {
	for i := range b.events {
		b.events[i].Time = b.events[i].Time / (7 * ms) * 7 * ms
	}
	straight := asJSON(t, judged(t, b.source()))
	slices.Reverse(b.events)
	if turned := asJSON(t, judged(t, b.source())); string(turned) != string(straight) {
		t.Errorf("in reverse, it is judged\n%s\nstraight\n%s", turned, straight)
	}
}

// TestADuplicateSaysWhatJustifiedIt checks that a repeat is told with what had happened until then: a restart after it
// justifies none.
func TestADuplicateSaysWhatJustifiedIt(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).success(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).commit(1)
	told, err := Trace(b.drain().done(), 0)
	want := "success number 2; what happened until then justifies 1"
	if err != nil || !strings.Contains(told.Summary, want) {
		t.Errorf("%q is not in the summary (%v):\n%s", want, err, told.Summary)
	}
}

// TestTraceMarksAndExplains checks that contradictory lines are marked and named, group events are included, and lines
// of other records are not.
func TestTraceMarksAndExplains(t *testing.T) {
	b := newBuilder()
	logs := func(text string) {
		e := b.of(history.KindSubjectError)
		e.Text = text
		b.put(e)
	}
	b.begin().send(0).send(1).fails(0, 1)
	logs("ERROR record " + history.NewIDs("run").Token(1) + " failed")
	logs("ERROR cannot process in-0 offset=7")
	logs("ERROR cannot process in-0 offset=0")
	b.wait(20*ms).success(0).answerCommit(b.askCommit(0, 1), 16, 0).success(1).askCommit(0, 2)
	told, err := Trace(b.commit(2).drain().done(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"backoff-early (backoff): gap 1 was", "NOT_COORDINATOR",
		"the group's coordinator had moved", "was never answered"} {
		if !strings.Contains(told.Summary, want) {
			t.Errorf("%q is not in the summary:\n%s", want, told.Summary)
		}
	}
	var lines []string
	for _, line := range told.Trace {
		if line.Kind == history.KindSubjectError.String() {
			lines = append(lines, line.Text)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "offset=0") {
		t.Errorf("lines of the log: %q", lines)
	}
	if marked := markedOf(told); len(marked) != 2 {
		t.Errorf("marked are %v", marked)
	}
}

// Of many lines in a row that name no record, a trace has the first ones and counts the others. Those that name the
// record are never among them, and what follows begins a new row.
func TestTraceShortensLogs(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).start(0)
	for range 40 {
		b.logs("at java.base/java.lang.Thread.run")
	}
	b.logs("ERROR in-0@0 failed")
	for range 4 {
		b.logs("at org.example.Orders")
	}
	told, err := Trace(b.success(0).commitAll().drain().done(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range told.Trace {
		if line.Kind == history.KindSubjectError.String() {
			lines = append(lines, strings.TrimPrefix(line.Text, "instance 0 logs: "))
		}
	}
	thread, orders := "at java.base/java.lang.Thread.run", "at org.example.Orders"
	want := []string{thread, thread, thread, "37 further lines of the log", "ERROR in-0@0 failed", orders, orders, orders,
		"1 further line of the log"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// Of several commits that were asked for at once, the trace ends with the first answer. The others were answered, too.
func TestTraceKnowsWhichCommitsWereAnswered(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).send(1).success(0).success(1)
	first, second := b.askCommit(0, 1), b.askCommit(0, 2)
	b.answerCommit(first, 0, 0).answerCommit(second, 0, 0)
	told, err := Trace(b.drain().done(), 0)
	if err != nil || strings.Contains(told.Summary, "never answered") {
		t.Errorf("%v\n%s", err, told.Summary)
	}
}

// Where the order is that of attempts, the trace names what the next record ought to have waited for: the last attempt,
// not the dead letter.
func TestTraceNamesTheAttemptThatWasNotAwaited(t *testing.T) {
	b := newBuilder()
	b.h.Contract().OrderOfAttempts = true
	b.begin().send(0).send(1).fails(0, 2).success(1).wait(205*ms).fails(0, 1).letter(0).commit(2)
	told, err := Trace(b.drain().done(), 1)
	want := "its first attempt started 207 ms before the last attempt of record 0, which comes before it"
	if err != nil || !strings.Contains(told.Summary, want) {
		t.Errorf("%v\n%s\nwant %s", err, told.Summary, want)
	}
}

// TestTraceLeavesOutLinesOfOthers checks that a log line is included if it names the record, in any of the usual
// notations, or no record at all. A line that names another record is left out.
func TestTraceLeavesOutLinesOfOthers(t *testing.T) {
	own, other := history.NewIDs("run").Token(1), history.NewIDs("run").Token(0)
	of := map[string]bool{
		"record " + own + " failed":                              true,
		"record " + other + " failed":                            false,
		"records " + other + " and " + own + " failed":           true,
		"record " + other + " at in-0@1 failed":                  false,
		"lost the connection to the broker":                      true,
		"order key-000005 failed":                                true,
		"order key-000004 failed":                                false,
		"orders key-000004, key-000005 failed":                   true,
		"order key-000005 at offset 0 failed":                    false,
		"in-0@1 failed":                                          true,
		"in-0@0 failed":                                          false,
		"in-0@2 failed":                                          false,
		"in-1@1 failed":                                          false,
		"in/0/1 failed":                                          true,
		"in/0/2 failed":                                          false,
		"in:0:1 failed":                                          true,
		"in:3:1 failed":                                          false,
		"in [0] at offset 1: failed":                             true,
		"in [0] at offset 5: failed":                             false,
		"in [[0]] @1 failed":                                     true,
		"in [[0]] @4 failed":                                     false,
		"partition=0 offset=1 failed":                            true,
		"partition=0 offset=2 failed":                            false,
		"partition=3 offset=1 failed":                            false,
		`{"topic":"in","partition":0,"offset":"1"}`:              true,
		`{"topic":"in","partition":0,"offset":"2"}`:              false,
		`{"topic":"in","partition":2,"offset":"1"}`:              false,
		`{"topic":"in.dlq","partition":0,"offset":"1"}`:          false,
		`"{\"partition\":0,\"offset\":1}"`:                       true,
		`"{\"partition\":0,\"offset\":2}"`:                       false,
		"ConsumerRecord(topic = in, partition = 0, offset = 1)":  true,
		"ConsumerRecord(topic = in, partition = 0, offset = 4)":  false,
		"TopicPartition{topic=in,partition=0,offset=1}":          true,
		"TopicPartition{topic=in,partition=1,offset=1}":          false,
		"sourcePartition: 0, sourceOffset: 1":                    true,
		"sourcePartition: 0, sourceOffset: 3":                    false,
		"offset 1 of partition 0 failed":                         true,
		"offset 1 of partition 3 failed":                         false,
		"offset 0 partition 0 and offset 1 partition 3 failed":   false,
		"offset 7 partition 3 and offset 1 partition 0 failed":   true,
		"in-0: committing offset 2 failed":                       true,
		"in-0: committing offset 3 failed":                       false,
		"next offset of in-0 is offset 2":                        true,
		"in-0: 12 records wait":                                  true,
		"2026-11-24 12:00:07 the handler failed":                 true,
		"dead-lettered to in.dlq-0 offset 0":                     true,
		"dead-lettered to in.dlq-0 offset 1":                     false,
		"in-0@0 and in-0@1 failed":                               true,
		"in-0@0, in-0@2 failed":                                  false,
		"lost partitions [in-0, in-3]":                           true,
		"wrote to in.dlq-3, of topic=in offset=1":                true,
		"offset 1 of in.retry failed":                            false,
		"part 3, offset 1 failed":                                false,
		"main-0@2 failed":                                        true,
		"kafka: in topic in, partition 0, offset 1: it failed":   true,
		"kafka: in topic in, partition 0, offset 10: it failed":  false,
		"kafka: wrote to in.dlq partition 0 at offset 3: failed": false,
	}
	b := newBuilder()
	b.begin().send(0).send(1)
	for i := range b.events {
		if e := &b.events[i]; e.Kind == history.KindSend && e.Record == 1 {
			e.N = 5
		}
	}
	b.fails(1, 3).letter(1)
	for text := range of {
		e := b.of(history.KindSubjectError)
		e.Text = text
		b.put(e)
	}
	told, err := Trace(b.success(0).commit(2).drain().done(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range of {
		got := slices.ContainsFunc(told.Trace, func(line Line) bool {
			return line.Kind == history.KindSubjectError.String() && strings.HasSuffix(line.Text, "logs: "+text)
		})
		if got != want {
			t.Errorf("%q: told is %v, want %v", text, got, want)
		}
	}
}

// TestLinesOfTopicsWithSimilarNames checks that a place belongs to the topic with the longest name that fits.
func TestLinesOfTopicsWithSimilarNames(t *testing.T) {
	header := history.Header{Topics: []history.Topic{{Name: "orders"}, {Name: "orders-1"}}}
	lines := newLineReader(&header, history.NewIDs("run"))
	for text, want := range map[string]namedPlace{
		"orders-1-0@7 failed": {topic: 1, partition: 0, offset: 7},
		"orders-2@7 failed":   {topic: 0, partition: 2, offset: 7},
	} {
		if got := lines.placesIn(text); len(got) != 1 || got[0] != want {
			t.Errorf("%q names %+v, want %+v", text, got, want)
		}
	}
}

// TestLinesOfACrashAreKept checks that the trace of a process has its log lines, whatever record they name.
func TestLinesOfACrashAreKept(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).success(0).commitAll().logs("panic: in-0@0").falls(2, "")
	v := judged(t, b.as(0, 1).up().assign(0, 1, 2, 3).drain().done())
	r := resultOf(t, v, "stays-up")
	if len(r.Anomalies) != 1 || !slices.ContainsFunc(r.Anomalies[0].Counterexamples[0].Trace, func(line Line) bool {
		return strings.HasSuffix(line.Text, "logs: panic: in-0@0")
	}) {
		t.Errorf("the line is missing: %+v", r.Anomalies)
	}
}

// A commit that goes back concerns the records that it makes uncommitted, though it does not cover them: the trace of
// such a record shows it, and the next commit that covers the record.
func TestTraceTellsWhatTakesACommitBack(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).send(1).success(0).success(1).commit(1).revoke(0)
	b.as(1, 0).up().assign(0).commit(2).as(0, 0).commit(1).as(1, 0).commit(2).commit(2)
	told, err := Trace(b.drain().done(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var commits []string
	for _, line := range told.Trace {
		if line.Kind == history.KindCommitResponse.String() {
			commits = append(commits, line.Text)
		}
	}
	want := []string{"the commit of in-0 up to offset 2 is accepted",
		"the commit of in-0 up to offset 1 is accepted, so that the record is uncommitted again",
		"the commit of in-0 up to offset 2 is accepted"}
	if !slices.Equal(commits, want) {
		t.Errorf("the commits told are %q, want %q", commits, want)
	}
}
