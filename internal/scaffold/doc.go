// Package scaffold owns what `dlqbench init` writes into a repository: a dlqbench.yaml, a subject.yaml whose comments
// ask what has to be known of the consumer, and a workflow for GitHub Actions. It looks at which build files are there
// and proposes how the consumer is built and started; it runs nothing, and never takes the place of a file that is
// there unless it is told to.
package scaffold
