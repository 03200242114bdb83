// Package docker owns brokers of Apache Kafka in containers: it finds the engine, starts an image of KRaft nodes with
// every setting given, and stops, kills, pauses and starts them through the engine. It knows nothing of scenarios,
// faults or histories: who breaks a broker, and why, is its caller's business.
//
//	Options ──▶ engine (local, or a sentence that says what to do) ──▶ image ──▶ network, one per run ──▶ a container per
//	    broker
//
// Brokers talk to each other and to their controllers inside the run's network, and to clients at a port of 127.0.0.1
// that is chosen before they start, so it stays the same when a container is stopped and started. Everything carries
// the label dlqbench.run, by which Sweep finds what a killed run left: there is no reaper
// (docs/decisions/0006-containers-without-a-reaper.md).
package docker
