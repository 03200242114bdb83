package reference

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// effects implements "a record whose last attempt succeeded, that is committed, and that has no dead letter has an
// effect in the sink", "one for each success or copy, at most one where the contract says once, or one of each copy",
// and "where it says atomic, a record none of whose attempts succeeded has none". An attempt without an answer may have
// had its effect.
func (j *judge) effects(r *record) {
	c := j.header.Contract().Effects
	found, read := j.inSink(r)
	if c == nil || !read {
		return
	}
	successes, unsure := 0, 0
	for _, a := range r.attempts {
		switch {
		case a.gone || a.outcome == history.OutcomeTimeout || a.outcome == history.OutcomeReset:
			unsure++
		case a.outcome == history.OutcomeSuccess:
			successes++
		}
	}
	allowed := max(1+r.again, successes) + unsure
	switch {
	case c.Once:
		allowed = 1
	case c.PerCopy:
		allowed = 1 + r.again
	}
	switch {
	case found > allowed:
		j.judged("effects")
		if slices.ContainsFunc(r.letters, func(l written) bool { return l.acked < 0 }) {
			j.open("effects", "effect-doubled", r) // it justifies another delivery
			return
		}
		j.saw("effects", "effect-doubled", r)
	case found > 0 && c.Atomic && unsure > 0:
	case found > 0 && c.Atomic && successes == 0:
		j.judged("effects")
		j.saw("effects", "effect-partial", r)
	case found == 0 && j.owesEffect(r):
		j.judged("effects")
		j.saw("effects", "effect-missing", r)
	}
}

// inSink is the number of the record's effects that the last reading of the sink found.
func (j *judge) inSink(r *record) (found int, read bool) {
	for i := range j.events {
		switch e := &j.events[i]; {
		case e.Kind == history.KindEffectsRead:
			found, read = 0, true
		case e.Kind == history.KindEffect && e.Record == r.number:
			found += int(e.N)
		}
	}
	return found, read
}

func (j *judge) owesEffect(r *record) bool {
	n := len(r.attempts)
	if n == 0 || len(r.letters)+len(r.found) > 0 || r.attempts[n-1].gone ||
		r.attempts[n-1].outcome != history.OutcomeSuccess {
		return false
	}
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditOffsets && e.Topic == r.topic && e.Partition == r.partition && e.Aux > r.offset
	})
}
