// Package drill is a run under manual control: some people inject and lift faults while the load goes on, others notice
// and respond. At the end there are a verdict, a debrief and a scenario that repeats the drill.
//
// It owns the session (who may do what, and who may see what), the measurements of people (time to notice, to heal, to
// drain) and the debrief. Faults are injected by the harness's manual control, like every other fault of a run. The
// display of a session (a page, a terminal) belongs to other packages.
//
//	page, terminal ──▶ Session ──▶ Manual (the harness's) ──▶ faults, history
//	        ◀── State ◀────┘ ◀── what happened, live figures
package drill
