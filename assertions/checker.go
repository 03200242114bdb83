package assertions

// The common parts of all checkers: the catalogue, the delivery of events, and the reports.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// checker is one invariant's rule. It receives each event of its kinds after the state has applied it, and returns its
// result at the end.
type checker interface {
	observe(e *history.Event)
	finish() Result
}

// catalogue lists the invariants in the order in which they are reported.
func catalogue() []Invariant {
	return []Invariant{
		noLossInvariant(),
		commitAfterDLQInvariant(),
		commitAfterOutcomeInvariant(),
		haltInvariant(),
		boundedRetriesInvariant(),
		classificationInvariant(),
		backoffInvariant(),
		fidelityInvariant(),
		dlqOnceInvariant(),
		duplicatesInvariant(),
		effectsInvariant(),
		orderingInvariant(),
		isolationInvariant(),
		callTimeoutsInvariant(),
		livenessInvariant(),
		gracefulStopInvariant(),
		staysUpInvariant(),
		replayInvariant(),
		graphConservationInvariant(),
		separationInvariant(),
		storeLifecycleInvariant(),
	}
}

// moment identifies an event that a counterexample marks.
type moment struct {
	kind history.Kind
	at   time.Duration
}

// sighting is one occurrence of an anomaly. Exactly one of record and partition may be unknown.
type sighting struct {
	record    int32 // none: the trace is about a partition or the run
	topic     int16
	partition int32
	offset    int64
	from, to  time.Duration
	marks     []moment
	// missing is set for an event that never came, gone is since when it is certain not to come; "" for other
	// anomalies.
	missing Missing
	gone    time.Duration
	// leads: other anomalies follow from it, so it comes before them, however long its trace.
	leads bool
	// margin is by how much time the promise was broken; 0 if it is not a matter of time, or nothing ever came.
	margin time.Duration
	// say makes the summary. It is called only for the sightings that are kept.
	say func() string
}

// kept is a sighting that is reported in full.
type kept struct {
	sighting
	weight  int
	summary string
}

// report collects the findings of a checker.
type report struct {
	w      *state
	result Result
	order  []string
	counts map[string]int64
	kept   map[string][]kept
	first  map[string]earliest
	// widest is the occurrence with the largest margin.
	widest map[string]earliest
	places map[string][]Occurrence
	// stalled counts the suspicions that a stall of the machine may explain.
	stalled int
}

func newReport(w *state, name, of string) *report {
	return &report{
		w: w, result: Result{Name: name, Of: of, Anomalies: []Anomaly{}}, counts: map[string]int64{},
		kept: map[string][]kept{}, first: map[string]earliest{}, widest: map[string]earliest{},
		places: map[string][]Occurrence{},
	}
}

// observe is that of checkers which need only the final state.
func (r *report) observe(*history.Event) {}

// skip counts an item, of the kind that Of names, that could not be judged and is not among the judged.
func (r *report) skip(why string) {
	r.result.Open++
	r.remark(why)
}

// withdraw is skip for an item that was counted as judged before it turned out that it cannot be judged.
func (r *report) withdraw(why string) {
	if r.result.Judged > 0 {
		r.result.Judged--
	}
	r.skip(why)
}

// remark counts a question that could not be judged, about an item that is judged otherwise or is not of the kind that
// Of names.
func (r *report) remark(why string) {
	if r.result.NotJudged == nil {
		r.result.NotJudged = map[string]int64{}
	}
	r.result.NotJudged[why]++
}

// saw counts an occurrence and keeps it if its trace is among the shortest.
func (r *report) saw(anomaly string, s sighting) {
	if r.counts[anomaly] == 0 {
		r.order = append(r.order, anomaly)
	}
	r.counts[anomaly]++
	if r.w.asked >= 0 && s.record == r.w.asked {
		r.w.seen = append(r.w.seen, contradiction{r.result.Name, anomaly, s})
	}
	weight := r.weigh(&s)
	r.place(anomaly, &s, weight)
	list := r.kept[anomaly]
	if len(list) == MaxCounterexamples {
		if weight >= list[len(list)-1].weight {
			return
		}
		list = list[:len(list)-1]
	}
	at, _ := slices.BinarySearchFunc(list, weight, func(k kept, weight int) int {
		return cmp.Compare(k.weight, weight+1)
	})
	r.kept[anomaly] = slices.Insert(list, at, kept{s, weight, s.say() + r.w.readingLetters(anomaly, s.record)})
}

// weigh estimates the length of the trace.
func (r *report) weigh(s *sighting) int {
	one := r.w.record(s.record)
	if one == nil {
		return 0
	}
	if s.leads {
		return -1
	}
	weight := 2*int(one.attempts) + int(r.w.seldom(one).failedWrites) + 8*int(one.lives)
	if l := r.w.letters.of(s.record); l != nil {
		weight += 2 * int(l.asked)
	}
	return weight
}

// done returns the result: fail if there is a finding, otherwise pass, or the given status if the evidence is
// insufficient.
func (r *report) done(otherwise Status, why string) Result {
	for _, name := range r.order {
		first := r.withFirst(name)
		a := Anomaly{Name: name, Count: r.counts[name], Counterexamples: make([]Counterexample, len(r.kept[name])),
			Records: r.places[name], First: first}
		for i := range r.kept[name] {
			r.w.tell(&a.Counterexamples[i], &r.kept[name][i])
		}
		r.result.Anomalies = append(r.result.Anomalies, a)
	}
	r.result.Status, r.result.Why = otherwise, why
	if otherwise == Pass && r.stalled >= stalledSuspects {
		r.result.Status, r.result.Why = Inconclusive, fmt.Sprintf("%d suspicions could not be judged, as the machine stood "+
			"still in them", r.stalled)
	}
	if r.result.Unjudged == "" {
		r.result.Unjudged = Unexercised
	}
	if len(r.order) > 0 {
		r.result.Status, r.result.Why = Fail, ""
	}
	if r.result.Status != NotApplicable {
		r.result.Unjudged = ""
	}
	return r.result
}

// tell fills in a counterexample except for its trace, which needs a second walk through the history.
func (w *state) tell(to *Counterexample, k *kept) {
	*to = Counterexample{Record: k.record, Partition: k.partition, Offset: k.offset, Summary: k.summary, Trace: []Line{},
		At: k.moment(), Margin: k.margin, Missing: k.missing, leads: k.leads}
	if k.topic >= 0 && int(k.topic) < len(w.header.Topics) {
		to.Topic = w.header.Topics[k.topic].Name
	}
	w.traces = append(w.traces, trace{sighting: k.sighting, counterexample: to})
}

// about returns a sighting of a record, with its place.
func (w *state) about(number int32, from, to time.Duration, say func() string, marks ...moment) sighting {
	s := sighting{record: number, topic: none, partition: none, offset: none, from: from, to: to, say: say, marks: marks}
	if r := w.record(number); r != nil {
		s.topic, s.partition, s.offset = r.topic, r.partition, r.offset.at()
	}
	return s
}

// by notes by how much time the promise was broken. The more, the less it looks like noise of the clocks.
func (s sighting) by(margin time.Duration) sighting {
	s.margin = max(0, margin)
	return s
}

// missingSince marks the sighting as an event that never came; known is never if the history does not show since when.
func (s sighting) missingSince(known time.Duration, how Missing) sighting {
	if known != never {
		s.missing, s.gone = how, known
	}
	return s
}

// judgedOrNot is the status of a checker that found nothing: pass if it judged something.
func (r *report) judgedOrNot(nothing Status, why string) Result {
	switch {
	case r.result.Judged > 0:
		return r.done(Pass, "")
	case r.result.Open > 0:
		r.result.Unjudged = Unseen
		why = fmt.Sprintf("none of %d %s could be judged: %s", r.result.Open, r.result.Of, r.result.MostOpen())
	}
	return r.done(nothing, why)
}

// unjudged is the result of an invariant that is not judged.
func unjudged(kind Unjudged, name, of, why string) Result {
	return Result{Name: name, Of: of, Status: NotApplicable, Unjudged: kind, Why: why, Anomalies: []Anomaly{}}
}

// unpromised is the checker of an invariant that is known not to be judged before any event was seen.
type unpromised struct{ result Result }

func (u unpromised) observe(*history.Event) {}
func (u unpromised) finish() Result         { return u.result }

const endless = time.Duration(math.MaxInt64)
