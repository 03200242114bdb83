package measure

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Recovery is how long it took to feel a fault, and to be rid of it. All times are read off the history; what can't be
// told apart from something else is not told. The words:
//
// The calm before a fault is the last 5 s before it in which no fault was in force and the subject was steady and had
// caught up with the faults before; it must have lasted 0.4 s. The level before is what the calm was like: throughput
// as the share of what was sent that was processed in the same time, the p99 of the latency of successes, the highest
// lag. Of a fault that comes before the subject is steady again, the level is the one before.
type Recovery struct {
	// Effect is from the fault's start to the first thing that it did (a request answered, a connection cut, a process
	// killed), as the fault itself noted it: at the tap, on the link, at the downstream stub, in the process.
	Effect Span `json:"effect"`
	// Detect is from the fault's start to the first sign of it on the subject's side: a write or commit that is refused
	// to it (seen at the tap), partitions that it gives up or loses (tap), a hang-up on the downstream (stub), an
	// error in its log, a process that ends by itself, or half a second in which the throughput, the share that
	// succeeds or the p99 has left its band (see Steady). A kind of sign that also showed in the calm proves nothing
	// and is left out; so is what a stall of the machine explains. Note says which sign it was.
	Detect Span `json:"detect"`
	// CatchUp is from the fault's end (removed, and what it broke confirmed back) until the lag is no higher than its
	// level before.
	CatchUp Span `json:"catch_up"`
	// Steady is from the fault's end to the beginning of the first half second in which, under load, the throughput is
	// within 20 % of its level before, as many succeed as before but for 20 %, and the p99 at most twice its level or
	// 10 ms above it. It is told to 100 ms.
	Steady Span `json:"steady"`
	// Before is the level before the fault; nil where there was no calm.
	Before *Level `json:"before,omitempty"`
	// LagPeak is the highest lag from the fault's start until it was caught up with (or could not be told any more).
	LagPeak int64 `json:"lag_peak"`
}

// Level is what a time of calm was like.
type Level struct {
	// Sent, Processed and Succeeded are in records per second.
	Sent      float64       `json:"sent_per_s"`
	Processed float64       `json:"processed_per_s"`
	Succeeded float64       `json:"succeeded_per_s"`
	P99       time.Duration `json:"p99_ns"`
	Lag       int64         `json:"lag"`
}

// The states of a Span.
const (
	SpanKnown = "known"
	// SpanUntold: the span cannot be determined; Note gives the reason (another fault, no calm before, no load after).
	SpanUntold = "untold"
	// SpanNever: it did not happen before the end of the run.
	SpanNever = "never"
)

// Span is a time from one moment to another that may not be known.
type Span struct {
	State string `json:"state"`
	// Time is 0 unless the State is SpanKnown.
	Time time.Duration `json:"ns"`
	// Note says by what it was seen, or why it isn't known.
	Note string `json:"note"`
}

// Known reports whether there is a time.
func (s Span) Known() bool { return s.State == SpanKnown }

const (
	calmSlots   = 50 // the longest calm before a fault
	leastCalm   = 4  // the shortest
	windowSlots = 5  // the window over which throughput is measured
	// fewest is the least number of records sent in that window for a statement about it: in smaller numbers, 20 % may
	// be due to chance.
	fewest    = 20
	bandShare = 0.2
	// A p99 is within its band up to twice the previous level, and always up to this much above it.
	bandFactor = 2
	bandFloor  = 10 * time.Millisecond
)

// sign is a kind of evidence that a fault affects the subject.
type sign uint8

const (
	signWriteRefused sign = iota
	signCommitRefused
	signPartitions
	signHungUp
	signError
	signEnded
	signThroughput
	signFailing
	signSlow
	signCount
)

func (s sign) words() string {
	return [signCount]string{
		signWriteRefused: "a write was refused, seen at the tap", signCommitRefused: "a commit was refused, seen at the tap",
		signPartitions: "partitions were given up or lost, seen at the tap",
		signHungUp:     "it hung up on the downstream, seen at the downstream stub",
		signError:      "an error in its log", signEnded: "a process ended by itself",
		signThroughput: "the throughput left its band, seen at the downstream stub and the tap",
		signFailing:    "fewer records succeeded, seen at the downstream stub",
		signSlow:       "the p99 left its band, seen at the downstream stub",
	}[s]
}

// recoveries tracks the faults. Signs and recovery are attributed to at most one fault at a time: when another begins,
// the undetermined spans of the previous one stay undetermined.
type recoveries struct {
	faults []recovering
	names  []string
	// last is the fault that began or ended last and is still tracked; -1 is none.
	last    int
	inForce int
	// calmFrom is since when the subject is steady, has caught up, and no fault is active; none if this does not hold.
	calmFrom time.Duration
	level    *Level
	// shown is when a sign of the kind was last seen.
	shown [signCount]time.Duration
}

// recovering is a fault that is being tracked.
type recovering struct {
	Recovery
	begun, ended bool
	from, to     time.Duration
	// usual holds the kinds of signs that were present before the fault.
	usual [signCount]bool
	// judged is the number of windows under load examined after its end.
	judged int
}

func newRecoveries(faults []history.PlannedFault) *recoveries {
	r := &recoveries{faults: make([]recovering, len(faults)), last: -1, calmFrom: none}
	for i, planned := range faults {
		name := planned.Name
		if name == "" {
			name = fmt.Sprintf("fault %d", i+1)
		}
		r.names = append(r.names, name)
	}
	for i := range r.shown {
		r.shown[i] = none
	}
	return r
}

func (r *recoveries) at(op int64) *recovering {
	if op < 0 || op >= int64(len(r.faults)) {
		return nil
	}
	return &r.faults[op]
}

// started starts to track a fault.
func (r *recoveries) started(op int64, at time.Duration, slots *slots, lag int64) {
	f := r.at(op)
	if f == nil || f.begun {
		return
	}
	calm := r.inForce == 0 && r.calmFrom != none
	if calm {
		if level := slots.level(r.calmFrom, at); level != nil {
			r.level = level
		} else {
			calm = false
		}
	}
	r.interrupted(op)
	f.begun, f.from, f.Before, f.LagPeak = true, at, r.level, lag
	r.inForce++
	r.last = int(op)
	switch {
	case r.inForce > 1:
		f.Detect = untold("another fault was in force when it began")
	case !calm && r.level == nil:
		f.Detect = untold("it was not calm for long enough before it")
	case !calm:
		f.Detect = untold("the subject was not over the fault before it")
	}
	since := max(r.calmFrom, at-calmSlots*finestStep)
	for kind := range f.usual {
		f.usual[kind] = r.shown[kind] != none && r.shown[kind] >= since
	}
	if r.level != nil {
		for kind, shows := range slots.window(1).outside(r.level, 0) {
			f.usual[kind] = f.usual[kind] || shows
		}
	}
	r.calmFrom = none
}

// interrupted stops the tracking of the current fault, because another one begins.
func (r *recoveries) interrupted(by int64) {
	f := r.at(int64(r.last))
	if f == nil {
		return
	}
	f.Detect.leave(r.names[by] + " began before anything was seen of it")
	if f.ended {
		f.CatchUp.leave(r.names[by] + " began before the lag was back")
		f.Steady.leave(r.names[by] + " began before it was steady again")
	}
	r.last = -1
}

// ended starts to track the recovery from a fault, if no other fault is active.
func (r *recoveries) ended(op int64, at time.Duration, lag int64) {
	f := r.at(op)
	if f == nil || !f.begun || f.ended {
		return
	}
	f.ended, f.to = true, at
	r.inForce--
	if r.inForce > 0 {
		f.CatchUp, f.Steady = untold("another fault was still in force"), untold("another fault was still in force")
		return
	}
	if last := r.at(int64(r.last)); last != nil && last != f {
		last.Detect.leave(r.names[op] + " was in force until after its end")
	}
	r.last = int(op)
	switch {
	case f.Before == nil:
		f.CatchUp, f.Steady = untold("it was not calm for long enough before it"),
			untold("it was not calm for long enough before it")
	case f.Before.Processed == 0:
		f.Steady = untold("what the subject processes is not seen")
	}
	r.lagged(at, lag)
}

// effect notes that a fault took effect.
func (r *recoveries) effect(e *history.Event) {
	if f := r.at(e.Op); f != nil && f.begun {
		f.Effect.told(e.Time-f.from, e.Text)
	}
}

// noticed applies a sign from the subject.
func (r *recoveries) noticed(kind sign, at time.Duration) {
	r.shown[kind] = at
	f := r.at(int64(r.last))
	if f == nil || f.usual[kind] || f.Detect.State != "" {
		return
	}
	f.Detect.told(at-f.from, kind.words())
}

// lagged applies a change of the lag.
func (r *recoveries) lagged(at time.Duration, lag int64) {
	f := r.at(int64(r.last))
	if f == nil || f.CatchUp.State != "" {
		return
	}
	f.LagPeak = max(f.LagPeak, lag)
	if f.ended && lag <= f.Before.Lag {
		f.CatchUp.told(at-f.to, "the lag was no higher than before")
		r.calmAgain(f)
	}
}

// slotClosed examines the window that ends with the current slot.
func (r *recoveries) slotClosed(slots *slots) {
	f := r.at(int64(r.last))
	if f == nil || f.Before == nil || f.Detect.State != "" && (!f.ended || f.Steady.State != "") {
		return
	}
	window := slots.window(0)
	if slots.end > f.from {
		for kind, shows := range window.outside(f.Before, window.stalled+window.subjectStalled) {
			if shows {
				r.noticed(sign(kind), slots.end)
			}
		}
	}
	first := slots.end - windowSlots*finestStep
	if !f.ended || f.Steady.State != "" || first < f.to || !window.underLoad(f.Before) {
		return
	}
	f.judged++
	if window.outside(f.Before, 0) == [signCount]bool{} {
		f.Steady.told(first-f.to, "throughput, successes and p99 were in their bands for half a second")
		r.calmAgain(f)
	}
}

// calmAgain starts a calm when the subject is steady and has caught up.
func (r *recoveries) calmAgain(f *recovering) {
	if f.Steady.Known() && f.CatchUp.Known() {
		r.calmFrom = f.to + max(f.Steady.Time, f.CatchUp.Time)
	}
}

// over stops all tracking: from here on, records are replayed to the subject, or it is stopped.
func (r *recoveries) over() { r.last = -1 }

// finish returns the recoveries at the end of the run.
func (r *recoveries) finish() []Recovery {
	out := make([]Recovery, len(r.faults))
	for i := range r.faults {
		f := &r.faults[i]
		switch {
		case !f.begun:
			for _, span := range []*Span{&f.Effect, &f.Detect, &f.CatchUp, &f.Steady} {
				*span = untold("it was never injected")
			}
		case !f.ended:
			f.CatchUp.leave("it was never healed")
			f.Steady.leave("it was never healed")
		case f.judged == 0:
			f.Steady.leave("the load ended before there was half a second to look at")
		}
		f.Effect.never("it did nothing")
		f.Detect.never("nothing of it was seen on the subject's side")
		f.CatchUp.never("the lag was higher than before to the end")
		f.Steady.never("it was not steady again while the load lasted")
		out[i] = f.Recovery
	}
	return out
}

func untold(why string) Span { return Span{State: SpanUntold, Note: why} }

// told sets the time of the span, unless it was decided before.
func (s *Span) told(time time.Duration, by string) {
	if s.State == "" {
		*s = Span{State: SpanKnown, Time: time, Note: by}
	}
}

func (s *Span) leave(why string) {
	if s.State == "" {
		*s = untold(why)
	}
}

func (s *Span) never(why string) {
	if s.State == "" {
		*s = Span{State: SpanNever, Note: why}
	}
}

// level returns the level of the calm before a time, or nil if the calm was too short or too few records were sent in
// it.
func (s *slots) level(calmFrom, at time.Duration) *Level {
	count := int64(0)
	var sum slot
	for i := 1; i <= min(calmSlots, s.filled) && s.back(i).from >= max(calmFrom, at-calmSlots*finestStep); i++ {
		sum.include(s.back(i))
		count++
	}
	if count < leastCalm || sum.counts[sentSeries]*windowSlots < fewest*count {
		return nil
	}
	lasted := (time.Duration(count) * finestStep).Seconds()
	level := &Level{
		Sent: float64(sum.counts[sentSeries]) / lasted, Processed: float64(sum.counts[processedSeries]) / lasted,
		Succeeded: float64(sum.successes) / lasted, Lag: sum.lagPeak,
	}
	if sum.latencies != nil {
		level.P99 = time.Duration(sum.latencies.quantile(0.99) * float64(time.Millisecond))
	}
	return level
}

// include adds the counts of another slot.
func (s *slot) include(other *slot) {
	s.merge(&other.point)
	s.lagPeak, s.subjectStalled = max(s.lagPeak, other.lagPeak), s.subjectStalled+other.subjectStalled
}

// window returns the window whose last slot lies the given number of slots before the current one.
func (s *slots) window(before int) *slot {
	sum := new(slot)
	for i := range min(windowSlots, s.filled+1-before) {
		sum.include(s.back(before + i))
	}
	return sum
}

// underLoad reports whether enough records were sent to compare with the level.
func (s *slot) underLoad(level *Level) bool {
	sent := s.counts[sentSeries]
	return sent >= fewest && float64(sent) >= level.Sent/2
}

// outside returns the figures that have left their bands in a window under load, even after allowing for stalls of the
// given length.
func (s *slot) outside(level *Level, stalled time.Duration) (signs [signCount]bool) {
	if !s.underLoad(level) {
		return signs
	}
	if level.Processed > 0 {
		// Records that are not processed during a stall are made up for later.
		band := bandShare + stalled.Seconds()/(windowSlots*finestStep).Seconds()
		share := float64(s.counts[processedSeries]) / float64(s.counts[sentSeries]) * level.Sent / level.Processed
		signs[signThroughput] = share < 1-band || share > 1+band
		signs[signFailing] = float64(s.successes)/float64(s.counts[sentSeries])*level.Sent < (1-band)*level.Succeeded
	}
	if level.P99 > 0 && s.latencies != nil {
		p99 := time.Duration(s.latencies.quantile(0.99) * float64(time.Millisecond))
		signs[signSlow] = p99 > max(bandFactor*level.P99, level.P99+bandFloor)+stalled
	}
	return signs
}
