package generate

// This file damages a dead-letter store and its service, where nothing could excuse it.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// StoreCorruptions lists the corruptions that apply to histories with a dead-letter store.
func StoreCorruptions() []Corruption {
	promise := func(anomaly string) Promise { return Promise{"store-lifecycle", anomaly} }
	return []Corruption{
		{Name: "a dead letter never comes into the store", Promise: promise("lost-in-store"), apply: neverStored},
		{Name: "a dead letter has two entries", Promise: promise("doubled-in-store"), apply: storedTwice},
		{Name: "the router commits before the row is there", Promise: promise("committed-before-stored"),
			apply: committedEarly},
		{Name: "an entry is resolved though it failed", Promise: promise("resolved-without-success"), apply: resolvedAnyway},
		{Name: "an entry is tried once more than promised", Promise: promise("over-retried-in-store"), apply: triedTooOften},
		{Name: "an entry is taken before it is due", Promise: promise("retry-early"), apply: takenEarly},
		{Name: "a worker puts an entry into the archive", Promise: promise("illegal-transition"), apply: shelved},
		{Name: "another worker takes what is locked", Promise: promise("double-lock"), apply: takenOver},
		{Name: "a resolved entry is removed before its time", Promise: promise("retention-early"), apply: removedEarly},
		{Name: "a resolved entry is removed long after its time", Promise: promise("retention-late"), apply: removedLate},
		{Name: "a resolved entry is kept for ever", Promise: promise("retention-late"), apply: keptForEver},
	}
}

// rows is an entry of the store: its changes in order, the finding of the audit, and the attempts of workers (calls).
type rows struct {
	number  int64
	record  int32
	changes []int
	found   int
	calls   []pair
}

// entries lists the entries of the store. They prove something only if the store's workers were not disturbed.
func (v *view) entries() []*rows {
	if !v.Calm {
		return nil
	}
	var all []*rows
	of := func(e *history.Event) *rows {
		at := slices.IndexFunc(all, func(r *rows) bool { return r.number == e.Op })
		if at < 0 {
			at, all = len(all), append(all, &rows{number: e.Op, record: e.Record, found: none})
		}
		return all[at]
	}
	for i := range v.Events {
		switch e := &v.Events[i]; e.Kind {
		case history.KindStoreChange:
			one := of(e)
			one.changes = append(one.changes, i)
		case history.KindStoreEntry:
			of(e).found = i
		}
	}
	for _, one := range all {
		for i := range v.Events {
			e := &v.Events[i]
			if kind, _ := history.StoreProcess(e.Instance); kind == "worker" &&
				e.Kind == history.KindAttemptStart && e.Record == one.record {
				one.calls = append(one.calls, pair{i, v.answerTo(i, history.KindAttemptEnd)})
			}
		}
	}
	return all
}

// anyEntry draws one of the entries for which the condition holds.
func (v *view) anyEntry(holds func(*rows) bool) *rows {
	all := slices.DeleteFunc(v.entries(), func(r *rows) bool { return !holds(r) })
	if len(all) == 0 {
		return nil
	}
	return all[v.Intn(len(all))]
}

// change reads the k-th change of an entry, counted from the end if k is negative.
func (v *view) change(r *rows, k int) (history.StoreChange, *history.Event) {
	if k < 0 {
		k += len(r.changes)
	}
	e := &v.Events[r.changes[k]]
	change, err := history.ParseStoreChange(e.Text)
	if err != nil {
		panic(err) // the simulation wrote it
	}
	return change, e
}

// goes is the index of the change into a state, or none.
func (v *view) goes(r *rows, to history.StoreState) int {
	return slices.IndexFunc(r.changes, func(i int) bool {
		change, err := history.ParseStoreChange(v.Events[i].Text)
		return err == nil && change.To == to
	})
}

// foundMore adds n to the number of entries that the audit found.
func (v *view) foundMore(n int32) {
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindStoreAudited {
			e.N += n
		}
	}
}

func neverStored(v *view) (int32, bool) {
	one := v.anyEntry(func(*rows) bool { return true })
	if one == nil {
		return none, false
	}
	gone := slices.Clone(one.changes)
	for _, call := range one.calls {
		gone = append(gone, call.ask, call.answer)
	}
	if one.found != none {
		gone = append(gone, one.found)
		v.foundMore(-1)
	}
	v.remove(gone...)
	return one.record, true
}

func storedTwice(v *view) (int32, bool) {
	one := v.anyEntry(func(*rows) bool { return true })
	if one == nil {
		return none, false
	}
	copies := slices.Clone(one.changes)
	if one.found != none {
		copies = append(copies, one.found)
		v.foundMore(1)
	}
	for _, i := range copies {
		e := v.Events[i]
		e.Op += 1000
		v.add(e)
	}
	return one.record, true
}

func committedEarly(v *view) (int32, bool) {
	all := v.entries()
	one := v.anyEntry(func(r *rows) bool {
		_, first := v.change(r, 0)
		return !slices.ContainsFunc(all, func(o *rows) bool { // an entry whose row would be missing as well
			_, other := v.change(o, 0)
			return other.Topic == first.Topic && other.Partition == first.Partition &&
				other.Offset < first.Offset && other.Aux > first.Aux-int64(30*ms)
		})
	})
	if one == nil {
		return none, false
	}
	_, first := v.change(one, 0)
	made, letter := time.Duration(first.Aux), deadLetterAt{spot{first.Topic, first.Partition}, first.Offset}
	for i := range v.Events {
		e := &v.Events[i]
		isCommit := e.Kind == history.KindCommitRequest || e.Kind == history.KindCommitResponse
		if isCommit && e.Topic == letter.topic && e.Partition == letter.partition && e.Offset == letter.offset+1 {
			e.Time = made - 2*storeBlur - 10*ms
		}
	}
	return one.record, true
}

func resolvedAnyway(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreResolved) >= 0 })
	if one == nil {
		return none, false
	}
	v.Events[one.calls[len(one.calls)-1].answer].Outcome = history.OutcomeTransient
	return one.record, true
}

// triedTooOften lowers the promised limit by one.
func triedTooOften(v *view) (int32, bool) {
	limit := v.Header.Store.MaxRetries
	var most []*rows
	for _, one := range v.entries() {
		if len(one.calls) == limit {
			most = append(most, one)
		}
	}
	if limit < 2 || len(most) != 1 {
		return none, false
	}
	promised := *v.Header.Store
	promised.MaxRetries--
	v.Header.Store = &promised
	return most[0].record, true
}

func takenEarly(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreProcessing) >= 1 })
	if one == nil {
		return none, false
	}
	k := v.goes(one, history.StoreProcessing)
	_, lock := v.change(one, k)
	pending, e := v.change(one, k-1)
	pending.Next = time.Duration(lock.Aux) + 40*ms
	e.Text = pending.String()
	return one.record, true
}

func shelved(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreManual) >= 0 && r.found != none })
	if one == nil {
		return none, false
	}
	last, e := v.change(one, -1)
	last.To = history.StoreArchived
	e.Text = last.String()
	last.From = history.StoreAbsent
	v.Events[one.found].Text = last.String()
	return one.record, true
}

func takenOver(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreProcessing) >= 1 })
	if one == nil {
		return none, false
	}
	lock, e := v.change(one, v.goes(one, history.StoreProcessing))
	other := *e
	lock.From = history.StoreProcessing
	lock.By, other.Instance = "worker-1", history.Worker(1)
	if e.Instance == history.Worker(1) {
		lock.By, other.Instance = "worker-0", history.Worker(0)
	}
	other.Aux += int64(brief)
	other.Time += brief / 2
	other.Text = lock.String()
	v.add(other)
	return one.record, true
}

func removedEarly(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreAbsent) >= 1 })
	if one == nil {
		return none, false
	}
	_, resolved := v.change(one, -2)
	_, removed := v.change(one, -1)
	removed.Aux, removed.Time = resolved.Aux+int64(200*ms), resolved.Time+200*ms
	return one.record, true
}

func removedLate(v *view) (int32, bool) {
	retention := v.Header.Store.Retention
	if retention == nil {
		return none, false
	}
	last := v.phase(history.PhaseAudit) - 10*ms
	one := v.anyEntry(func(r *rows) bool {
		if v.goes(r, history.StoreAbsent) < 1 {
			return false
		}
		_, resolved := v.change(r, -2)
		return last-time.Duration(resolved.Aux) > retention.Resolved+2*retention.Sweep+v.Header.Store.Late+100*ms
	})
	if one == nil {
		return none, false
	}
	_, removed := v.change(one, -1)
	removed.Aux, removed.Time = int64(last), last
	return one.record, true
}

func keptForEver(v *view) (int32, bool) {
	one := v.anyEntry(func(r *rows) bool { return v.goes(r, history.StoreAbsent) >= 1 })
	if one == nil {
		return none, false
	}
	last, e := v.change(one, -2)
	found := *e
	last.From = history.StoreAbsent
	found.Kind, found.Text, found.Time = history.KindStoreEntry, last.String(), v.phase(history.PhaseAudit)
	for i := range v.Events {
		if v.Events[i].Kind == history.KindStoreWatch {
			found.Time = v.Events[i].Time
		}
	}
	v.foundMore(1)
	v.remove(one.changes[len(one.changes)-1])
	v.add(found)
	return one.record, true
}
