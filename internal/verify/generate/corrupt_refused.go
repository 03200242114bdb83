package generate

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// refusedForGood is an error that no client retries (TOPIC_AUTHORIZATION_FAILED).
const refusedForGood = 29

func refusedCorruptions() []Corruption {
	halt := func(anomaly string) Promise { return Promise{"halt-on-dlq-failure", anomaly} }
	return []Corruption{
		{Name: "an instance does nothing for long after a refused dead letter", Promise: halt("stopped-trying"),
			apply: idles(history.OnFailureRetry)},
		{Name: "an instance runs on after a refused dead letter", Promise: halt("did-not-crash"),
			apply: idles(history.OnFailureCrash)},
	}
}

// idles makes a dead letter be refused before it is accepted, and removes all activity in between for longer than the
// contract allows.
func idles(promised history.OnFailure) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		c := v.Header.Contract()
		f := v.chosen(func(f *facts) bool {
			return v.deadLettered(f) && len(f.letters) == 1 && !v.someRefused() && len(v.Header.Faults) == 0 &&
				len(v.exited) == 0 && v.nothingAround(f) // a record stopped in between would end late
		})
		if f == nil || c.Retry == history.RetryTopics || c.GroupType == history.GroupShare || v.Header.Replay {
			return none, false
		}
		c.OnFailure = promised
		longest := time.Duration(0)
		for k := 1; k < max(c.MaxAttempts, 2); k++ {
			longest = max(longest, c.Backoff.Wait(k)+c.Backoff.Jitter+c.Backoff.Late)
		}
		at := v.time(f.letters[0].ask)
		ask := v.again(f.letters[0].ask, at)
		v.dilate(at, 31*time.Second+longest+c.StopGrace)
		ask.Op = v.freshOp()
		answer := ask
		answer.Kind, answer.Time, answer.Code = history.KindProduceResponse, at+1, refusedForGood
		said := history.New(history.KindSubjectError, at+2)
		said.Instance, said.Run, said.Text = ask.Instance, ask.Run, "ERROR dead letter refused"
		v.add(ask, answer, said)
		return about(f)
	}
}

// someRefused reports whether a dead letter was refused in the unmodified history.
func (v *view) someRefused() bool {
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindProduceResponse && !plain(e) {
			return true
		}
	}
	return false
}

// nothingAround reports whether no other record and no commit was in flight when the record's dead letter was
// requested.
func (v *view) nothingAround(f *facts) bool {
	at := v.time(f.letters[0].ask)
	spans := func(from, to int) bool { return v.time(from) <= at && (to == none || v.time(to) >= at) }
	for _, other := range v.records {
		first, last := int(none), int(none)
		for _, list := range [][]pair{other.attempts, other.letters, other.copies} {
			for _, one := range list {
				if first == none || v.time(one.ask) < v.time(first) {
					first = one.ask
				}
				last = max(last, one.ask, one.answer)
			}
		}
		if other != f && first != none && spans(first, last) {
			return false
		}
	}
	for _, list := range v.commits {
		for _, one := range list {
			if spans(one.ask, one.answer) {
				return false
			}
		}
	}
	return true
}
