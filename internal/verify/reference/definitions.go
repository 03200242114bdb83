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
// process then ends at the record's position). k is the attempt's number in its series.
func (j *judge) final(a *tried, k int) bool {
	c := j.header.Contract()
	givesUp := !c.HasDLQ() && !c.ExitsExhausted
	switch {
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
		over := i > 0 && j.final(&r.attempts[i-1], numbers[i-1]) && !j.retryable(r.attempts[i-1].outcome)
		if i > 0 && !over && !r.deadLettered(r.attempts[i-1].start, r.attempts[i].start) {
			numbers[i] = numbers[i-1] + 1
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
	for i, k := range j.series(r) {
		if j.final(&r.attempts[i], k) {
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
	j.bounded(r)
	j.classification(r)
	j.backoff(r)
	j.letters(r)
	if len(r.found) > 0 && j.header.Contract().HasDLQ() {
		allowed := 1
		for _, l := range r.letters {
			if l.acked < 0 {
				allowed++ // "a produce of r went unanswered"
			}
		}
		j.counted("dlq-once", "dlq-duplicate", r, len(r.found), allowed, allowed)
	}
	j.duplicates(r)
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
	case terminal >= 0 || len(r.found) > 0:
		return
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindAuditOffsets || e.Topic != r.topic || e.Partition != r.partition {
			continue
		}
		switch {
		case e.Aux <= r.offset:
			j.saw("no-loss", "stalled", r)
		case r.send.Flags == 0 || len(r.attempts) == 0:
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

// bounded implements "attempts per series = the contract's attempts.max for retryable outcomes".
func (j *judge) bounded(r *record) {
	limit := j.header.Contract().MaxAttempts
	most := 0
	for _, k := range j.series(r) {
		most = max(most, k)
	}
	if len(r.attempts) > 0 {
		j.judged("bounded-retries")
	}
	switch {
	case most > 2*limit:
		j.saw("bounded-retries", "endless-redelivery", r)
	case most > limit:
		j.saw("bounded-retries", "over-retried", r)
	}
	for _, l := range r.letters {
		before, last := r.before(l.asked)
		if before > 0 && last.end > l.asked {
			j.open("bounded-retries", "under-retried", r) // in flight: how the process took it is unknown
			continue
		}
		if before > 0 && j.retryable(last.outcome) && before < limit {
			j.saw("bounded-retries", "under-retried", r)
		}
	}
	for _, c := range r.commits {
		terminal := j.terminal(r)
		if j.header.Contract().HasDLQ() || c.offset <= r.offset || terminal >= 0 && terminal <= c.asked {
			continue
		}
		if n := len(r.attempts); n > 0 && n < limit && j.retryable(r.attempts[n-1].outcome) &&
			!r.attempts[n-1].gone && r.attempts[n-1].start <= c.asked {
			j.saw("bounded-retries", "under-retried", r)
		}
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

// classification implements "permanent and logical outcomes are attempted once; logical never reaches the DLQ; only
// infrastructure failures are retried; nothing that succeeded is dead-lettered".
func (j *judge) classification(r *record) {
	c := j.header.Contract()
	if len(r.attempts) > 0 {
		j.judged("classification")
	}
	for i := 1; i < len(r.attempts); i++ {
		before := &r.attempts[i-1]
		if j.is(c.Permanent, before.outcome) || j.is(c.Logical, before.outcome) {
			j.saw("classification", "permanent-retried", r)
		}
	}
	for i := range r.attempts {
		if a := &r.attempts[i]; a.outcome == history.OutcomeSuccess && r.acked() >= 0 && a.start > r.acked() {
			j.saw("classification", "dual-terminal", r)
		}
	}
	for _, l := range r.letters {
		switch count, last := r.before(l.asked); {
		case count == 0:
			j.saw("classification", "premature-dead-letter", r)
		case last.end > l.asked:
			for _, anomaly := range []string{"premature-dead-letter", "dual-terminal", "logical-dead-lettered"} {
				j.open("classification", anomaly, r)
			}
		case last.outcome == history.OutcomeSuccess:
			j.saw("classification", "dual-terminal", r)
		case j.is(c.Logical, last.outcome) && c.LogicalNeverDeadLetters():
			j.saw("classification", "logical-dead-lettered", r)
		case j.retryable(last.outcome) && count < c.MaxAttempts && (count == 1 || j.stopping(l.ask) != nil):
			j.saw("classification", "premature-dead-letter", r)
		}
	}
}

// backoff implements "start(k+1) − end(k) ∈ [B(k)−early, B(k)+jitter+late]". early is two milliseconds, for timers with
// millisecond resolution. For the subject, an unanswered attempt ended at some time between its start and its end.
func (j *judge) backoff(r *record) {
	b := j.header.Contract().Backoff
	numbers := j.series(r)
	for i := 1; i < len(r.attempts) && b.Initial > 0; i++ {
		before := &r.attempts[i-1]
		if numbers[i] == 1 || !j.retryable(before.outcome) {
			continue
		}
		j.judged("backoff")
		g := gapBefore(j.header.Contract(), &r.attempts[i], before, numbers[i]-1)
		switch {
		case g.shortest < g.least-precision:
			j.early(r, &g)
		case g.longest <= g.most:
		case j.givingUp(&r.attempts[i], before.end), j.othersFirst(r, &r.attempts[i], before.end):
			j.open("backoff", "backoff-late", r)
			j.open("backoff", "cap-exceeded", r)
		case i >= numbers[i]:
			// The consumer may have continued the count of an earlier series. Then this is a later gap than it appears.
			j.open("backoff", "backoff-late", r)
			j.open("backoff", "cap-exceeded", r)
		case b.Cap > 0 && g.uncapped > b.Cap && g.longest >= g.uncapped-precision:
			j.saw("backoff", "cap-exceeded", r)
		default:
			j.saw("backoff", "backoff-late", r)
		}
	}
}

// othersFirst reports whether another record is being processed at some time between from and the attempt. The process
// may handle one record at a time, and a copy in a retry topic waits for those before it.
func (j *judge) othersFirst(r *record, a *tried, from time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd) && e.Record != r.number &&
			(e.Instance == a.instance || j.header.Contract().Retry == history.RetryTopics) && e.Time >= from && e.Time <= a.start
	})
}

// givingUp reports whether a rebalance revokes a partition from the attempt's instance and the partition has no owner
// at some time between from and the attempt. The instance may pause for that.
func (j *judge) givingUp(a *tried, from time.Duration) bool {
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindRevoked || e.Instance != a.instance || e.Time > a.start ||
			e.Text != "rebalance" && e.Text != "rejoin" {
			continue
		}
		taken := slices.ContainsFunc(j.events, func(by history.Event) bool {
			return by.Kind == history.KindAssigned && by.Topic == e.Topic && by.Partition == e.Partition &&
				by.Time >= e.Time && by.Time < from
		})
		if !taken {
			return true
		}
	}
	return false
}

const precision = 2 * time.Millisecond

// gap is the interval between two attempts of a series: its minimum and maximum length, and the promised one.
type gap struct {
	k                                        int
	shortest, longest, least, most, uncapped time.Duration
}

func gapBefore(c *history.Contract, a, before *tried, k int) gap {
	b, free := &c.Backoff, c.Backoff
	free.Cap = 0
	g := gap{k: k, shortest: a.start - before.end, longest: a.start - before.end, least: b.Wait(k), uncapped: free.Wait(k)}
	g.most = g.least + b.Jitter + b.Late
	switch before.outcome {
	case history.OutcomeTimeout, history.OutcomeReset:
		g.shortest = a.start - before.start
	case history.OutcomeRateLimited:
		// The wait may be the one that the downstream asked for, the promised one, or their sum.
		g.most += before.told
		if !c.IgnoresRetryAfter {
			g.least = max(g.least, before.told)
		}
	}
	return g
}

// early judges a gap that is too short. If a later gap is as short as the first may be, the waits do not grow, unless
// first gaps are too short as well. All records count for that.
func (j *judge) early(r *record, g *gap) {
	b := j.header.Contract().Backoff
	asFirst := g.k > 1 && b.Wait(g.k) > b.Wait(1) && g.shortest >= b.Wait(1)-precision &&
		g.shortest <= b.Wait(1)+b.Jitter+b.Late
	switch {
	case asFirst && !j.allKnown:
		j.open("backoff", "backoff-early", r)
		j.open("backoff", "backoff-not-growing", r)
	case asFirst && !j.firstEarly:
		j.saw("backoff", "backoff-not-growing", r)
	default:
		j.saw("backoff", "backoff-early", r)
	}
}

// firstGapEarly reports whether the first wait of the record's series was too short.
func (j *judge) firstGapEarly(r *record) bool {
	for i, k := range j.series(r) {
		if k == 2 && j.retryable(r.attempts[i-1].outcome) {
			if g := gapBefore(j.header.Contract(), &r.attempts[i], &r.attempts[i-1], 1); g.shortest < g.least-precision {
				return true
			}
		}
	}
	return false
}

// letters implements "the DLQ record has key and value byte-equal, original headers kept where promised, every metadata
// field present, decodable and true", and "copies of r in the DLQ ≤ 1".
func (j *judge) letters(r *record) {
	c := j.header.Contract()
	if !c.HasDLQ() {
		return
	}
	if len(r.found) > 0 {
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
		if e.Claim.Missing != "" {
			j.saw("dlq-fidelity", "metadata-missing", r)
		}
		if j.untrue(r, e) {
			j.saw("dlq-fidelity", "metadata-wrong", r)
		}
		elsewhere := e.Claim.Topic != r.topic
		if e.Claim.Partition >= 0 && e.Claim.Offset >= 0 { // a dialect may name only the topic
			elsewhere = elsewhere || e.Claim.Partition != r.partition || e.Claim.Offset != r.offset
		}
		switch {
		case c.SamePartition && e.Partition != r.partition, elsewhere, !r.disturbed && !j.truth(r, &e.Claim):
			j.saw("dlq-fidelity", "metadata-wrong", r)
		case r.disturbed && len(e.Claim.Beside().Quotes) > 0 && len(r.letters) > 0 &&
			!j.everAnswered(r, e.Claim.Beside().Quotes):
			j.saw("dlq-fidelity", "metadata-wrong", r)
		case r.disturbed && (e.Claim.Attempts >= 0 || len(e.Claim.Beside().Quotes) > 0):
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
		silent := last.end > l.asked || last.gone || last.outcome == history.OutcomeTimeout ||
			last.outcome == history.OutcomeReset
		return count == 0 || slices.Contains(quotes, last.outcome) || silent && j.everAnswered(r, quotes)
	})
}

// everAnswered reports whether an attempt of the record got one of these answers or was never answered.
func (j *judge) everAnswered(r *record, quotes []history.Outcome) bool {
	answered := false
	for i := range r.attempts {
		if a := &r.attempts[i]; a.end >= 0 {
			if slices.Contains(quotes, a.outcome) {
				return true
			}
			answered = answered || a.outcome != history.OutcomeUnknownID
		}
	}
	return !answered
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

// duplicates implements "successes per record ≤ 1".
func (j *judge) duplicates(r *record) {
	successes := 0
	for i := range r.attempts {
		if r.attempts[i].outcome == history.OutcomeSuccess {
			successes++
		}
	}
	if successes > 0 {
		j.judged("duplicates")
	}
	if successes > 1 {
		j.saw("duplicates", "duplicate", r)
	}
}

// ordering implements "the first attempt of the next record starts after the previous one is terminal". The next record
// is not at fault once a commit has passed the previous one.
func (j *judge) ordering(r *record, records map[int32]*record) {
	b, open := j.previous(r, records)
	if open {
		j.open("ordering", "reordered", r)
	}
	if b == nil || len(r.attempts) == 0 {
		return
	}
	j.judged("ordering")
	terminal := j.terminal(b)
	for i, k := range j.series(r) {
		start := r.attempts[i].start
		passed := slices.ContainsFunc(b.commits, func(c commit) bool { return c.offset > b.offset && c.answered <= start })
		if k == 1 && !passed && (terminal < 0 || terminal > start) {
			j.saw("ordering", "reordered", r)
		}
	}
	if len(b.attempts) > 0 && b.attempts[0].start > r.attempts[0].start {
		j.saw("ordering", "reordered", r)
	}
}

// previous is the preceding record in the promised order, or nil. open reports that it could not be decided.
func (j *judge) previous(r *record, records map[int32]*record) (before *record, open bool) {
	ordering := j.header.Contract().Ordering
	for i := range j.events {
		e := &j.events[i]
		if e == r.send {
			return before, open
		}
		if e.Kind != history.KindSend || e.Topic != r.topic || e.Partition != r.send.Partition {
			continue
		}
		if ordering == history.OrderingPartition || ordering == history.OrderingKey && e.N >= 0 && e.N == r.send.N {
			before = records[e.Record]
			open = before == nil
		}
	}
	return before, open
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

// stopping is the first signal, up to the event's time, that told the event's process to stop, or nil.
func (j *judge) stopping(of *history.Event) *history.Event {
	for i := range j.events {
		e := &j.events[i]
		if e.Time > of.Time {
			break
		}
		if e.Kind == history.KindInstanceSignal && (e.Text == "TERM" || e.Text == "INT") && by(e, of) {
			return e
		}
	}
	return nil
}
