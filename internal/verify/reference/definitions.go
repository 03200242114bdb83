package reference

// This file implements the definitions. Each function quotes the sentence that it implements.

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func (j *judge) is(outcomes []history.Outcome, outcome history.Outcome) bool {
	return slices.Contains(outcomes, outcome)
}

func (j *judge) retryable(o history.Outcome) bool { return j.is(j.header.Contract().Retryable, o) }

// final implements "an attempt ended in success, or in a logical failure, where the contract calls that terminal".
// Without a dead-letter topic, every non-retryable outcome is final, and so is the last promised attempt (unless the
// process then ends at the record's position). k is the attempt's number in its series, all that of all the record's.
func (j *judge) final(a *tried, k, all int) bool {
	c := j.header.Contract()
	givesUp := !c.HasDLQ() && !c.ExitsExhausted
	switch {
	case a.open: // "whatever the subject does then is right", but to give up a record with attempts left
		return givesUp && (!a.gone && !j.retryable(a.outcome) || all >= c.LeastAttempts())
	case a.outcome == history.OutcomeSuccess:
		return true
	case j.is(c.Logical, a.outcome):
		return c.LogicalEnds() || givesUp
	case j.is(c.Permanent, a.outcome):
		return givesUp
	}
	return givesUp && j.retryable(a.outcome) && c.MaxAttempts > 0 && k >= c.MaxAttempts
}

// series numbers each attempt in its series: "the attempts of one record between two events that justify a fresh
// count". For an undisturbed record, these events are only that its obligation was met or that its dead letter was
// requested.
func (j *judge) series(r *record) []int {
	numbers := make([]int, len(r.attempts))
	for i := range r.attempts {
		numbers[i] = 1
		// Giving up for good does not justify a fresh count: another attempt would be one too many.
		over := i > 0 && j.final(&r.attempts[i-1], numbers[i-1], i) && !j.retryable(r.attempts[i-1].outcome)
		if i > 0 && !over && !r.deadLettered(r.attempts[i-1].start, r.attempts[i].start) {
			numbers[i] = numbers[i-1] + 1
		}
		if r.attempts[i].open {
			numbers[i] = 0 // "attempts in calls that were refused are not counted"
		}
	}
	return numbers
}

// deadLettered reports whether a dead letter was requested or acknowledged between from and to.
func (r *record) deadLettered(from, to time.Duration) bool {
	return slices.ContainsFunc(r.letters, func(l written) bool {
		return l.asked >= from && l.asked < to || l.acked >= from && l.acked <= to
	})
}

// terminal is the time at which the record first became terminal, or -1.
func (j *judge) terminal(r *record) time.Duration {
	first := time.Duration(-1)
	note := func(at time.Duration) {
		if at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	called := false
	for i, k := range j.series(r) {
		if called = called || r.attempts[i].open; called {
			k = i + 1 // it may have counted those in calls
		}
		if j.final(&r.attempts[i], k, i+1) {
			note(r.attempts[i].end)
		}
	}
	for _, l := range r.letters {
		note(l.acked)
	}
	return first
}

func (r *record) acked() time.Duration {
	first := time.Duration(-1)
	for _, l := range r.letters {
		if l.acked >= 0 && (first < 0 || l.acked < first) {
			first = l.acked
		}
	}
	return first
}

func (j *judge) record(r *record) {
	j.noLoss(r, j.terminal(r))
	j.commits(r)
	j.letters(r)
	if len(r.found) > 0 && j.header.Contract().HasDLQ() {
		allowed := 1
		for _, l := range r.letters {
			if l.acked < 0 {
				allowed++ // "a produce of r went unanswered"
			}
		}
		j.copies(r, len(r.found), allowed, allowed)
	}
	j.effects(r)
}

// noLoss implements "after drain every acknowledged record is terminal". For a record that the downstream stub cannot
// identify, any attempt may have been the last.
func (j *judge) noLoss(r *record, terminal time.Duration) {
	j.judged("no-loss")
	switch {
	case !r.inTopic, r.acked() >= 0 && len(r.found) == 0:
		j.saw("no-loss", "dropped-by-ack", r)
		return
	case len(r.found) > 0, terminal >= 0 && !j.left(r):
		return
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindAuditOffsets || e.Topic != r.topic || e.Partition != r.partition {
			continue
		}
		switch {
		case e.Aux <= r.offset && j.held(r.topic, r.partition, r.offset):
		case e.Aux <= r.offset:
			j.saw("no-loss", "stalled", r)
		case r.send.Flags == 0 || len(r.attempts) == 0 || j.halts(r):
			j.saw("no-loss", "lost", r)
		}
		return
	}
}

// commits implements "each r in p below N that ends in the DLQ has D(r) acknowledged before C was read", and "every
// fetched r below N is terminal". The first commit past a non-terminal record breaks one of the two: the first sentence
// if only the dead letter was outstanding. The first commit is the one that the broker accepted first.
func (j *judge) commits(r *record) {
	j.judged("commit-after-outcome")
	if len(r.letters) > 0 {
		j.judged("commit-after-dlq")
	}
	terminal := j.terminal(r)
	accepted := slices.Clone(r.commits)
	slices.SortStableFunc(accepted, func(a, b commit) int { return cmp.Compare(a.answered, b.answered) })
	for _, c := range accepted {
		if c.offset <= r.offset || terminal >= 0 && terminal <= c.asked {
			continue
		}
		last := history.OutcomeNone
		started := time.Duration(-1)
		if n := len(r.attempts); n > 0 {
			last, started = r.attempts[n-1].outcome, r.attempts[n-1].start
			if r.attempts[n-1].open {
				last = history.OutcomeNone
			}
		}
		if len(r.letters) > 0 && j.header.Contract().HasDLQ() {
			switch acked := r.acked(); {
			case acked > c.asked:
				j.saw("commit-after-dlq", "commit-before-dlq", r)
			case acked < 0 && last != history.OutcomeSuccess:
				j.saw("commit-after-dlq", "commit-without-dlq", r)
			}
		}
		outstanding := len(r.letters) > 0 && started <= c.asked && last != history.OutcomeSuccess
		j.passed(r, c, outstanding)
		return
	}
}

// before returns the number of attempts that had started by the given time, and the last of them.
func (r *record) before(at time.Duration) (count int, last tried) {
	for _, a := range r.attempts {
		if a.start <= at {
			count, last = count+1, a
		}
	}
	return count, last
}

// letters implements "the DLQ record has key and value byte-equal, original headers kept where promised, every metadata
// field present, decodable and true", and "copies of r in the DLQ ≤ 1".
func (j *judge) letters(r *record) {
	c := j.header.Contract()
	if !c.HasDLQ() {
		return
	}
	if len(r.found) > 0 && (!c.ChangesKey || !c.ChangesValue || c.KeepsHeaders || c.SamePartition || c.Envelope != "") {
		j.judged("dlq-fidelity")
	}
	for _, e := range r.found {
		if !c.ChangesValue && e.ValueHash != r.send.ValueHash {
			j.saw("dlq-fidelity", "payload-changed", r)
		}
		if !c.ChangesValue && e.ValueHash != r.found[0].ValueHash {
			j.saw("dlq-once", "two-payloads-one-source", r)
		}
		if !c.ChangesKey && e.KeyHash != r.send.KeyHash {
			j.saw("dlq-fidelity", "key-changed", r)
		}
		if c.KeepsHeaders && e.HeadersHash != r.send.HeadersHash {
			j.saw("dlq-fidelity", "headers-lost", r)
		}
		if c.Envelope == "" {
			if c.SamePartition && e.Partition != r.partition {
				j.saw("dlq-fidelity", "metadata-wrong", r)
			}
			continue
		}
		claim := e.Stated()
		if claim.Missing != "" {
			j.saw("dlq-fidelity", "metadata-missing", r)
		}
		if j.untrue(r, e) {
			j.saw("dlq-fidelity", "metadata-wrong", r)
		}
		elsewhere := claim.Topic != r.topic
		if claim.Partition >= 0 && claim.Offset >= 0 { // a dialect may name only the topic
			elsewhere = elsewhere || claim.Partition != r.partition || claim.Offset != r.offset
		}
		switch {
		case c.SamePartition && e.Partition != r.partition, elsewhere, !r.disturbed && !j.truth(r, &claim):
			j.saw("dlq-fidelity", "metadata-wrong", r)
		case r.disturbed && len(claim.Beside().Quotes) > 0 && len(r.letters) > 0 &&
			!j.everAnswered(r, claim.Beside().Quotes):
			j.saw("dlq-fidelity", "metadata-wrong", r)
		case r.disturbed && (claim.Attempts >= 0 || len(claim.Beside().Quotes) > 0):
			j.open("dlq-fidelity", "metadata-wrong", r) // the number of attempts known to the process is unknown
		}
	}
}

// untrue implements "reason fits the last answer, times lie in the run, epochs are real, the envelope's block is there
// exactly once".
func (j *judge) untrue(r *record, e *history.Event) bool {
	more := e.Claim.Beside()
	for _, at := range more.Times {
		if at < -time.Minute || at > e.Time+time.Minute {
			return true
		}
	}
	if more.Epoch != nil && more.Epochs != nil && *more.Epoch != more.Epochs[0] && (*more.Epoch < 0 ||
		*more.Epoch > max(more.Epochs[1], j.assigned())) || len(more.Twice) > 0 {
		return true
	}
	return !r.disturbed && len(r.letters) > 0 && !j.mayQuote(r, more.Quotes)
}

// mayQuote reports whether one of these answers may have been the last one known to the process that wrote one of the
// dead letters.
func (j *judge) mayQuote(r *record, quotes []history.Outcome) bool {
	if len(quotes) == 0 {
		return true
	}
	return slices.ContainsFunc(r.letters, func(l written) bool {
		count, last := r.before(l.asked)
		silent := last.open || last.end > l.asked || last.gone || last.outcome == history.OutcomeTimeout ||
			last.outcome == history.OutcomeReset
		return count == 0 || slices.Contains(quotes, last.outcome) || silent && j.everAnswered(r, quotes)
	})
}

// everAnswered reports whether an attempt of the record got one of these answers. None need have, if the record has no
// answered attempt, or if the downstream stub cannot identify it, so that its attempts prove nothing.
func (j *judge) everAnswered(r *record, quotes []history.Outcome) bool {
	answered := false
	for i := range r.attempts {
		if a := &r.attempts[i]; a.end >= 0 {
			if slices.Contains(quotes, a.outcome) {
				return true
			}
			answered = true
		}
	}
	return !answered || r.send.Flags != 0
}

// truth reports whether the number of attempts in a dead letter had been made when that dead letter, or another one of
// the record, was requested.
func (j *judge) truth(r *record, claim *history.Claim) bool {
	if claim.Attempts < 0 || len(r.letters) == 0 || r.send.Flags != 0 { // its attempts prove nothing
		return true
	}
	return slices.ContainsFunc(r.letters, func(l written) bool {
		all, _ := r.before(l.asked)
		own := 0
		for i, k := range j.series(r) {
			if r.attempts[i].start <= l.asked {
				own = k
			}
		}
		return int(claim.Attempts) >= own && int(claim.Attempts) <= all
	})
}

// assigned is an upper bound of the epochs that an assignment can have: the number of assignments, or their generation.
func (j *judge) assigned() int32 {
	most := int32(0)
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAssigned {
			most = max(most+1, e.N)
		}
	}
	return most
}
