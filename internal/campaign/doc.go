// Package campaign runs the suite of a dlqbench.yaml as cells that know nothing of each other, each in a process of its
// own on this machine or in a pod of a Kubernetes cluster. The result of a cell is a file; a cell that has one is never
// run again, so that a campaign continues where it stopped, whatever stopped it. Package gate expands the suite and
// merges the results into one verdict.
package campaign
