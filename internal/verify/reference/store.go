package reference

// This file judges the dead-letter store: the life of each entry, one sentence of the rule at a time. It decides
// records with one dead letter whose entry was observed from beginning to end. It compares two clocks only where they
// differ by more than their possible error; otherwise the result is open.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	lifecycle = "store-lifecycle"
	// grain is the rounding error of a database's timestamps.
	grain = 2 * time.Millisecond
	// margin is the tolerance within which lateness stays undecided.
	margin = 25 * time.Millisecond
)

// step is a change of an entry.
type step struct {
	history.StoreChange
	seen, made time.Duration
	worker     int16
	retries    int32
}

// life holds what the events say about an entry.
type life struct {
	number int64
	source spot
	steps  []step
}

// stored judges the records in the dead-letter store as far as possible.
func (j *judge) stored() {
	odd := slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindStall || e.Kind == history.KindInstanceSignal && e.Text == "STOP" ||
			e.Flags.Has(history.Polled) ||
			e.Kind == history.KindStoreWatch && e.Text != history.WatchBegins && e.Text != history.WatchEnds
	})
	c := j.header.Store
	if odd || len(j.header.Faults) > 0 || c.ByHand || c.Workers == 0 || !j.wholeTime() {
		return
	}
	for number := range int32(j.header.Records) {
		letter, lives, told := j.lives(number)
		if !told {
			continue
		}
		r := &record{number: number}
		j.decide(OfRecord(lifecycle, number))
		j.judged(lifecycle)
		if letter != nil && len(lives) == 0 {
			j.saw(lifecycle, "lost-in-store", r)
		}
		for i, one := range lives {
			if slices.ContainsFunc(lives[:i], func(o *life) bool { return o.source == one.source }) {
				j.saw(lifecycle, "doubled-in-store", r)
			}
			j.oneLife(r, one)
		}
		j.arrived(r, letter, lives)
		j.workersTries(r, lives)
	}
}

// lives gathers the entries of a record and its dead letter, if it has one. told is false if the events are ambiguous.
func (j *judge) lives(number int32) (letter *history.Event, lives []*life, told bool) {
	if !j.unique(number) {
		return nil, nil, false
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number {
			continue
		}
		switch e.Kind {
		case history.KindAuditRecord:
			if j.role(e.Topic) != history.RoleDLQ {
				continue
			}
			if letter != nil || e.Claim == nil || e.Claim.Offset < 0 {
				return nil, nil, false
			}
			letter = e
		case history.KindStoreChange:
			at := slices.IndexFunc(lives, func(l *life) bool { return l.number == e.Op })
			if at < 0 {
				at, lives = len(lives),
					append(lives, &life{number: e.Op, source: sourceOf(e)})
			}
			if !lives[at].add(e) {
				return nil, nil, false
			}
		}
	}
	for _, one := range lives {
		if !j.agrees(number, one) || j.shared(number, one) {
			return nil, nil, false
		}
	}
	return letter, lives, true
}

// sourceOf is the position of the record that a dead letter, or the entry of one, names.
func sourceOf(e *history.Event) spot {
	claim := e.Stated()
	return spot{claim.Topic, claim.Partition, claim.Offset}
}

// shared reports whether an entry or a dead letter of another record claims the same dead letter or the same position,
// so that the owner is unknown.
func (j *judge) shared(number int32, l *life) bool {
	letters := map[spot]bool{}
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindStoreChange && e.Op == l.number {
			letters[spot{e.Topic, e.Partition, e.Offset}] = true
		}
	}
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		there, from := spot{e.Topic, e.Partition, e.Offset}, sourceOf(&e)
		tells := e.Kind == history.KindStoreChange || e.Kind == history.KindAuditRecord && e.Claim != nil
		return tells && e.Record != number && (letters[there] || from == l.source)
	})
}

// add adds a change that begins in the state in which the last one ended.
func (l *life) add(e *history.Event) bool {
	change, err := history.ParseStoreChange(e.Text)
	one := step{change, e.Time, time.Duration(e.Aux), e.Instance, e.N}
	from := history.StoreAbsent
	if n := len(l.steps); n > 0 {
		from = l.steps[n-1].To
		if one.made < l.steps[n-1].made || one.seen <= l.steps[n-1].seen {
			return false
		}
	}
	l.steps = append(l.steps, one)
	return err == nil && change.From == from && one.made >= 0 && one.seen >= one.made && !change.Hand &&
		l.source == sourceOf(e)
}

// agrees reports whether the audit of the store found the entry in the state that its changes left.
func (j *judge) agrees(number int32, l *life) bool {
	found := history.StoreAbsent
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindStoreEntry && e.Op == l.number {
			if change, err := history.ParseStoreChange(e.Text); err == nil && e.Record == number {
				found = change.To
			}
		}
	}
	return found == l.steps[len(l.steps)-1].To
}

// blur is the maximum deviation of the database's clock.
func (j *judge) blur() time.Duration {
	most := time.Duration(0)
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindStoreClock {
			most = max(most, time.Duration(e.Aux))
		}
	}
	return most
}

// oneLife implements "an entry of the dead-letter store goes through its life as the documents draw it".
func (j *judge) oneLife(r *record, l *life) {
	for i := range l.steps {
		one := &l.steps[i]
		if !drawn(one) {
			j.saw(lifecycle, "illegal-transition", r)
		}
		if i == 0 {
			continue
		}
		before := &l.steps[i-1]
		switch {
		case one.From == history.StoreProcessing && one.To == history.StoreProcessing && one.By != before.By &&
			one.made+grain < before.Lease:
			j.saw(lifecycle, "double-lock", r)
		case one.To == history.StoreProcessing && one.From == history.StorePending && before.Next != history.None:
			j.taken(r, before, one)
		}
		j.retained(r, l, i)
	}
	j.overstays(r, &l.steps[len(l.steps)-1])
	for i := range l.steps {
		one, most := &l.steps[i], j.header.Store.MaxRetries
		sentBack := one.From == history.StoreProcessing && one.To == history.StorePending
		if int(one.retries) > most || sentBack && int(one.retries) >= most {
			j.saw(lifecycle, "over-retried-in-store", r)
		}
	}
}

// drawn reports whether the documents have the change. The retention judges deletions.
func drawn(one *step) bool {
	switch one.From {
	case history.StoreAbsent:
		return one.To == history.StorePending
	case history.StorePending:
		return one.To == history.StoreProcessing || one.To == history.StorePending || one.To == history.StoreAbsent
	case history.StoreProcessing:
		return one.To != history.StoreArchived && one.To != history.StoreUnknown
	case history.StoreFailed:
		return one.To == history.StoreArchived || one.To == history.StoreAbsent
	case history.StoreResolved, history.StoreArchived, history.StoreManual:
		return one.To == history.StoreAbsent
	}
	return false
}

// taken implements "an entry is taken when it is due"; "what is late is judged only if a worker was alive and idle long
// enough".
func (j *judge) taken(r *record, before, one *step) {
	if one.made+grain < before.Next {
		j.saw(lifecycle, "retry-early", r)
	}
	j.late(r, max(before.Next, before.made), one.made)
}

func (j *judge) late(r *record, due, until time.Duration) {
	c := j.header.Store
	allowed := 2*c.Poll + c.Late
	switch idle := j.idle(due, until); {
	case j.workersEnded() || idle > allowed-margin && idle <= allowed+margin:
		j.open(lifecycle, "retry-late", r)
	case idle > allowed:
		j.saw(lifecycle, "retry-late", r)
	}
}

// workersEnded reports whether one of the workers was absent for part of the time.
func (j *judge) workersEnded() bool {
	audit := j.since(history.PhaseAudit)
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		kind, _ := history.StoreProcess(e.Instance)
		return kind == "worker" && e.Kind == history.KindInstanceExited && e.Time < audit
	})
}

func (j *judge) since(phase string) time.Duration {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindPhase && e.Text == phase {
			return e.Time
		}
	}
	return forever
}

// idle is the longest period between the two times in which one of the workers held nothing.
func (j *judge) idle(from, to time.Duration) time.Duration {
	longest := time.Duration(0)
	for n := range j.header.Store.Workers {
		moments := []time.Duration{from, to}
		for i := range j.events {
			if e := &j.events[i]; e.Kind == history.KindStoreChange && time.Duration(e.Aux) > from && time.Duration(e.Aux) < to {
				moments = append(moments, time.Duration(e.Aux))
			}
		}
		slices.Sort(moments)
		since := from
		for i, at := range moments {
			if i > 0 && j.holding(history.Worker(n), moments[i-1]) > 0 {
				since = at
			}
			longest = max(longest, at-since)
		}
	}
	return longest
}

// holding counts the entries that the worker had locked just after the time.
func (j *judge) holding(worker int16, at time.Duration) int {
	holder := map[int64]int16{}
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindStoreChange && time.Duration(e.Aux) <= at {
			holder[e.Op] = e.Instance
		}
	}
	n := 0
	for _, who := range holder {
		if who == worker {
			n++
		}
	}
	return n
}

// retained implements "entries are kept as long as the retention says, and pending ones until they are resolved".
func (j *judge) retained(r *record, l *life, i int) {
	one, before := &l.steps[i], &l.steps[i-1]
	if one.To != history.StoreAbsent && (one.From != history.StoreFailed || one.To != history.StoreArchived) {
		return
	}
	j.overdue(r, before, one.made)
	keep, ends := j.keeps(one.From)
	switch began := before.made; {
	case !ends:
		j.saw(lifecycle, "retention-early", r)
	case j.header.Store.Retention == nil:
		j.saw(lifecycle, "retention-early", r)
	case one.made-began+grain >= keep:
	case i > 1 && one.made-l.steps[i-2].made+grain >= keep:
		j.open(lifecycle, "retention-early", r) // the entry's own end time is unknown
	default:
		j.saw(lifecycle, "retention-early", r)
	}
}

func (j *judge) keeps(state history.StoreState) (keep time.Duration, ends bool) {
	retention := j.header.Store.Retention
	if retention == nil {
		retention = &history.Retention{}
	}
	switch state {
	case history.StoreResolved:
		return retention.Resolved, true
	case history.StoreFailed:
		return retention.Failed, true
	case history.StoreArchived:
		return retention.Archived, true
	}
	return 0, false
}

// overstays checks that a finished entry is not kept longer than the retention allows, and that a due entry is taken.
func (j *judge) overstays(r *record, last *step) {
	drained := j.since(history.PhaseAudit)
	j.overdue(r, last, drained)
	switch {
	case last.To == history.StorePending && last.Next != history.None:
		j.late(r, max(last.Next, last.made), drained)
	case last.To == history.StoreProcessing:
		j.open(lifecycle, "orphaned-lock", r)
	}
}

// overdue checks that a finished entry is gone when the retention has passed, with an allowance.
func (j *judge) overdue(r *record, last *step, until time.Duration) {
	keep, ends := j.keeps(last.To)
	retention := j.header.Store.Retention
	if retention == nil || !ends || keep <= 0 {
		return
	}
	allowed := 2*retention.Sweep + j.header.Store.Late
	switch over := until - last.made - keep; {
	case over > allowed-margin && over <= allowed+margin:
		j.open(lifecycle, "retention-late", r)
	case over > allowed:
		j.saw(lifecycle, "retention-late", r)
	}
}

// arrived implements "offsets of the dead-letter topic are committed when the row is there".
func (j *judge) arrived(r *record, letter *history.Event, lives []*life) {
	for _, l := range lives {
		first := &l.steps[0]
		if letter == nil || l.source != sourceOf(letter) {
			continue
		}
		for i := range j.events {
			e := &j.events[i]
			kind, _ := history.StoreProcess(e.Instance)
			if kind != "router" || e.Kind != history.KindCommitRequest || e.Topic != letter.Topic ||
				e.Partition != letter.Partition || e.Offset <= letter.Offset {
				continue
			}
			answer := j.answer(e, history.KindCommitResponse)
			switch {
			case answer == nil || !accepted(answer) || e.Time > first.made-j.blur()-grain && e.Time < first.made+j.blur()+grain:
				j.open(lifecycle, "committed-before-stored", r)
			case e.Time < first.made:
				j.saw(lifecycle, "committed-before-stored", r)
			}
		}
	}
}

// workersTries implements "resolved only after a success", "tried as often as promised", and not before it is due.
func (j *judge) workersTries(r *record, lives []*life) {
	var calls []tried
	for i := range j.events {
		ask := &j.events[i]
		if kind, _ := history.StoreProcess(ask.Instance); kind != "worker" || ask.Record != r.number {
			continue
		}
		if ask.Kind == history.KindAttemptEnd && !j.begun(ask, history.KindAttemptStart) {
			j.openTries(r)
			return
		}
		if ask.Kind != history.KindAttemptStart {
			continue
		}
		end := j.answer(ask, history.KindAttemptEnd)
		if end == nil || end.Record != r.number || end.Flags.Has(history.ClientGone) ||
			len(calls) > 0 && ask.Time < calls[len(calls)-1].end {
			j.openTries(r)
			return
		}
		calls = append(calls, tried{start: ask.Time, end: end.Time, outcome: end.Outcome, instance: ask.Instance})
	}
	if len(lives) != 1 || j.workersEnded() || !j.inLocks(lives[0], calls) {
		j.openTries(r)
		return
	}
	j.trials(r, calls, lives[0])
}

// inLocks checks that each attempt was made by a worker that had locked the entry, one attempt per lock, and that the
// table counts the attempts that ended.
func (j *judge) inLocks(l *life, calls []tried) bool {
	blur, k, counted := j.blur()+grain, 0, int32(0)
	for i := range l.steps {
		one := &l.steps[i]
		if one.From == history.StoreProcessing && one.To != history.StoreProcessing {
			counted++
		}
		if one.retries != counted {
			return false
		}
		if one.To != history.StoreProcessing {
			continue
		}
		if k == len(calls) || calls[k].instance != one.worker || calls[k].start < one.made-blur ||
			i+1 == len(l.steps) || calls[k].end > l.steps[i+1].made+blur {
			return false
		}
		k++
	}
	return k == len(calls)
}

func (j *judge) openTries(r *record) {
	for _, anomaly := range []string{"resolved-without-success", "over-retried-in-store", "retry-early", "double-lock",
		"orphaned-lock"} {
		j.open(lifecycle, anomaly, r)
	}
}

func (j *judge) trials(r *record, calls []tried, l *life) {
	c, blur := j.header.Store, j.blur()+grain
	if len(calls) > c.MaxRetries {
		j.saw(lifecycle, "over-retried-in-store", r)
	}
	for i := range l.steps {
		if l.steps[i].To != history.StoreResolved || l.steps[i].From != history.StoreProcessing {
			continue
		}
		succeeded := func(by time.Duration) bool {
			return slices.ContainsFunc(calls, func(t tried) bool { return t.outcome == history.OutcomeSuccess && t.end <= by })
		}
		switch made := l.steps[i].made; {
		case !succeeded(made + blur):
			j.saw(lifecycle, "resolved-without-success", r)
		case !succeeded(made - blur):
			j.open(lifecycle, "resolved-without-success", r)
		}
	}
	for k := 1; k < len(calls); k++ {
		if calls[k].start-calls[k-1].end < c.Waits[min(k, len(c.Waits)-1)] {
			j.saw(lifecycle, "retry-early", r)
		}
	}
	if len(calls) > 0 {
		// The entry got its strategy after its dead letter was written and before the change was observed.
		switch since := calls[0].start - c.Waits[0]; {
		case since < j.deadLettered(r.number)-grain:
			j.saw(lifecycle, "retry-early", r)
		case since < l.steps[0].made+blur:
			j.open(lifecycle, "retry-early", r)
		}
	}
}

// deadLettered is the time at which the record's first dead letter was requested.
func (j *judge) deadLettered(number int32) time.Duration {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindProduceRequest && e.Record == number &&
			j.role(e.Topic) == history.RoleDLQ {
			return e.Time
		}
	}
	return 0
}
