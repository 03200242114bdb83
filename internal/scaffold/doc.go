// Package scaffold owns what `dlqbench init` writes into a repository: a dlqbench.yaml, a subject.yaml whose comments
// ask what has to be known of the consumer, and a workflow for GitHub Actions. It looks at which build files are there
// and proposes how the consumer is built and started. From the code it takes the names of environment variables, and
// what it shows of failures and retries. It runs nothing, and never takes the place of a file that is there unless it
// is told to.
package scaffold
