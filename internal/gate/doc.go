// Package gate owns dlqbench.yaml, the suite that a repository keeps beside its consumer: what is in it, which runs it
// means, what of their failures is waived and until when, in which order and for how long they are run, and how the
// whole stands. It is told how to run one scenario, and knows nothing of clusters, processes and exit codes; what its
// findings look like is the business of package reports.
package gate
