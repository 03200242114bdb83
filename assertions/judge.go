package assertions

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// kindsLimit is the number of possible values of a kind.
const kindsLimit = 256

// eventsPerCollection is the number of events between two garbage collections.
const eventsPerCollection = 1 << 23

// judge is the judging of one history.
type judge struct {
	header   history.Header
	state    *state
	measurer *measure.Measurer
	taken    int // events since the last collection
	checkers []checker
	byKind   [kindsLimit][]checker
	// broken is the reason why events are missing; nil if none are.
	broken error
	// unsealed: the run was killed before it could write its history to the end.
	unsealed bool
}

// Judge judges a history by the contract and the expectations in its header, and measures it, in one walk. A second
// walk collects the traces of the counterexamples, if there are any. An incomplete history is judged as far as it goes,
// and is inconclusive at best. The error reports a history that cannot be judged at all.
func Judge(source history.Source) (*Verdict, *measure.Measurements, error) {
	return judgeBy(catalogue(), source)
}

func judgeBy(catalogue []Invariant, source history.Source) (*Verdict, *measure.Measurements, error) {
	header := source.Header()
	if header.Records < 0 || header.Format > history.FormatVersion || len(header.Consumers) == 0 {
		return nil, nil, fmt.Errorf("judging the history of run %q: its header has format %d, %d records and %d consumers: "+
			"use the dlqbench that wrote it", header.RunID, header.Format, header.Records, len(header.Consumers))
	}
	consumers, err := topologyOf(source, &header)
	if err != nil {
		return nil, nil, err
	}
	var first *judgement
	var all []Result
	for i, view := range consumers.views() {
		one, err := judgeOne(catalogue, view)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = one
		}
		all = append(all, consumers.adopt(i, one, first)...)
	}
	whole, err := consumers.whole(first)
	if err != nil {
		return nil, nil, err
	}
	v := first.verdict
	v.Invariants, v.Topics = append(whole, all...), header.Topics
	v.Usage, v.Series, v.Thresholds = first.measured.Usage, first.measured.Series, first.judge.thresholds(first.measured)
	shortestFirst(v)
	v.setApart(catalogue)
	first.judge.conclude(v, first.measured)
	return v, first.measured, nil
}

// judgement is the result of judging one history.
type judgement struct {
	judge    *judge
	verdict  *Verdict
	measured *measure.Measurements
}

// judgeOne judges the history of one consumer. The verdict is concluded later.
func judgeOne(catalogue []Invariant, source history.Source) (*judgement, error) {
	j, err := newJudge(catalogue, source.Header())
	if err != nil {
		return nil, err
	}
	j.lookForDamage(source)
	source = marked(source)
	inTime := ordered{source}
	if err := j.walk(inTime); err != nil {
		j.broken = errors.Join(j.broken, err)
	}
	j.state.finish()
	j.state.eachHeld(j.measurer.Hold)
	j.state.eachForfeited(j.measurer.Forfeit)
	measurements := j.measurer.Finish()
	verdict := j.verdict(measurements)
	if err := j.state.fillTraces(inTime, verdict); err != nil && j.broken == nil {
		return nil, fmt.Errorf("gathering the traces of the counterexamples: %w", err)
	}
	return &judgement{j, verdict, measurements}, nil
}

func newJudge(catalogue []Invariant, header history.Header) (*judge, error) {
	j := &judge{header: header, measurer: measure.New(header)}
	j.state = newState(&j.header)
	for _, name := range header.Expect.Invariants {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf(
				"judging run %q: its scenario expects %q, which is no invariant that this dlqbench judges: there are %v",
				header.RunID, name, Names())
		}
	}
	for _, one := range catalogue {
		if len(header.Expect.Invariants) > 0 && !slices.Contains(header.Expect.Invariants, one.Name) {
			continue
		}
		made := one.begin(j.state)
		j.checkers = append(j.checkers, made)
		if _, nothing := made.(unpromised); nothing {
			continue
		}
		for _, kind := range one.observes {
			j.byKind[kind] = append(j.byKind[kind], made)
		}
	}
	return j, nil
}

// lookForDamage asks the source, if it can tell, whether it is complete.
func (j *judge) lookForDamage(source history.Source) {
	if whole, ok := source.(interface{ Sealed() bool }); ok {
		j.unsealed = !whole.Sealed()
	}
	if whole, ok := source.(interface{ Damaged() []error }); ok {
		j.broken = errors.Join(whole.Damaged()...)
	}
}

// walk judges and measures all events. Reading, judging and measuring go on side by side: each is a goroutine that
// hands its batches of events to the next one, and the last hands them back to be filled again.
func (j *judge) walk(source ordered) (err error) {
	const batches = 6
	read, judged := make(chan []history.Event, batches), make(chan []history.Event, batches)
	empty, measured := make(chan []history.Event, batches), make(chan struct{})
	for range batches - 1 { // the source begins with one of its own
		empty <- nil
	}
	go func() {
		defer close(read)
		err = source.batches(func(batch []history.Event) ([]history.Event, error) {
			read <- batch
			return <-empty, nil
		})
	}()
	go func() {
		defer close(measured)
		for batch := range judged {
			for i := range batch {
				j.measurer.Observe(&batch[i])
			}
			empty <- batch[:0]
		}
	}()
	for batch := range read {
		j.judge(batch)
		judged <- batch
	}
	close(judged)
	<-measured
	return err
}

// judge passes events on to the state and the checkers.
func (j *judge) judge(batch []history.Event) {
	for i := range batch {
		j.apply(&batch[i])
	}
	if j.taken += len(batch); j.taken >= eventsPerCollection {
		// Nearly all memory holds records, which never become garbage, and the collector would wait until the same
		// amount has been allocated again, so a large history would take twice its size. Records have no pointers, so
		// scanning them costs almost nothing.
		runtime.GC()
		j.taken = 0
	}
}

func (j *judge) apply(e *history.Event) {
	j.state.take(e)
	if ofService(e) {
		return // the store's services are not instances of the subject
	}
	for _, one := range j.byKind[e.Kind] {
		one.observe(e)
	}
}

// shortestFirst sorts the counterexamples of each anomaly: first the one from which others follow, then by the length
// of their traces.
func shortestFirst(v *Verdict) {
	for i := range v.Invariants {
		for k := range v.Invariants[i].Anomalies {
			slices.SortStableFunc(v.Invariants[i].Anomalies[k].Counterexamples, func(a, b Counterexample) int {
				switch {
				case a.leads == b.leads:
					return len(a.Trace) - len(b.Trace)
				case a.leads:
					return -1
				}
				return 1
			})
		}
	}
}
