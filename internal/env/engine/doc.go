// Package engine owns the uses of a container engine that brokers and subjects share: finding the engine, its
// images, a subject's container, and the removal of a run's containers and networks. It knows nothing of Kafka,
// scenarios or histories.
//
// Every container and network carries the label dlqbench.run, by which Sweep finds the remains of a killed run:
// there is no reaper container (docs/decisions/0006-containers-without-a-reaper.md).
package engine
