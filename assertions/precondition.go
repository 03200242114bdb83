package assertions

// What must hold of a contract and a run so that an invariant is judged. The catalogue lists it for each invariant.

import (
	"slices"
)

// precondition is checked before any event is seen. If it does not hold, the result is not-applicable, of the kind and
// with the reason.
type precondition struct {
	holds func(w *state) bool
	kind  Unjudged
	why   string
}

// begin returns the checker of the invariant, or one that gives the reason why nothing is judged: the first
// precondition that does not hold.
func (i *Invariant) begin(w *state) checker {
	result, partly := i.unmet(w)
	switch {
	case result == nil:
		return i.check(newReport(w, i.Name, i.of))
	case partly:
		return unlessFound{i.check(newReport(w, i.Name, i.of)), *result}
	}
	return unpromised{*result}
}

// unmet returns the result of the first precondition that does not hold, nil if all do. partly: there are anomalies
// that do not depend on it.
func (i *Invariant) unmet(w *state) (result *Result, partly bool) {
	needs := i.needs
	if i.mostNeeds != nil {
		needs = append(slices.Clone(needs), *i.mostNeeds)
	}
	for at, one := range needs {
		if !one.holds(w) {
			not := unjudged(one.kind, i.Name, i.of, one.why)
			return &not, at == len(i.needs)
		}
	}
	return nil, false
}

// unlessFound is the checker of an invariant most of which is not judged. If it finds none of the other anomalies, the
// result is not-applicable: a pass would be about little else than what is not promised.
type unlessFound struct {
	checker
	result Result
}

func (u unlessFound) finish() Result {
	if found := u.checker.finish(); len(found.Anomalies) > 0 {
		return found
	}
	return u.result
}

// seesAttempts holds if the subject calls the downstream stub. what names what is not seen otherwise.
func seesAttempts(what string) precondition {
	return precondition{func(w *state) bool { return !w.contract.WireOnly }, Unseen,
		"the subject does not call the downstream, so its " + what + " are not seen"}
}

// seesEnds holds if dlqbench starts the consumer.
func seesEnds() precondition {
	return precondition{func(w *state) bool { return !w.contract.ProcessUnseen }, Unseen,
		"dlqbench does not start this consumer, so its ends and exit codes are not seen"}
}

func hasDLQ() precondition {
	return precondition{func(w *state) bool { return w.contract.HasDLQ() }, Unpromised,
		"the contract has no dead-letter topic"}
}

// writesDLQ holds except in share groups where the broker makes the dead letters. why is the reason then.
func writesDLQ(why string) precondition {
	return precondition{func(w *state) bool { return w.contract.WritesDLQ() }, Unpromised, why}
}

// brokerWrites is the usual reason of writesDLQ.
const brokerWrites = "the broker writes the dead letters, of records that the subject has rejected"

func commitsFollowOutcomes() []precondition {
	return []precondition{
		{func(w *state) bool { return !w.contract.AutoCommit }, Unpromised,
			"the contract says that commits follow time, not outcomes"},
		{func(w *state) bool { return !w.contract.OffsetsOutside }, Unpromised,
			"the contract says that offsets are kept outside Kafka"},
	}
}

// unless lifts preconditions where the condition holds.
func unless(condition func(w *state) bool, needs ...precondition) []precondition {
	for i := range needs {
		holds := needs[i].holds
		needs[i].holds = func(w *state) bool { return condition(w) || holds(w) }
	}
	return needs
}
