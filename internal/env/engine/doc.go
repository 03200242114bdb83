// Package engine owns what dlqbench asks of a container engine whoever needs one, brokers or subjects: finding it, its
// images, a subject's container, and removing what a run has made. It knows nothing of Kafka, scenarios or histories.
//
// Everything carries the label dlqbench.run, by which Sweep finds what a killed run left: there is no reaper
// (docs/decisions/0006-containers-without-a-reaper.md).
package engine
