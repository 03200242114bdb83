package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// lifeCorruptions are the corruptions of process lifetimes. They apply to nearly every history.
func lifeCorruptions() []Corruption {
	up := func(anomaly string) Promise { return Promise{"stays-up", anomaly} }
	return []Corruption{
		{Name: "an instance ends by itself", Promise: up("crashed"), apply: falls},
		{Name: "an instance that is told to stop ends with an error", Promise: up("unclean-exit"), apply: endsBadly},
		{Name: "an instance leaves its group", Promise: up("gave-up"), apply: leaves("leave")},
		{Name: "an instance falls silent", Promise: up("gave-up"), apply: leaves("silent")},
	}
}

// lastStop returns the stop of an instance at the end of the run, as the indexes of its signal and of its exit.
func (v *view) lastStop() (asked, ended int, found bool) {
	audit := v.phase(history.PhaseAudit)
	asked = slices.IndexFunc(v.Events, func(e history.Event) bool {
		return e.Kind == history.KindInstanceSignal && e.Text == "TERM" && e.Time >= audit && e.Instance >= 0
	})
	if asked < 0 {
		return none, none, false
	}
	ended = slices.IndexFunc(v.Events, func(e history.Event) bool {
		return e.Kind == history.KindInstanceExited && e.Instance == v.Events[asked].Instance && e.Run == v.Events[asked].Run
	})
	return asked, ended, ended >= 0
}

func falls(v *view) (int32, bool) {
	asked, ended, found := v.lastStop()
	if !found {
		return none, false
	}
	end := &v.Events[ended]
	end.Flags, end.Code = 0, int16(len(v.Events)%3)
	v.remove(asked)
	return none, true
}

func endsBadly(v *view) (int32, bool) {
	_, ended, found := v.lastStop()
	if !found {
		return none, false
	}
	end := &v.Events[ended]
	c := v.Header.Contract()
	byContract := c.Poison == history.PoisonHalt || c.OnFailure == history.OnFailureCrash ||
		c.ExitsExhausted || c.ExitsOnError // then an error code may be in order
	end.Code = 1
	if byContract || len(v.Events)%3 == 0 {
		end.Code, end.Text = -1, "SEGV"
	}
	return none, true
}

// leaves makes an instance leave its group when everything is done, and wait with the others until the drain limit.
func leaves(how string) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		asked, _, found := v.lastStop()
		if !found || v.trouble {
			return none, false
		}
		audit := v.phase(history.PhaseAudit)
		e := history.New(history.KindMembership, audit-brief)
		e.Instance, e.Run, e.N, e.Text = v.Events[asked].Instance, v.Events[asked].Run, 0, how
		v.dilate(audit, v.Header.Expect.DrainLimit+10*time.Second)
		v.add(e)
		return none, true
	}
}
