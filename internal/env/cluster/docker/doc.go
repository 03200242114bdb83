// Package docker owns brokers of Apache Kafka in containers. It finds the engine, starts an image of KRaft nodes
// with every setting given, and stops, kills, pauses and starts them through the engine. It knows nothing of
// scenarios, faults or histories: who injects a fault into a broker, and why, is up to its caller.
//
//	Options ──▶ engine (local, or an error that says what to do) ──▶ image ──▶ network, one per run ──▶ a container per
//	    broker
//
// Brokers talk to each other and to their controllers inside the run's network. Clients reach them at a port of
// 127.0.0.1 that is chosen before the start, so it stays the same when a container is stopped and started. Every
// container and network carries the label dlqbench.run, by which Sweep finds the remains of a killed run: there is
// no reaper container (docs/decisions/0006-containers-without-a-reaper.md).
package docker
