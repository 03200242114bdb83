// Package drill is a run with hands in it: people break and heal things while the load goes on, others notice, decide
// and heal, and at the end there are a verdict, a debrief and a scenario that does the same again.
//
// It owns the session (who may do what, and who may see what), what is measured of people (time to notice, to heal, to
// drain) and what is written about it. What is broken goes through the harness's own hands, like everything else that a
// run breaks; how a session is shown (a page, a terminal) is not its business.
//
//	page, terminal ──▶ Session ──▶ Hands (the harness's) ──▶ faults, history
//	        ◀── State ◀────┘ ◀── what happened, live figures
package drill
