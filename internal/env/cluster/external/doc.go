// Package external is the provider for the user's own cluster. It reads the connection settings, finds out within a
// few seconds what prevents the use of the cluster, creates a run's topics there and removes them again, and injects
// faults into the brokers through commands that the user configured. It owns only what it created there: it never
// touches a topic that existed before, and a ledger in the run directory tells a later run what a killed one left
// behind. It knows nothing of scenarios, faults or histories.
//
//	properties file ─┐
//	environment ─────┼─▶ Load ─▶ Config ─▶ Connect ─▶ Kafka ─▶ CreateTopics (ledger) ─▶ … ─▶ Close (removes them)
//	flags ───────────┘                                                          killed ─▶ Sweep (by a later run)
//
// Secrets have the type Secret, which no form of printing reveals.
package external
