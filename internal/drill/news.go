package drill

// This file handles the run's reports to the session.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// before is the period before a fault whose largest lag defines the lag to return to; lagsKept is the period for which
// lags are kept. usualLag is the length of load whose records are always in flight, committed or not. It applies to
// faults in the first moments, which have no earlier lag.
const (
	before   = 3 * time.Second
	usualLag = 500 * time.Millisecond
	lagsKept = 64
)

// These are the log's words for entries that are not actions.
const (
	entryHealed = "healed"
	entryFailed = "failed"
	entryEnds   = "ends"
)

// begin records that the steady load began, how long ago, and its length.
func (s *Session) begin(since, steady time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened, s.until, s.stage = s.clock().Add(-since), min(steady, s.options.Limit), StageOpen
	if s.options.Limit < steady {
		s.limit = time.AfterFunc(s.options.Limit, func() {
			s.end(fmt.Sprintf("time limit of %s reached", s.options.Limit))
		})
	}
	s.change()
}

// hear handles a change of a fault.
func (s *Session) hear(news run.FaultNews) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if news.Stage == run.FaultInjected {
		s.injected(news)
		return
	}
	f := s.at(news.Index)
	if f == nil {
		return
	}
	f.spec = news.Written
	entry := Entry{At: news.At, Fault: f.ID}
	switch news.Stage {
	case run.FaultLeaving:
		f.leaves = true
		return
	case run.FaultHealed:
		at := news.At
		f.Healed, f.Lifted = &at, s.liftedHow(f)
		entry.Who, entry.Action, entry.Text = f.HealedBy, entryHealed, f.Name+", "+f.Lifted
	case run.FaultFailed:
		f.Failed = news.Err.Error()
		entry.Who, entry.Action, entry.Text = f.By, entryFailed, f.Name+": "+f.Failed
	default:
		return
	}
	s.say(line{Entry: entry, hidden: !f.ownOf(RoleResponder)})
}

// liftedHow returns the way in which a fault was lifted. The caller holds s.mu.
func (s *Session) liftedHow(f *fault) string {
	switch {
	case f.HealedBy != nil:
		return LiftedByHand
	case f.open || s.why != "" || s.ended != 0:
		return LiftedAtEnd
	}
	return LiftedByItself
}

// injected adds a fault. The caller holds s.mu.
func (s *Session) injected(news run.FaultNews) {
	f := &fault{
		Fault: Fault{
			ID: fmt.Sprint(news.Index + 1), Name: news.Planned.Name, Kind: news.Planned.Kind, What: news.Planned.What,
			Target: news.Planned.Target, Injected: news.At, ToNotice: true,
		},
		index: news.Index, spec: news.Written, planned: news.Planned.Fault, before: s.lagBefore(news.At),
		open: news.Planned.Open,
	}
	if keys, err := scenarios.Written(news.Written); err == nil {
		delete(keys, "at")
		delete(keys, "may_miss")
		if news.Planned.Open {
			delete(keys, "for")
		}
		f.Spec = keys
	}
	action := ActionBreak
	if done, is := news.By.(doing); is {
		f.By, action = &done.who, done.action
		f.ToNotice = done.who.Role == RoleInjector && done.action != ActionScale && done.action != ActionRestart
	}
	s.faults = append(s.faults, f)
	s.say(line{Entry: Entry{At: news.At, Who: f.By, Action: action, Fault: f.ID, Text: f.Name + ": " + f.What},
		hidden: !f.ownOf(RoleResponder)})
}

// ownOf reports whether someone with the role injected the fault.
func (f *fault) ownOf(role Role) bool { return f.By != nil && f.By.Role == role }

// lagBefore is the largest lag in a period before the time. A lag up to it counts as usual. The caller holds s.mu.
func (s *Session) lagBefore(at time.Duration) int64 {
	var largest int64
	for _, one := range s.lags {
		if one.at <= at && at-one.at <= before {
			largest = max(largest, one.lag)
		}
	}
	return largest
}

// Watch takes a snapshot of the run. It is called several times a second.
func (s *Session) Watch(snapshot reports.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == StageOver {
		return
	}
	count := s.options.Scenario.InstanceCount()
	snapshot.Instances = slices.DeleteFunc(slices.Clone(snapshot.Instances), func(one reports.InstanceState) bool {
		return one.Kind == "instance" && one.Number >= count && !one.Status.Up() // one more instance can be added
	})
	s.live = &snapshot
	s.advance(snapshot.Phase)
	if at := s.now(); !s.opened.IsZero() {
		if s.stage == StageOpen || s.stage == StageDrain {
			s.course.add(at, &snapshot)
		}
		s.lags = append(s.lags, lag{at, snapshot.Lag})
		s.lags = s.lags[max(len(s.lags)-lagsKept, 0):]
		usual := int64(snapshot.SentRate * usualLag.Seconds())
		for _, f := range s.faults {
			if f.Healed != nil && f.Drained == nil && at > *f.Healed && snapshot.Lag <= max(f.before, usual) {
				f.Drained = &at
			}
		}
	}
	s.copyEvents(&snapshot)
	s.change()
}

// copyEvents copies new entries of the run's own log, converted from the run's clock to that of the drill. The drill's
// clock begins with the steady load, whose start is unknown before it begins. The manual control reports faults. The
// caller holds s.mu.
func (s *Session) copyEvents(snapshot *reports.Snapshot) {
	if snapshot.Total == 0 {
		return
	}
	steady := snapshot.Now - snapshot.Elapsed + s.options.Scenario.Workload.WarmUp.D()
	for _, event := range snapshot.EventsAfter(s.told) {
		s.told = event.Sequence
		faulty := event.Kind == reports.EventPhase && (event.Text == history.PhaseFault || event.Text == history.PhaseHeal)
		if event.Kind == reports.EventFault || faulty {
			continue
		}
		one := line{Entry: Entry{At: event.At - steady, Action: string(event.Kind), Text: event.Text}}
		if event.Kind == reports.EventInstance {
			one.plain, _, _ = strings.Cut(event.Text, ":") // says that it ended, but not the cause
		}
		s.say(one)
	}
}

// advance moves to the stage that the run's phase belongs to. The open stage begins and ends with the period in which
// faults can be injected. The caller holds s.mu.
func (s *Session) advance(phase string) {
	stage := s.stage
	switch phase {
	case history.PhaseWarmup:
		stage = StageWarm
	case history.PhaseHeal, history.PhaseDrain, history.PhaseReplay:
		stage = StageDrain
	case history.PhaseAudit, history.PhaseSeal:
		stage = StageJudge
	}
	if stage.before(s.stage) || stage == s.stage {
		return
	}
	s.stage = stage
	if stage == StageDrain || stage == StageJudge {
		s.endOfLoad()
	}
}

// endOfLoad records when and why the load ended. The caller holds s.mu.
func (s *Session) endOfLoad() {
	if s.ended != 0 {
		return
	}
	s.ended = s.now()
	if s.limit != nil {
		s.limit.Stop()
	}
	s.why = cmp.Or(s.why, "planned time over")
	s.say(line{Entry: Entry{Action: entryEnds, Text: "the load has ended: " + s.why}})
}

// before reports whether the stage comes before the other.
func (s Stage) before(other Stage) bool {
	rank := map[Stage]int{StageSetUp: 0, StageWarm: 1, StageOpen: 2, StageDrain: 3, StageJudge: 4, StageOver: 5}
	return rank[s] < rank[other]
}
