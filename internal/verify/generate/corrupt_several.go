package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// SeveralCorruptions lists the corruptions of a history of a consumer that calls several downstreams.
func SeveralCorruptions() []Corruption {
	return append([]Corruption{{
		Name: "the calls of another downstream failed, and the record is committed", Promise: Promise{"no-loss", "lost"},
		apply: leftElsewhere,
	}}, Corruptions()...)
}

// RepeatsCorruptions lists the corruptions of a history of a consumer whose client repeats calls by itself. How many
// attempts its calls are, and how long it waits between them, is known less exactly.
func RepeatsCorruptions() []Corruption {
	bounded := func(anomaly string) Promise { return Promise{"bounded-retries", anomaly} }
	all := slices.DeleteFunc(SeveralCorruptions(), func(c Corruption) bool {
		return c.Invariant == "backoff" || c.Invariant == "bounded-retries" || c.Name == otherCount ||
			c.Promise == Promise{"graceful-stop", "lost"} ||
			slices.ContainsFunc(c.Also, func(also Promise) bool { return also.Invariant == "bounded-retries" })
	})
	return append(all,
		Corruption{Name: "one attempt more than the contract allows, of several calls", Promise: bounded("over-retried"),
			apply: overCalled},
		Corruption{Name: "one attempt less than the contract promises, of several calls", Promise: bounded("under-retried"),
			apply: underCalled},
	)
}

// certain reports whether calls of the record that failed are attempts or repeats beyond doubt: all of them were
// answered, and none so that a client does not repeat it.
func (v *view) certain(f *facts) bool {
	return v.quiet(f) && !slices.ContainsFunc(f.attempts, func(one pair) bool {
		return v.outcome(one) != history.OutcomeTransient
	})
}

// overCalled lowers the contract's attempt limit by one, if exactly one record needs all calls.
func overCalled(v *view) (int32, bool) {
	c := v.Header.Contract()
	limit := c.MaxAttempts - 1
	f := v.lone(func(f *facts) bool { return len(f.attempts) > limit*c.Calls })
	if limit < 1 || f == nil || !v.certain(f) || len(f.attempts) > 2*limit*c.Calls {
		return none, false
	}
	c.MaxAttempts = limit
	return about(f)
}

// underCalled raises the contract's attempt limit by one, if exactly one record was given up after all attempts.
func underCalled(v *view) (int32, bool) {
	c := v.Header.Contract()
	f := v.lone(v.givenUp)
	if f == nil || !v.certain(f) || v.Header.Replay || c.MaxAttempts < 2 || len(f.attempts)%c.MaxAttempts > 0 {
		return none, false
	}
	c.MaxAttempts++
	return about(f)
}

// leftElsewhere makes the calls of a record at another downstream fail.
func leftElsewhere(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if len(f.calls) == 0 || !v.tried(f) || v.Events[f.send].Flags != 0 || !v.Header.Contract().HasDLQ() ||
			v.outcome(f.attempts[len(f.attempts)-1]) != history.OutcomeSuccess {
			return false
		}
		_, found := v.covering(f)
		return found && v.exitsOnlyAtTheEnd() && slices.ContainsFunc(f.calls, v.needed)
	})
	if f == nil {
		return none, false
	}
	at := v.Events[f.calls[slices.IndexFunc(f.calls, v.needed)].ask].N
	for _, one := range f.calls {
		if e := &v.Events[one.answer]; e.N == at {
			e.Outcome = pick(v.Choices, history.OutcomeTransient, history.OutcomePermanent)
		}
	}
	return about(f)
}

// needed reports whether the record does not succeed without the call.
func (v *view) needed(call pair) bool { return !v.Header.Downstreams[v.Events[call.ask].N].Optional }
