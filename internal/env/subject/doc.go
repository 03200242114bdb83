// Package subject owns the lifecycle of the consumer under test as processes of the operating system: build it, start
// it, see it ready, signal it, stop it, keep its output, and make sure that nothing of it outlives the run. It knows no
// Kafka, no scenario and no template: what is to be run comes rendered, one Launch per start.
//
//	Render(instance, run) ──▶ Launch ──▶ child (own process group) ──▶ its output ──▶ instance-N.log, SubjectError
//	                                       │
//	                                       ├─▶ events: Starting, Ready, Signal, Exited, Stall, Sample
//	                                       ├─▶ guard: a process that kills the group when this one is gone
//	                                       └─▶ processes.json, for Sweep
//
// An instance is its whole process group. A shell or a build tool that wraps the real consumer does not pass signals
// on, so signals go to the group, and an instance has ended only when its group has.
package subject
