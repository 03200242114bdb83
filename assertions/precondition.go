package assertions

// What must hold of a contract and a run so that an invariant is judged. The catalogue lists it for each invariant.

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
	for _, one := range i.needs {
		if !one.holds(w) {
			return unpromised{unjudged(one.kind, i.Name, i.of, one.why)}
		}
	}
	return i.check(newReport(w, i.Name, i.of))
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
