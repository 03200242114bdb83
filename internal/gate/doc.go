// Package gate owns dlqbench.yaml, the suite that a repository keeps beside its consumer: its contents, the runs that
// it selects, the waivers of their failures and their end dates, the order and duration of the runs, and the standing
// of the whole. The caller provides the function that runs one scenario. The package knows nothing of clusters,
// processes and exit codes. Package reports formats its findings.
package gate
