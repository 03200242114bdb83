package generate

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// otherCount is the name of a corruption that changes the number of attempts in a dead letter.
const otherCount = "a dead letter names another number of attempts"

func deadLetterCorruptions() []Corruption {
	fidelity := func(anomaly string) Promise { return Promise{"dlq-fidelity", anomaly} }
	return []Corruption{
		{Name: "a dead letter has another value", Promise: fidelity("payload-changed"),
			apply: edited(always, func(e *history.Event) { e.ValueHash++ })},
		{Name: "a dead letter has another key", Promise: fidelity("key-changed"),
			apply: edited(always, func(e *history.Event) { e.KeyHash++ })},
		{Name: "a dead letter lacks a header of the record", Promise: fidelity("headers-lost"), apply: edited(
			func(v *view) bool { return v.Header.Contract().KeepsHeaders }, func(e *history.Event) { e.HeadersHash++ })},
		{Name: "a dead letter lacks a field", Promise: fidelity("metadata-missing"),
			apply: edited(tellsSome, func(e *history.Event) {
				claim := claimOf(e)
				claim.Attempts, claim.Missing = none, "attempts"
			})},
		{Name: "a dead letter names another offset", Promise: fidelity("metadata-wrong"),
			apply: edited(tellsAll, func(e *history.Event) {
				claimOf(e).Offset += 1000
			})},
		{Name: otherCount, Promise: fidelity("metadata-wrong"), apply: wrongCount},
		{Name: "a dead letter's envelope is there twice", Promise: fidelity("metadata-wrong"),
			apply: retold(func(_ *history.Event, m *history.ClaimMore) {
				m.Twice = []string{"x-reason"}
			})},
		{Name: "a dead letter names an epoch that nobody had", Promise: fidelity("metadata-wrong"),
			apply: retold(func(_ *history.Event, m *history.ClaimMore) {
				m.Epoch, m.Epochs = new(int32(1000)), &[2]int32{0, 2}
			})},
		{Name: "a dead letter was written before the run", Promise: fidelity("metadata-wrong"),
			apply: retold(func(_ *history.Event, m *history.ClaimMore) {
				m.Times = map[string]time.Duration{"its time": -time.Hour}
			})},
		{Name: "a dead letter was written after it was found", Promise: fidelity("metadata-wrong"),
			apply: retold(func(e *history.Event, m *history.ClaimMore) {
				m.Times = map[string]time.Duration{"its time": e.Time + time.Hour}
			})},
		{Name: "a dead letter gives the reason of another failure", Promise: fidelity("metadata-wrong"), apply: otherReason},
		{Name: "a dead letter is in another partition", Promise: fidelity("metadata-wrong"), apply: elsewhere},
		{Name: "a dead letter is written twice", Promise: Promise{"dlq-once", "dlq-duplicate"}, apply: deadLetterTwice},
		{
			Name: "the second of two dead letters has another value", Promise: Promise{"dlq-once", "two-payloads-one-source"},
			apply: twoPayloads, Also: []Promise{{"dlq-fidelity", "payload-changed"}},
			About: "of two different values at most one is the record's",
		},
	}
}

func always(*view) bool { return true }

// tellsAll reports whether the dialect carries the record's position and its number of attempts.
func tellsAll(v *view) bool { return v.Header.Contract().Envelope == "plain" }

// tellsSome reports whether the contract names a dialect.
func tellsSome(v *view) bool { return v.Header.Contract().Envelope != "" }

// edited changes the audit's record of a record's only dead letter.
func edited(promised func(*view) bool, edit func(*history.Event)) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		if !promised(v) {
			return none, false
		}
		f := v.chosen(func(f *facts) bool { return f.acked != none && len(f.asDeadLetter) == 1 && !v.Header.Replay })
		if f != nil {
			edit(&v.Events[f.asDeadLetter[0]])
		}
		return about(f)
	}
}

// retold changes the fields of a dead letter other than its position.
func retold(edit func(*history.Event, *history.ClaimMore)) func(*view) (int32, bool) {
	return edited(tellsSome, func(e *history.Event) {
		more := e.Claim.Beside()
		edit(e, &more)
		claimOf(e).More = more.Encode()
	})
}

// otherReason makes a dead letter quote an answer that the record's last attempt did not get.
func otherReason(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if !v.deadLettered(f) || len(f.asDeadLetter) != 1 || len(f.attempts) == 0 || !tellsSome(v) || v.Header.Replay {
			return false
		}
		last := v.outcome(f.attempts[len(f.attempts)-1])
		return last != history.OutcomeTimeout && last != history.OutcomeReset
	})
	if f == nil {
		return none, false
	}
	last := v.outcome(f.attempts[len(f.attempts)-1])
	e := &v.Events[f.asDeadLetter[0]]
	more := e.Claim.Beside()
	more.Quotes = []history.Outcome{history.OutcomePermanent}
	if last == history.OutcomePermanent {
		more.Quotes = []history.Outcome{history.OutcomeTransient}
	}
	claimOf(e).More = more.Encode()
	return about(f)
}

func wrongCount(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return v.deadLettered(f) && len(f.asDeadLetter) == 1 && v.inPlace() && tellsAll(v)
	})
	if f != nil {
		claimOf(&v.Events[f.asDeadLetter[0]]).Attempts += int32(1 + v.Intn(3))
	}
	return about(f)
}

func elsewhere(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return f.acked != none && len(f.asDeadLetter) == 1 && v.Header.Contract().SamePartition && !v.Header.Replay
	})
	if f == nil {
		return none, false
	}
	e := &v.Events[f.asDeadLetter[0]]
	e.Partition = (e.Partition + 1) % partitions
	e.Offset = 1000
	return about(f)
}

func deadLetterTwice(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && len(f.asDeadLetter) == 1 })
	if f == nil {
		return none, false
	}
	one := f.letters[0]
	at := v.time(one.answer)
	ask, answer, found := v.again(one.ask, at+brief), v.again(one.answer, at+2*brief), v.Events[f.asDeadLetter[0]]
	ask.Op, ask.Sequence = v.freshOp(), 1<<20
	answer.Op, answer.Sequence = ask.Op, ask.Sequence
	end := v.offsets(spot{found.Topic, found.Partition})
	found.Offset = end.Offset
	answer.Offset = end.Offset
	end.Offset++
	v.add(ask, answer, found)
	return about(f)
}

func twoPayloads(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return f.acked != none && len(f.asDeadLetter) == 2 && !v.Header.Replay })
	if f != nil {
		v.Events[f.asDeadLetter[1]].ValueHash++
	}
	return about(f)
}
