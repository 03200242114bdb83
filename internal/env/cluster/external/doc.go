// Package external is the provider for a cluster of the user's own: reading how to reach it, finding out in a few
// seconds what keeps dlqbench from it, creating a run's topics there and removing them again, and breaking its brokers
// through commands that the user configured. It owns what it created there and nothing else: a topic that existed
// before is never touched, and a ledger in the run directory tells a later run what a killed one left. It knows nothing
// of scenarios, faults or histories.
//
//	properties file ─┐
//	environment ─────┼─▶ Load ─▶ Config ─▶ Connect ─▶ Kafka ─▶ CreateTopics (ledger) ─▶ … ─▶ Close (removes them)
//	flags ───────────┘                                                          killed ─▶ Sweep (by a later run)
//
// Secrets are held as Secret, which no way of printing shows.
package external
