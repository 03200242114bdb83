package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// Unrecorded makes the run directory of a run that was carried out elsewhere, and whose own was lost there. It has the
// same inputs and plan, and a history with nothing but the phases that the run is known to have begun, and the failure.
// Judged as any other, it is inconclusive. seen are snapshots of the run, one or more of each phase. If its load is not
// known to have begun, nothing is made, and dir is "".
func Unrecorded(options Options, seen []reports.Snapshot, failure error) (dir string, err error) {
	var phases []history.Event
	enter := func(name string, at time.Duration) {
		if len(phases) == 0 || phases[len(phases)-1].Text != name {
			event := history.New(history.KindPhase, at)
			event.Text = name
			phases = append(phases, event)
		}
	}
	for _, one := range seen {
		if one.Phase != history.PhaseSetup && len(phases) == 0 { // snapshots may have missed it
			enter(history.PhaseWarmup, max(0, one.Now-one.Elapsed))
		}
		if one.Phase != history.PhaseSetup {
			enter(one.Phase, one.Now)
		}
	}
	if len(phases) == 0 {
		return "", nil
	}
	r, err := prepareAnywhere(options)
	if err != nil {
		return "", err
	}
	for _, phase := range phases {
		r.recorder.Record(phase)
	}
	last := seen[len(seen)-1]
	r.header.Started = last.Started
	for _, of := range []string{"go", "os", "arch", "cpus"} { // of the other machine
		delete(r.header.Environment, of)
	}
	r.header.Disturbed = true
	r.header.Failure = r.reason(fmt.Errorf("%w; its history and logs are missing, the last that is known of it is phase "+
		"%s after %s, with %d records acknowledged and %d processed", failure, last.Phase, units.Text(last.Now),
		last.Totals.Acknowledged, last.Totals.Processed))
	return r.dir.path, environment("recording that the run is lost", errors.Join(r.recorder.Amend(r.header),
		r.recorder.Close()))
}
