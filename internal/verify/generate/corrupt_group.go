package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func groupCorruptions() []Corruption {
	stop := func(anomaly string) Promise { return Promise{"graceful-stop", anomaly} }
	return []Corruption{
		{Name: "an instance ends long after its grace", Promise: stop("stop-timeout"), apply: endsLate(false)},
		{Name: "an instance is killed when its grace is over", Promise: stop("stop-timeout"), apply: endsLate(true)},
		{
			Name: "a stopping instance dead-letters what had attempts left", Promise: stop("premature-dead-letter"),
			apply: flushed, Also: []Promise{{"bounded-retries", "under-retried"}, {"classification", "premature-dead-letter"}},
			About: "what is given up before its last attempt is given up too soon, whoever is told to stop",
		},
		{
			Name: "a stopping instance commits past what it has to retry", Promise: stop("lost"), apply: droppedAtStop,
			Also:  []Promise{{"no-loss", "lost"}, {"commit-after-outcome", "commit-past-unfinished"}},
			About: "the record that is dropped is lost, by the commit that passes it",
		},
		{
			Name: "a partition's last record is never handed out", Promise: Promise{"liveness", "paused-partition"},
			apply: paused, Also: []Promise{{"no-loss", "stalled"}},
			About: "what is not handed out is not finished",
		},
		{Name: "the group's generation grows and grows", Promise: Promise{"liveness", "rebalance-storm"}, apply: stormy},
	}
}

// tellStop signals a process to stop at the given time. The process continues until the end of the run, and its grace
// period lasts as long.
func (v *view) tellStop(by *history.Event, at time.Duration) {
	v.Header.Contract().StopGrace = time.Minute
	e := history.New(history.KindInstanceSignal, at)
	e.Instance, e.Run, e.Text = by.Instance, by.Run, "TERM"
	v.add(e)
}

func endsLate(killed bool) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		audit := v.phase(history.PhaseAudit)
		at := slices.IndexFunc(v.Events, func(e history.Event) bool {
			return e.Kind == history.KindInstanceSignal && e.Text == "TERM" && e.Time >= audit
		})
		if at < 0 {
			return none, false
		}
		asked := v.Events[at]
		for i := range v.Events {
			if e := &v.Events[i]; e.Kind == history.KindInstanceExited && e.Instance == asked.Instance && e.Run == asked.Run {
				grace := v.Header.Contract().StopGrace
				if killed {
					e.Code, e.Text = -1, "KILL"
					asked.Time, asked.Text = asked.Time+grace, "KILL"
					v.dilate(e.Time, grace)
					v.add(asked)
				} else {
					v.dilate(e.Time, grace+300*ms)
				}
				return none, true
			}
		}
		return none, false
	}
}

func flushed(v *view) (int32, bool) {
	f := v.lone(v.givenUp)
	number, raised := raise(v, func(int) bool { return true })
	if !raised {
		return none, false
	}
	ask := v.Events[f.letters[0].ask]
	v.tellStop(&ask, ask.Time-brief)
	return number, true
}

func droppedAtStop(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		_, found := v.covering(f)
		return v.tried(f) && v.alone(f) && v.inPlace() && found && v.exitsOnlyAtTheEnd() && len(f.attempts) > 1 &&
			v.outcome(f.attempts[len(f.attempts)-2]) == history.OutcomeTransient
	})
	if f == nil || !v.Header.Contract().HasDLQ() {
		return none, false
	}
	covering, _ := v.covering(f)
	ask := v.Events[covering.ask]
	last := f.attempts[len(f.attempts)-1]
	v.remove(last.ask, last.answer)
	v.tellStop(&ask, ask.Time-brief)
	return about(f)
}

func paused(v *view) (int32, bool) {
	places := map[int32]history.Event{}
	for _, f := range v.records {
		if f.acked != none {
			places[f.number] = v.Events[f.acked]
		}
	}
	number, applied := stuck(v)
	if !applied {
		return none, false
	}
	at, offset := spot{places[number].Topic, places[number].Partition}, places[number].Offset
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindFetched && e.Topic == at.topic &&
			e.Partition == at.partition && e.Aux >= offset {
			e.Aux = offset - 1
		}
	}
	v.Events = slices.DeleteFunc(v.Events, func(e history.Event) bool {
		return e.Kind == history.KindFetched && e.Topic == at.topic && e.Partition == at.partition && e.Aux < e.Offset
	})
	return number, true
}

// stormy repeats the last commit, each time in another generation, without an event that would explain the rebalances.
func stormy(v *view) (int32, bool) {
	_, last, found := v.settled()
	if !found || !v.Calm {
		return none, false
	}
	template := last.ask
	offset, by := v.Events[template].Offset, v.Events[template].Instance
	for i := range v.Events {
		if e := v.Events[i]; e.Kind == history.KindInstanceStarting {
			e.Kind, e.Time, e.Aux = history.KindInstanceReady, e.Time+brief/2, 0
			v.add(e)
		}
	}
	audit := v.phase(history.PhaseAudit)
	for n := range int32(4 + v.Intn(3)) {
		from := len(v.Events)
		v.commitAt(template, by, offset, audit-time.Duration(100+n)*ms)
		for i := from; i < len(v.Events); i++ {
			v.Events[i].N = 100 - n
		}
	}
	return none, true
}
