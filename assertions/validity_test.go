package assertions

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// fine is a history of a correct run.
func fine(b *builder) *builder {
	b.h.Records = 6
	b.begin().send(0).send(1).success(0).success(1).commit(2)
	b.send(2).fails(2, 2).wait(205 * ms).success(2).commit(3)
	b.send(3).fails(3, 3).letter(3).commit(4)
	b.send(4).attempt(4, history.OutcomePermanent).letter(4).commit(5)
	b.send(5).attempt(5, history.OutcomeLogical).commit(6)
	return b.drain()
}

// unread has the tap refuse a request of an instance that it cannot read.
func unread(b *builder, name string, newest int64) *builder {
	e := b.of(history.KindUnreadable)
	e.Code, e.N, e.Aux, e.Text = 1, 19, newest, name
	b.put(e)
	return b
}

// batched has an instance call the downstream stub for several records at once.
func batched(b *builder) *builder {
	e := b.of(history.KindUnreadable)
	e.Code, e.N, e.Text = history.None, history.None, "POST /bulk"
	b.put(e)
	return b
}

// untrusting is a run in which the subject, which does not trust the stub, dead-letters all that it could not call for.
func untrusting(b *builder) *builder {
	b.begin().send(0).letter(0).commit(1).drain()
	e := b.event(history.KindUnreadable)
	e.Code, e.Text = history.None, "7 connections to https://a; b were closed without a call\nhave the service trust {{.CAFile}}"
	b.put(e)
	return b
}

// elsewhere is a run whose subject commits in another group than its contract says, so that no commit is seen.
func elsewhere(b *builder, group string) *builder {
	b.h.Consumers[0].Group = "r"
	b.begin().send(0).success(0).wait(time.Minute).drain()
	e := b.event(history.KindUnreadable)
	e.Code, e.Topic, e.Text = history.None, input, group
	b.put(e)
	return b
}

// misnamed is a run whose subject asked for a topic that does not exist. The planned outcome of its record is given.
func misnamed(b *builder, planned history.Outcome, more func(*builder)) *builder {
	b.begin().send(0).fails(0, 3)
	at := slices.IndexFunc(b.events, func(e history.Event) bool { return e.Kind == history.KindSend })
	b.events[at].Outcome = planned
	more(b)
	b.wait(time.Minute).drain()
	e := b.event(history.KindUnreadable)
	e.Code, e.Topic, e.Text = history.None, dlq, "in.DLT"
	b.put(e)
	return b
}

// together has two instances, which join no group, fetch the first record in turns.
func together(b *builder, turns int, every time.Duration) *builder {
	b.phase(history.PhaseSetup).up().as(1, 0).up().as(0, 0).phase(history.PhaseWarmup).phase(history.PhaseSteady)
	b.sendTo(0, 0, 0).sendTo(1, 0, 0)
	for range turns {
		b.as(0, 0).fetch(0).wait(every).as(1, 0).fetch(0).wait(every)
	}
	b.as(0, 0).fetch(0).fetch(1).success(0).success(1).commit(2).wait(time.Minute)
	return b.sendTo(2, 0, 0).fetch(2).success(2).sendTo(3, 0, 0).fetch(3).success(3).commit(4).drain()
}

// alone has an instance that joins no group finish two records.
func alone(b *builder) *builder {
	b.h.Consumers[0].Group = "r"
	b.phase(history.PhaseSetup).up().phase(history.PhaseWarmup).phase(history.PhaseSteady)
	return b.send(0).send(1).success(0).success(1)
}

// shared has an instance acquire an offset as a member of a share group.
func shared(b *builder) *builder {
	e := b.of(history.KindShareAcquired)
	e.Topic, e.Partition, e.Offset, e.Aux, e.N = input, 0, 0, 0, 1
	b.put(e)
	return b
}

// unwanted has a subject whose calls are not seen dead-letter the first of several records that should succeed.
func unwanted(b *builder, records, letters int32) *builder {
	b.h.Contract().WireOnly, b.h.Records = true, int(records)
	b.begin()
	for i := range records {
		if b.send(i); i < letters {
			b.letter(i)
		}
		b.commit(int64(i) + 1)
	}
	return b.drain()
}

// uncalled is a run in which no call came, although the subject's calls would be seen.
func uncalled(b *builder) *builder {
	b.h.Contract().WireOnly = false
	e := b.event(history.KindUnreadable)
	e.Code = history.None
	b.put(e)
	return b
}

func TestVerdictOfTheWhole(t *testing.T) {
	for _, one := range []struct {
		name   string
		tell   func(*builder) history.Source
		want   Status
		reason string
	}{
		{"everything as it should be", func(b *builder) history.Source { return fine(b).done() }, Pass, ""},
		{"the subject does not trust the certificate of the stub", func(b *builder) history.Source {
			return untrusting(b).done()
		}, Inconclusive, "7 connections to https://a; b were closed without a call; have the service trust {{.CAFile}}"},
		{"all records that should succeed are dead-lettered, and no call could show why", func(b *builder) history.Source {
			return unwanted(b, 3, 3).done()
		}, Inconclusive, "of 3 records that should succeed, 3 were dead-lettered; give it records as it takes them"},
		{"no call is an attempt, and all records are dead-lettered", func(b *builder) history.Source {
			return uncalled(unwanted(b, 3, 3)).done()
		}, Inconclusive, "of 3 records that should succeed, 3 were dead-lettered or committed, and no call came to the " +
			"downstream; say in the subject's file what it calls"},
		{"no call is an attempt, and all records are committed", func(b *builder) history.Source {
			return uncalled(unwanted(b, 4, 0)).done()
		}, Inconclusive, "of 4 records that should succeed, 4 were dead-lettered or committed, and no call came to the"},
		{"no call is an attempt, and few records are dead-lettered or committed", func(b *builder) history.Source {
			return uncalled(b.begin().send(0).send(1).send(2).send(3).letter(0).letter(1).commit(2).drain()).done()
		}, Fail, "classification is violated: premature-dead-letter, 2 times"},
		{"some records are dead-lettered, and no call could show why", func(b *builder) history.Source {
			return unwanted(b, 4, 3).done()
		}, Pass, ""},
		{"two records alone are dead-lettered, and no call could show why", func(b *builder) history.Source {
			return unwanted(b, 2, 2).done()
		}, Pass, ""},
		{"nothing shows what became of any record, and no call is seen", func(b *builder) history.Source {
			return unwanted(b, 3, 0).done()
		}, Inconclusive, "no-loss can't be judged: none of 3 records could be judged: committed, and nothing shows whether " +
			"it was processed; promise poison: dead-letter"},
		{"records are skipped as the contract says, and no call is seen", func(b *builder) history.Source {
			b.h.Contract().WireOnly, b.h.Contract().Poison = true, history.PoisonSkip
			return b.begin().send(0).garbage(1).commit(2).drain().done()
		}, Inconclusive, "no-loss can't be judged: none of 2 records could be judged"},
		{"effects show what became of the records, and no call is seen", func(b *builder) history.Source {
			b.withSink(history.Effects{}).h.Contract().WireOnly = true
			return b.begin().send(0).result(0).commit(1).drain().sinkHas(1).done()
		}, Pass, ""},
		{"the group has another name than the contract says", func(b *builder) history.Source {
			return elsewhere(b, "shop").done()
		}, Inconclusive, "with the group shop, and its contract names the group r, which read nothing; write group: shop in " +
			"the contract"},
		{"the dead-letter topic has another name than the contract says", func(b *builder) history.Source {
			return misnamed(b, history.OutcomeExhausted, func(*builder) {}).done()
		}, Inconclusive, "the consumer asked for topics that do not exist (in.DLT), and wrote nothing to in.dlq; correct " +
			"dlq.topic in the contract"},
		{"a topic is asked for that does not exist, and dead letters are written", func(b *builder) history.Source {
			return misnamed(b, history.OutcomeExhausted, func(b *builder) { b.letter(0).send(1).fails(1, 3) }).done()
		}, Fail, "no-loss is violated: stalled"},
		{"a topic is asked for that does not exist, and no dead letters are due", func(b *builder) history.Source {
			return misnamed(b, history.OutcomeTransient, func(*builder) {}).done()
		}, Fail, "no-loss is violated: stalled"},
		{"the consumer appends to the group's name", func(b *builder) history.Source {
			return elsewhere(b, "r-server").done()
		}, Inconclusive, `the consumer adds -server to the name that it is given: give it {{.RunID}}, and write group: ` +
			`"{{.RunID}}-server" in the contract`},
		{"two instances read a partition, and no group gave it to one of them", func(b *builder) history.Source {
			return together(b, 3, 100*ms).done()
		}, Inconclusive, "several instances read in-0 at the same time, and no group gave it to one of them; run it with " +
			"one instance"},
		{"two instances read dead letters together", func(b *builder) history.Source {
			fine(b)
			for range 5 {
				for instance := range int16(2) {
					e := b.as(instance, 0).of(history.KindFetched)
					e.Topic, e.Partition, e.Offset = dlq, 0, 0
					b.put(e)
				}
			}
			return b.as(0, 0).done()
		}, Pass, ""},
		{"another instance read a partition for a while", func(b *builder) history.Source {
			return together(b, 1, 100*ms).done()
		}, Pass, ""},
		{"a partition moved between two instances, again and again", func(b *builder) history.Source {
			return together(b, 9, 2*time.Second).done()
		}, Pass, ""},
		{"without a group, nothing is committed", func(b *builder) history.Source { return alone(b).drain().done() },
			Inconclusive, "takes partitions without a group, and commits no offset for the group r; write commits: never in " +
				"its contract"},
		{"without a group, nothing is committed, as the contract says", func(b *builder) history.Source {
			b.h.Contract().OffsetsOutside = true
			return alone(b).drain().done()
		}, Pass, ""},
		{"without a group, nothing is committed, as the contract says, and a record is left", func(b *builder) history.Source {
			b.h.Contract().OffsetsOutside = true
			return alone(b).send(2).fails(2, 1).drain().done()
		}, Fail, "handed offsets up to 2) though every fault is gone and nothing has moved for 1 s. That was certain"},
		{"a member that keeps its offsets outside begins behind a record", func(b *builder) history.Source {
			b.h.Contract().OffsetsOutside = true
			return b.begin().handOver(0, 0, 0, 0).acked(0, 0).send(1).success(1).drain().done()
		}, Fail, "handed offsets up to 1) though every fault is gone and nothing has moved for 1 s. That was certain"},
		{"a member stays at a record that it can't read", func(b *builder) history.Source {
			return b.begin().send(0).success(0).commit(1).garbage(1).drain().done()
		}, Fail, "nothing has moved for 1 s; its value can't be decoded. That was certain"},
		{"without a group, one record is committed", func(b *builder) history.Source {
			return alone(b).commit(1).drain().done()
		}, Fail, "in-0 is committed up to 1 of 2"},
		{"a member of a group commits nothing", func(b *builder) history.Source {
			return b.begin().send(0).send(1).success(0).success(1).drain().done()
		}, Fail, "in-0 is committed up to 0 of 2"},
		{"a member commits nothing, whose assignments were not seen", func(b *builder) history.Source {
			return alone(b.joining(10 * time.Second)).drain().wait(time.Minute).done()
		}, Fail, "in-0 is committed up to 0 of 2"},
		{"a planned fault was never injected", func(b *builder) history.Source {
			b.fault("broker", "broker 1", "broker 1 stopped")
			return fine(b).done()
		}, Inconclusive, "was never injected"},
		{"a fault had no effect", func(b *builder) history.Source {
			f := b.fault("network", "dlq", "dlq down")
			fine(b)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			return b.heals(f).done()
		}, Inconclusive, "had no effect: nothing came in "},
		{"no member owned a partition while the fault was in force", func(b *builder) history.Source {
			f := b.fault("kafka", "group", "OffsetCommit answered COORDINATOR_LOAD_IN_PROGRESS")
			fine(b).revoke(0, 1, 2, 3).wait(time.Second)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			return b.wait(3*time.Second).heals(f).wait(2*time.Second).assign(0, 1, 2, 3).done()
		}, Inconclusive, "had no effect: no member owned a partition from"},
		{"the first dead letter came after the fault", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.h.Records = 1
			b.begin().send(0)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			b.wait(time.Second).heals(f).wait(4*time.Second).fails(0, 3)
			return b.letter(0).commit(1).drain().done()
		}, Inconclusive, "had no effect: its window closed at"},
		{"the record of the first dead letter was in its retries", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.h.Faults[f].API, b.h.Records = "Produce", 1
			b.begin().send(0).attempt(0, history.OutcomeTransient)
			b.starts(f).wait(50*ms).heals(f).wait(50*ms).attempt(0, history.OutcomeTransient)
			return b.wait(205*ms).attempt(0, history.OutcomeTransient).letter(0).commit(1).drain().done()
		}, Inconclusive, "on until 325 ms, whose record was in its retries from 12 ms on"},
		{"the first dead letter came after the fault, and so did the consumer", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.h.Faults[f].API, b.h.Records = "Produce", 1
			b.begin().send(0).starts(f).wait(50*ms).heals(f).fails(0, 3)
			return b.letter(0).commit(1).drain().done()
		}, Inconclusive, "to whose record the consumer came at 64 ms"},
		{"all commits came before the fault", func(b *builder) history.Source {
			f := b.fault("kafka", "every instance", "OffsetCommit answered COORDINATOR_NOT_AVAILABLE")
			b.h.Faults[f].API, b.h.Records = "OffsetCommit", 2
			b.begin().send(0).success(0).commit(1).send(1).success(1).commit(2)
			return b.starts(f).wait(50 * ms).heals(f).drain().done()
		}, Inconclusive, "commits in the whole run: 2, the first at 14 ms and the last at 21 ms, while it was in force: none"},
		{"the commits of another instance don't count", func(b *builder) history.Source {
			f := b.fault("kafka", "instance 1", "OffsetCommit by instance 1 answered COORDINATOR_NOT_AVAILABLE")
			b.h.Faults[f].API, b.h.Records = "OffsetCommit", 1
			b.begin().starts(f).send(0).success(0).commit(1)
			return b.heals(f).drain().done()
		}, Inconclusive, "commits by instance 1 in the whole run: none"},
		{"none of the requests was one that the fault picks", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "9th Fetch from input, its connection closed")
			b.h.Faults[f].API, b.h.Records = "Fetch", 1
			b.begin().starts(f).send(0).success(0).commit(1)
			return b.heals(f).drain().done()
		}, Inconclusive, "none of those that came in 8 ms was picked; fetches with records from input in the " +
			"whole run: 1, the first at 12 ms and the last at 12 ms, while it was in force: 1"},
		{"no attempt was made while the downstream was out", func(b *builder) history.Source {
			f := b.fault("downstream", "downstream", "every attempt answered 503")
			b.h.Records = 1
			b.begin().send(0).success(0).commit(1).starts(f)
			return b.heals(f).drain().done()
		}, Inconclusive, "attempts in the whole run: 1, the first at 12 ms and the last at 12 ms, while it was in force: none"},
		{"no dead letter was written, as the retries went on", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.h.Faults[f].API = "Produce"
			b.begin().send(0).send(1).attempt(0, history.OutcomeTransient)
			for i := range b.events {
				if b.events[i].Kind == history.KindSend {
					b.events[i].Outcome = history.OutcomeExhausted
				}
			}
			return b.starts(f).wait(time.Second).heals(f).drain().done()
		}, Fail, "had to be dead-lettered (2; at its end 1 had not been tried, and 1 were in their retries); writes"},
		{"no dead letter was written at all", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.begin().send(0)
			for i := range b.events {
				if b.events[i].Kind == history.KindSend {
					b.events[i].Outcome = history.OutcomePermanent
				}
			}
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			return b.wait(time.Second).heals(f).success(0).commit(1).drain().done()
		}, Inconclusive, "had no effect: the consumer wrote no dead letter in the whole run"},
		{"all lanes waited for retries while the fault was in force", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered NOT_LEADER_FOR_PARTITION")
			b.h.Contract().Backoff.Initial, b.h.Contract().Backoff.Cap = 10*time.Second, 20*time.Second
			b.begin().send(0).fails(0, 1)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			b.wait(9 * time.Second).heals(f).wait(time.Second).success(0).commit(1)
			return b.drain().done()
		}, Inconclusive, "had no effect: the subject was handed no record from"},
		{"a fault without an event waited for one that met nothing", func(b *builder) history.Source {
			first := b.fault("kafka", "input", "Fetch answered NOT_LEADER_FOR_PARTITION")
			second := b.fault("kafka", "input", "Fetch, its connection closed")
			b.h.Faults[first].Name, b.h.Faults[first].For, b.h.Faults[second].At = "fetch-error", time.Second, 2*time.Second
			fine(b).breaks(first).wait(75 * time.Second)
			return b.heals(first).done()
		}, Inconclusive, "was never injected: it waits for the end of fault fetch-error"},
		{"nobody asked the health probe", func(b *builder) history.Source {
			f := b.fault("store", "health probe", "the workers' health probe says that something is wrong: cpu")
			fine(b)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			return b.heals(f).done()
		}, Inconclusive, "had no effect: nothing came in "},
		{"a fault waited for one that a session held up", func(b *builder) history.Source {
			first, second := b.fault("subject", "instance 0", "KILL"), b.fault("subject", "instance 1", "KILL")
			b.h.Faults[first].Name, b.h.Faults[first].For = "kill-one", time.Second
			b.h.Faults[second].At, b.h.Faults[second].When = 2*time.Second, "first-dead-letter"
			fine(b).breaks(first).wait(45 * time.Second)
			return b.heals(first).done()
		}, Inconclusive, "never came after fault kill-one, whose end it waits for"},
		{"a fault waited for one that ended in time", func(b *builder) history.Source {
			first, second := b.fault("subject", "instance 0", "KILL"), b.fault("subject", "instance 1", "KILL")
			b.h.Faults[first].For, b.h.Faults[second].At = time.Second, 2*time.Second
			b.h.Faults[second].When = "first-dead-letter"
			fine(b).breaks(first).wait(time.Second)
			return b.heals(first).done()
		}, Inconclusive, "never came between 2s after the start of the steady load and its end"},
		{"a fault waited for a dead letter that the consumer owes", func(b *builder) history.Source {
			b.h.Faults[b.fault("subject", "instance 1", "KILL")].When = "first-dead-letter"
			return b.begin().send(0).plan(history.OutcomePermanent).commit(1).drain().done()
		}, Fail, "the consumer wrote no dead letter in the whole run, although records had to be dead-lettered (1; at its end " +
			"1 had not been tried, and 0 were in their retries); read what no-loss and classification say"},
		{"a fault waited for a dead letter, and none was due", func(b *builder) history.Source {
			b.h.Faults[b.fault("subject", "instance 1", "KILL")].When = "first-dead-letter"
			return b.begin().send(0).success(0).commit(1).drain().done()
		}, Inconclusive, "no dead letter was even asked for; plan records that end there"},
		{"a fault had no effect, and may miss", func(b *builder) history.Source {
			f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
			b.h.Faults[f].MayMiss = true
			b.h.Records = 2
			b.begin().send(0).send(1).success(0).success(1).commit(2).drain()
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			return b.heals(f).done()
		}, Pass, ""},
		{"a fault could not do what it should", func(b *builder) history.Source {
			f := b.fault("subject", "every instance", "every instance restarted")
			fine(b)
			e := b.event(history.KindFaultStart)
			e.Op = f
			b.put(e)
			e = b.event(history.KindFaultEffect)
			e.Op, e.N, e.Code, e.Text = f, 0, history.FaultFailed, "sending TERM: a disruption budget forbids it\ntimed out"
			b.put(e)
			return b.heals(f).done()
		}, Inconclusive, "had no effect: sending TERM: a disruption budget forbids it; timed out; correct that"},
		{"a fault could not do all that it should", func(b *builder) history.Source {
			f := b.fault("network", "dlq", "dlq delayed by 10ms")
			fine(b).breaks(f)
			e := b.event(history.KindFaultEffect)
			e.Op, e.N, e.Code, e.Text = f, 0, history.FaultFailed, "the second link is gone"
			b.put(e)
			return b.heals(f).done()
		}, Pass, ""},
		{"a fault may miss, and was never injected", func(b *builder) history.Source {
			b.h.Faults[b.fault("broker", "broker 1", "broker 1 stopped")].MayMiss = true
			return fine(b).done()
		}, Inconclusive, "was never injected"},
		{"a fault had an effect", func(b *builder) history.Source {
			f := b.fault("network", "dlq", "dlq delayed by 10ms")
			return fine(b).breaks(f).heals(f).done()
		}, Pass, ""},
		{"a share group", func(b *builder) history.Source {
			shared(fine(b))
			return b.done()
		}, Inconclusive, "share group (KIP-932), and its contract does not say so"},
		{"a share group whose records would be lost in a consumer group", func(b *builder) history.Source {
			b.h.Records = 1
			shared(b.begin().send(0).commit(1))
			return b.drain().done()
		}, Inconclusive, "share group"},
		{"a consumer group where the contract says share group", func(b *builder) history.Source {
			b.h.Contract().GroupType, b.h.Contract().Ordering = history.GroupShare, history.OrderingNone
			return fine(b).done()
		}, Inconclusive, "take group_type: share out of it"},
		{"a share group that changes payloads", func(b *builder) history.Source {
			b.h.Records = 1
			shared(b.begin().send(0).attempt(0, history.OutcomePermanent).letter(0).commit(1))
			b.inTopics[len(b.inTopics)-1].ValueHash++
			return b.drain().done()
		}, Fail, "payload-changed"},
		{"a client of the future that is refused", func(b *builder) history.Source {
			return unread(unread(fine(b), "Fetch", 18), "API key 200", history.None).done()
		}, Inconclusive, "sent Fetch in version 19, and dlqbench reads it up to version 18: it was refused"},
		{"a client that is refused and loses records", func(b *builder) history.Source {
			b.h.Records = 1
			return unread(b.begin().send(0).commit(1), "API key 200", history.None).drain().done()
		}, Inconclusive,
			"no-loss can't be judged: the subject made requests that dlqbench does not read, and that could explain it"},
		{"a client that calls for several records at once", func(b *builder) history.Source {
			return batched(batched(fine(b))).done()
		}, Inconclusive, "made a call for several records at once (POST /bulk)"},
		{"a client whose batches hide attempts", func(b *builder) history.Source {
			b.h.Records = 1
			return batched(b.begin().send(0).commit(1)).drain().done()
		}, Inconclusive, "no-loss can't be judged: the subject made requests that dlqbench does not read"},
		{"a client that loses records", func(b *builder) history.Source {
			b.h.Records = 1
			return b.begin().send(0).commit(1).drain().done()
		}, Fail, "Follows from it: no-loss: lost × 1"},
		{"a client that is refused and changes payloads", func(b *builder) history.Source {
			b.h.Records = 1
			unread(b.begin().send(0).attempt(0, history.OutcomePermanent).letter(0).commit(1), "Fetch", 18)
			b.inTopics[len(b.inTopics)-1].ValueHash++
			return b.drain().done()
		}, Fail, "payload-changed"},
		{"too little load", func(b *builder) history.Source {
			b.h.Expect.MinLoad = 0.95
			fine(b).h.Records = 8
			return b.done()
		}, Inconclusive, "6 of 8 planned records were acknowledged"},
		{"the workload was late", func(b *builder) history.Source {
			b.h.Expect.MaxSlip = 100 * ms
			fine(b)
			for i := range b.events {
				if b.events[i].Kind == history.KindSend {
					b.events[i].Aux -= int64(300 * ms)
				}
			}
			return b.done()
		}, Inconclusive, "could not keep its schedule"},
		{"never sealed", func(b *builder) history.Source {
			fine(b).done()
			b.events = b.events[:len(b.events)-1]
			return b.source()
		}, Inconclusive, "interrupted or killed"},
		{"the run failed", func(b *builder) history.Source {
			fine(b).done()
			b.events, b.h.Failure = b.events[:len(b.events)-1], "using the links: the proxy is gone"
			return b.source()
		}, Inconclusive, "the run could not be carried out: using the links: the proxy is gone"},
		{"a pod was lost, and records with it", func(b *builder) history.Source {
			b.h.Records, b.h.Failure, b.h.Disturbed = 1, "the pod orders-1 is gone", true
			b.begin().send(0).commit(1).drain().done()
			b.events = b.events[:len(b.events)-1]
			return b.source()
		}, Inconclusive, "the run could not be carried out: the pod orders-1 is gone"},
		{"a pod was lost, and payloads are changed", func(b *builder) history.Source {
			b.h.Records, b.h.Failure, b.h.Disturbed = 1, "the pod orders-1 is gone", true
			b.begin().send(0).attempt(0, history.OutcomePermanent).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].ValueHash++
			b.drain().done()
			b.events = b.events[:len(b.events)-1]
			return b.source()
		}, Fail, "payload-changed"},
		{"nothing at all", func(b *builder) history.Source { return b.source() }, Inconclusive, "interrupted or killed"},
		{"a threshold was missed", func(b *builder) history.Source {
			b.h.Expect.Thresholds = []string{"ledger.attempts < 3"}
			return fine(b).done()
		}, Pass, "threshold"},
		{"a failure counts though the load was too small", func(b *builder) history.Source {
			b.h.Expect.MinLoad = 0.95
			b.begin().send(0).success(0).success(0).commit(1)
			return b.drain().done()
		}, Fail, "duplicates is violated"},
	} {
		t.Run(one.name, func(t *testing.T) {
			v := judged(t, one.tell(newBuilder()))
			if v.Verdict != one.want || one.reason == "" && len(v.Reasons) > 0 ||
				!strings.Contains(strings.Join(v.Reasons, "\n"), one.reason) {
				t.Errorf("verdict %s because %q; want %s because of %q", v.Verdict, v.Reasons, one.want, one.reason)
			}
			for _, open := range v.Open {
				if open.What == "" || open.Why == "" || open.Do == "" || !slices.Contains(v.Reasons, open.Reason()) {
					t.Errorf("an open question is not told with what, why and what to do: %+v", open)
				}
			}
			if v.ThresholdsMissed != strings.Contains(one.name, "threshold") {
				t.Errorf("thresholds missed: %v", v.ThresholdsMissed)
			}
		})
	}
}

func TestShareOfDuplicatesIsAThreshold(t *testing.T) {
	for limit, missed := range map[float64]bool{0: true, 0.6: false, -1: false} {
		b := newBuilder()
		b.h.Expect.DuplicateShare = limit
		b.begin().send(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).send(1).success(1).commit(2)
		v := judged(t, b.drain().done())
		if v.ThresholdsMissed != missed || v.Verdict == Fail {
			t.Errorf("limit %g: missed %v, verdict %s, %v", limit, v.ThresholdsMissed, v.Verdict, v.Reasons)
		}
	}
}

// Where nothing is committed, the lag follows what is finished.
func TestLagWithoutCommits(t *testing.T) {
	b := newBuilder()
	b.h.Contract().OffsetsOutside = true
	v := judged(t, alone(b).send(2).fails(2, 1).send(3).success(3).drain().done())
	if v.Drain.Drained || v.Drain.LagEnd != 2 {
		t.Errorf("drained: %v, %d records behind at the end; want false, and the 2 from the one that is left",
			v.Drain.Drained, v.Drain.LagEnd)
	}
	b = newBuilder()
	b.h.Contract().OffsetsOutside = true
	if v = judged(t, alone(b).drain().done()); !v.Drain.Drained || v.Drain.LagEnd != 0 {
		t.Errorf("drained: %v, %d records behind at the end; want true and none", v.Drain.Drained, v.Drain.LagEnd)
	}
}

func TestMissingPartsOfTheHistory(t *testing.T) {
	whole := fine(newBuilder()).done()
	v := judged(t, broken{whole, 40})
	if v.Verdict != Inconclusive || !strings.Contains(strings.Join(v.Reasons, "\n"), errBroken.Error()) {
		t.Errorf("verdict %s because %q", v.Verdict, v.Reasons)
	}
	for _, r := range v.Invariants {
		if r.Status == Pass || r.Status == Fail {
			t.Errorf("%s is said to %s though part of the history is missing", r.Name, r.Status)
		}
	}
	// Neither does it keep an anomaly that the missing part could explain.
	crash := fine(newBuilder()).falls(2, "")
	if r := resultOf(t, judged(t, crash.done()), "stays-up"); r.Status != Fail || len(r.Anomalies) == 0 {
		t.Fatalf("a crash is %s, %v", r.Status, r.Anomalies)
	}
	r := resultOf(t, judged(t, broken{crash.source(), len(crash.events) - 1}), "stays-up")
	if r.Status != Inconclusive || len(r.Anomalies) > 0 {
		t.Errorf("with a part missing, a crash is %s, %v", r.Status, r.Anomalies)
	}
	// An anomaly that a dead letter shows by itself stays a failure.
	b := fine(newBuilder())
	b.inTopics[len(b.inTopics)-1].ValueHash++
	b.inTopics[slices.IndexFunc(b.inTopics, func(e history.Event) bool { return e.Topic == dlq })].ValueHash++
	b.done()
	v = judged(t, broken{b.source(), len(b.events) - 2})
	if v.Verdict != Fail || resultOf(t, v, "dlq-fidelity").Status != Fail {
		t.Errorf("verdict %s, %v", v.Verdict, v.Reasons)
	}
}

func TestOnlyWhatIsExpectedIsJudged(t *testing.T) {
	b := newBuilder()
	b.h.Expect.Invariants = []string{"ordering", "no-loss"}
	v := judged(t, fine(b).done())
	if len(v.Invariants) != 2 || v.Invariants[0].Name != "no-loss" || v.Invariants[1].Name != "ordering" {
		t.Errorf("judged %+v", v.Invariants)
	}
	b.h.Expect.Invariants = []string{"no-such-thing"}
	if _, _, err := Judge(b.source()); err == nil || !strings.Contains(err.Error(), "no-such-thing") {
		t.Errorf("an unknown invariant gives %v", err)
	}
}

func TestWhatIsNotPromisedIsNotJudged(t *testing.T) {
	for name, one := range map[string]struct {
		contract func(*history.Contract)
		without  []string
	}{
		"wire only": {func(c *history.Contract) { c.WireOnly = true },
			[]string{"bounded-retries", "classification", "backoff", "duplicates", "ordering"}},
		"auto-commit": {func(c *history.Contract) {
			c.AutoCommit = true
		}, []string{"commit-after-dlq", "commit-after-outcome", "halt-on-dlq-failure"}},
		"no dead letters": {func(c *history.Contract) {
			c.Envelope = ""
		}, []string{"commit-after-dlq", "halt-on-dlq-failure", "dlq-fidelity", "dlq-once"}},
		"no order": {func(c *history.Contract) { c.Ordering = history.OrderingNone }, []string{"ordering"}},
		"no waits": {func(c *history.Contract) { c.Backoff.Initial = 0 }, []string{"backoff"}},
		"no count": {func(c *history.Contract) { c.MaxAttempts = 0 }, []string{"bounded-retries"}},
	} {
		b := newBuilder()
		one.contract(b.h.Contract())
		v := judged(t, fine(b).done())
		var without []string
		for _, r := range v.Invariants {
			// These have nothing to judge in this history, whatever the promises.
			if r.Status == NotApplicable &&
				!slices.Contains([]string{"replay-round-trip", "halt-on-dlq-failure", "isolation", "store-lifecycle",
					"graph-conservation", "service-separation", "effects", "call-timeouts"}, r.Name) {
				without = append(without, r.Name)
			}
		}
		want := slices.DeleteFunc(slices.Clone(one.without), func(name string) bool { return name == "halt-on-dlq-failure" })
		if !slices.Equal(without, want) {
			t.Errorf("%s: not applicable are %v, want %v", name, without, want)
		}
	}
}

// TestNothingIsNoPass checks that a planned event that did not happen is no evidence of correct behaviour.
func TestNothingIsNoPass(t *testing.T) {
	b := newBuilder()
	f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
	b.begin().breaks(f).heals(f)
	b.send(0).success(0)
	for i := range b.events {
		if b.events[i].Kind == history.KindSend {
			b.events[i].Outcome = history.OutcomeExhausted
		}
	}
	v := judged(t, b.commit(1).drain().done())
	for _, name := range []string{"commit-after-dlq", "halt-on-dlq-failure", "backoff", "dlq-fidelity", "dlq-once"} {
		if r := resultOf(t, v, name); r.Status != Inconclusive || r.Why == "" {
			t.Errorf("%s is %s (%s)", name, r.Status, r.Why)
		}
	}
}

func TestTooManyGapsThatCantBeJudged(t *testing.T) {
	b := newBuilder()
	b.begin()
	for n := range int32(4) {
		b.sendTo(n, 0, n).attempt(n, history.OutcomeTransient)
		if n > 0 {
			b.wait(200*ms).stall(history.None, 150*ms)
		} else {
			b.wait(100 * ms)
		}
		b.success(n)
	}
	r := resultOf(t, judged(t, b.commit(4).drain().done()), "backoff")
	if r.Status != Inconclusive || r.NotJudged["stall"] != 3 || r.Judged != 1 {
		t.Errorf("%+v", r)
	}
}

// A bug whose every occurrence falls into a stall is not excused by as many stalls.
func TestTooManySuspicionsInStalls(t *testing.T) {
	for count, want := range map[int32]Status{stalledSuspects - 1: Pass, stalledSuspects: Inconclusive} {
		b := newBuilder()
		b.begin()
		for n := range count {
			b.sendTo(n, 0, n).attempt(n, history.OutcomeLogical)
			b.wait(ms).stall(history.None, 300*ms).letter(n).wait(2 * time.Second)
		}
		r := resultOf(t, judged(t, b.commit(int64(count)).drain().done()), "classification")
		if r.Status != want || r.NotJudged[stallExcuse] != int64(count) {
			t.Errorf("with %d: %s (%s), not judged %v", count, r.Status, r.Why, r.NotJudged)
		}
		b.sendTo(count, 0, count).attempt(count, history.OutcomeLogical)
		b.letter(count).commit(int64(count) + 1)
		if r := resultOf(t, judged(t, b.drain().done()), "classification"); r.Status != Fail {
			t.Errorf("with %d and one outside of stalls: %s (%s)", count, r.Status, r.Why)
		}
	}
}

// The first occurrence is reported whatever its length, with its time and place; the other counterexamples are the
// shortest.
func TestCounterexamplesAreTheFirstAndTheShortest(t *testing.T) {
	b := newBuilder()
	b.begin()
	for n := range int32(40) {
		b.sendTo(n, 0, n)
		if n < 15 {
			b.fails(n, 2).wait(205 * ms)
		}
		b.success(n).success(n)
	}
	v := judged(t, b.commit(40).drain().done())
	a := resultOf(t, v, "duplicates").Anomalies[0]
	if a.Count != 40 || len(a.Counterexamples) != MaxCounterexamples {
		t.Fatalf("%d counted, %d told", a.Count, len(a.Counterexamples))
	}
	if first := a.First; first == nil || first.Record != 0 || first.Key != "key-000000" || first.ID == "" ||
		first.Phase != history.PhaseSteady ||
		first.At != a.Records[0].At || first.Command != "dlqbench show-record "+v.RunID+" 0" {
		t.Errorf("the first occurrence is %+v", first)
	}
	if len(a.Records) != 40 || a.Records[39].Record != 39 {
		t.Errorf("%d places are kept, want all 40", len(a.Records))
	}
	if last := a.Counterexamples[MaxCounterexamples-1]; last.Record != 0 {
		t.Errorf("the first occurrence is not told; the longest trace is of record %d", last.Record)
	}
	for i, w := range a.Counterexamples[:MaxCounterexamples-1] {
		marked := slices.ContainsFunc(w.Trace, func(l Line) bool { return l.Marked })
		if w.Record < 15 || !marked || i > 0 && len(w.Trace) < len(a.Counterexamples[i-1].Trace) {
			t.Errorf("counterexample %d is record %d: %+v", i, w.Record, w.Trace)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestGoldenVerdict(t *testing.T) {
	b := newBuilder()
	b.h.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.h.Environment = map[string]string{"os": "linux"}
	b.h.Records = 5
	f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
	b.begin().send(0).success(0).send(1).fails(1, 3).breaks(f)
	b.answerLetter(b.askLetter(1), 19, history.Forged).wait(300 * ms)
	b.answerLetter(b.askLetter(1), 19, history.Forged).commit(2).heals(f).letter(1)
	b.send(2).success(2).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(2).success(2).success(2).commit(3)
	v := judged(t, b.drain().done())
	v.setApart(catalogue())
	v.Experimental = nil // experimental invariants vary
	got := append(asJSON(t, v), '\n')
	const path = "testdata/verdict.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the verdict is not the golden one; if that is meant, run with -update\n%s", got)
	}
	var back Verdict
	if err := json.Unmarshal(want, &back); err != nil || back.Verdict != Fail {
		t.Errorf("reading it back gives %v, %s", err, back.Verdict)
	}
}

func TestEverythingIsExplained(t *testing.T) {
	names := Names()
	if slices.Sort(names); len(slices.Compact(names)) != len(Names()) {
		t.Errorf("an invariant is there twice: %v", names)
	}
	for _, name := range append(Names(), AnomalyNames()...) {
		found := Explain(name)
		if len(found) == 0 {
			t.Errorf("%s is not explained", name)
			continue
		}
		e := found[len(found)-1]
		if e.Name != name || e.Promise == "" || e.Rule == "" || e.Evidence == "" || len(e.Anomalies) == 0 ||
			len(e.Anomalies[0].Example) == 0 || e.Cause == "" {
			t.Errorf("%s is not explained: %+v", name, e)
		}
		if text := e.String(); !strings.HasPrefix(text, name) || !strings.Contains(text, e.Cause) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if found := Explain("stalled"); len(found) != 2 || found[0].Of != "no-loss" || found[1].Of != "liveness" {
		t.Errorf("stalled is explained as %+v", found)
	}
	if cause := Explain("commit-past-unfinished")[0].Cause; !strings.Contains(cause, " If it was never attempted, look for") {
		t.Errorf("the clue is not explained: %s", cause)
	}
	if found := Explain("no-such-thing"); found != nil {
		t.Error("what does not exist is explained")
	}
}

// An invariant that a run could not judge is judged by a scenario that exercises it, which the run's own did, or once
// the consumer no longer does what kept it from being judged.
func TestRemedies(t *testing.T) {
	const scenario = "run a scenario with records that fail for good (smoke)"
	for _, one := range []struct {
		scenario string
		of       Result
		violated bool
		want     string
	}{
		{"consumer-kill", Result{Name: "commit-after-dlq"}, false, scenario},
		{"consumer-kill", Result{Name: "orders/commit-after-dlq"}, false, scenario},
		{"consumer-kill", Result{Name: "commit-after-dlq"}, true, "correct what is violated and run it again, or " + scenario},
		{"smoke", Result{Name: "commit-after-dlq"}, true, "correct what is violated and run it again"},
		{"smoke", Result{Name: "commit-after-dlq"}, false, "run it again, with a longer load if that does not help"},
		{"smoke", Result{Name: "ordering", NotJudged: map[string]int64{stallExcuse: 1}}, true,
			"run it again, with less other work on the machine"},
	} {
		j := &judge{header: history.Header{Scenario: one.scenario}}
		if got := j.remedy(&one.of, one.violated); got != one.want {
			t.Errorf("%s, %s, violated %t: %q, want %q", one.scenario, one.of.Name, one.violated, got, one.want)
		}
	}
}

// A commit is named with its partition where that is not the one that the record is told with.
func TestCommitsOfRetryTopicsAreTold(t *testing.T) {
	b := newBuilder()
	hops(b).send(0).handsOn(0).commit(1).commitCopies(0).wait(98 * ms).success(0)
	v := judged(t, b.drain().done())
	if want := "(in-0 offset 0): offset 1 of in.retry-0 was committed while offset 0 was unfinished"; !strings.Contains(
		strings.Join(v.Reasons, "\n"), want) {
		t.Errorf("%q, want %q", v.Reasons, want)
	}
}

// TestDeadLettersThatHaveAReason checks that a subject is said to refuse its records only if nothing else explains its
// dead letters.
func TestDeadLettersThatHaveAReason(t *testing.T) {
	for name, one := range map[string]struct {
		wire bool
		send func(b *builder, number int32) *builder
		want bool
	}{
		"nothing explains them": {true, (*builder).send, true},
		"the records fail by the plan": {true, func(b *builder, number int32) *builder {
			return b.send(number).plan(history.OutcomePermanent)
		}, false},
		"calls failed, though they don't make attempts": {true, func(b *builder, number int32) *builder {
			return b.send(number).fails(number, 3)
		}, false},
		"attempts are seen, and classification judges": {false, (*builder).send, false},
	} {
		b := newBuilder()
		b.h.Contract().WireOnly, b.h.Records = one.wire, 3
		b.begin()
		for i := range int32(3) {
			one.send(b, i).letter(i).commit(int64(i) + 1)
		}
		v := judged(t, b.drain().done())
		if got := strings.Contains(strings.Join(v.Reasons, "\n"), "records that should succeed"); got != one.want {
			t.Errorf("%s: %v, want %v: %q", name, got, one.want, v.Reasons)
		}
	}
}

// A consumer whose offsets are outside Kafka may go back at any time, unless it does so with all its records.
func TestRecordsThatAreRepeated(t *testing.T) {
	for name, one := range map[string]struct {
		outside bool
		share   float64
		again   int32
		want    bool
	}{
		"all of them":                        {true, -1, 3, true},
		"a part of them":                     {true, -1, 2, false},
		"all of them, and a limit judges it": {true, 0.01, 3, false},
		"all of them, but offsets are in Kafka, and duplicates judges it": {false, -1, 3, false},
	} {
		b := newBuilder()
		b.h.Contract().OffsetsOutside, b.h.Expect.DuplicateShare, b.h.Records = one.outside, one.share, 3
		b.begin()
		for i := range int32(3) {
			b.send(i)
		}
		for i := range int32(3) {
			b.success(i)
		}
		for i := range one.again {
			b.fetch(i).success(i)
		}
		if !one.outside {
			b.commit(3)
		}
		v := judged(t, b.drain().done())
		if got := strings.Contains(strings.Join(v.Reasons, "\n"), "more than once, as the consumer"); got != one.want {
			t.Errorf("%s: %v, want %v: %q", name, got, one.want, v.Reasons)
		}
	}
}
