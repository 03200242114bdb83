// Package subject owns the lifecycle of the consumer under test as processes of the operating system. It builds and
// starts the consumer, waits until it is ready, signals and stops it, keeps its output, and ensures that no process
// of it outlives the run. It knows no Kafka, no scenario and no template: the caller passes rendered commands, one
// Launch per start.
//
//	Render(instance, run) ──▶ Launch ──▶ child (own process group) ──▶ its output ──▶ instance-N.log, SubjectError
//	                                       │
//	                                       ├─▶ events: Starting, Ready, Signal, Exited, Stall, Sample
//	                                       ├─▶ subprocess reaper: a process that kills the group when this one is gone
//	                                       └─▶ processes.json, for Sweep
//
// An instance is its whole process group. A shell or a build tool that wraps the real consumer does not pass on
// signals. So signals go to the group, and an instance has ended only when its group has.
package subject
