// Package pods runs a scenario on a consumer whose instances are pods of a Kubernetes cluster. One pod, the
// coordinator, runs dlqbench as on any machine: Kafka, tap, links, downstream stub and load, so that there is one clock
// and one history. In each of the consumer's pods a sidecar listens on the ports that the coordinator has for the
// instance, forwards connections to the coordinator, and sends signals to the consumer's processes. The user's kubectl
// creates everything, copies the run directory and removes everything. Pods need no rights.
package pods
