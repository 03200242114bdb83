package assertions

// The group's rebalances, and whether their causes are known.
//
// The tap notes a partition when it is newly assigned to a member, with the group's generation (the member's epoch
// under KIP-848). So a rebalance shows as an assignment with a larger generation than all before or, where a
// cooperative assignor changed nothing, as the next commit with one. An eager rebalance counts once. A cooperative
// change of the assignment counts twice, because partitions that a member gives up are assigned in the next
// rebalance.
//
// These explain rebalances: the start of an instance, until it is ready; its end; a signal; a fault while it is in
// force; a stall of the harness or of an instance that may have cost a session. After each of these the group may
// take a while to settle, because members learn of a rebalance with their next heartbeat. In addition, a member
// that did not leave the group properly is expelled when its session ends, which may be much later. Each such
// member justifies one more change of the assignment, at any later time.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// stormLimit is the largest number of rebalances kept of a storm.
	stormLimit = 1 << 12
)

// rebalance is a rebalance that had no known cause when it was seen.
type rebalance struct {
	kind      history.Kind
	at        time.Duration
	topic     int16
	partition int32
}

// storm collects unexplained rebalances of the group.
type storm struct {
	generation  int32
	starting    map[int16]bool
	faults      int
	settled     time.Duration // rebalances up to this time have a known cause
	expulsions  int
	over        bool
	unexplained []rebalance
}

func newStorm() storm { return storm{generation: none, starting: map[int16]bool{}, settled: never} }

func (s *storm) take(e *history.Event) {
	if s.over {
		return
	}
	switch e.Kind {
	case history.KindAssigned, history.KindCommitRequest:
		s.see(e)
	case history.KindInstanceStarting:
		s.starting[e.Instance] = true
		s.cause(e, false)
	case history.KindInstanceReady:
		delete(s.starting, e.Instance)
		s.cause(e, false)
	case history.KindInstanceSignal:
		s.cause(e, e.Text == "STOP" || e.Text == "SIGSTOP")
	case history.KindInstanceExited:
		delete(s.starting, e.Instance)
		s.cause(e, true)
	case history.KindFaultStart:
		s.faults++
		s.cause(e, true)
	case history.KindFaultEnd:
		s.faults = max(s.faults-1, 0)
		s.cause(e, false)
	case history.KindFaultEffect:
		s.cause(e, false)
	}
}

func (s *storm) cause(e *history.Event, expels bool) {
	s.settled = max(s.settled, e.Time+settling)
	if expels {
		s.expulsions++
	}
}

// see looks for a generation of the run's group that is larger than all before.
func (s *storm) see(e *history.Event) {
	first := s.generation == none
	if e.Instance < 0 || e.N <= s.generation || e.Flags.Has(history.OtherGroup) {
		return
	}
	s.generation = e.N
	if first || len(s.starting) > 0 || s.faults > 0 || e.Time <= s.settled || len(s.unexplained) == stormLimit {
		return
	}
	s.unexplained = append(s.unexplained, rebalance{e.Kind, e.Time, e.Topic, e.Partition})
}

// judge returns the trace of a storm, if there was one. A stall is noted when it is over, and a fault when it
// takes effect, so both are looked up at the end.
func (s *storm) judge(w *state) (sighting, bool) {
	var left []rebalance
	for _, one := range s.unexplained {
		stalled := w.stalls.lasting(sessionStall, one.at-settling, one.at)
		if !stalled && !w.faulted(anyFault, one.at-settling, one.at+faultGrace) {
			left = append(left, one)
		}
	}
	// If the history shows no instances, any rebalance may be due to one that came or went.
	if allowed := expelling * s.expulsions; len(w.instances) == 0 || len(left) < allowed+stormLeast {
		return sighting{}, false
	}
	first, last := left[0], left[len(left)-1]
	from := first.at
	if i := slices.IndexFunc(left, func(one rebalance) bool {
		return one.partition == last.partition && one.topic == last.topic
	}); i >= 0 {
		first = left[i] // the trace shows one partition
	}
	return sighting{
		record: none, topic: last.topic, partition: last.partition, offset: none, from: from, to: last.at,
		marks: []moment{{first.kind, first.at}, {last.kind, last.at}},
		say: func() string {
			return fmt.Sprintf("the group rebalanced %d times within %s although no instance started or ended, no fault was "+
				"in force and nothing stood still",
				len(left), units.Text(last.at-from))
		},
	}, true
}

// lasting reports whether the harness or an instance stood still for at least that long, in a stall that overlaps
// the interval.
func (s *spans) lasting(least, from, to time.Duration) bool {
	for i := range s.list {
		if one := &s.list[i]; one.from <= to && one.to >= from && (one.stopped || one.lasted >= least) {
			return true
		}
	}
	return false
}
