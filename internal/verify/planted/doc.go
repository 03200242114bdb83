// Package planted owns the planted bugs. For each anomaly that an invariant names, it has a consumer or a replay that
// equals the reference one except for one replaced component, and so shows exactly that anomaly. They prove that the
// checkers find what they should. The package starts nothing: `dlqbench bug` runs a bug as a subject's process, like
// any consumer under test.
package planted
