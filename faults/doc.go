// Package faults has what all faults have in common: the description of a fault (Fault), the facts about the scenario
// that it is checked against (Setting), the schedule, and the nemesis, which carries out the schedule and records
// each fault's effects. It knows no kind. Each kind has its own package, which defines how its faults are written,
// checked, described and explained, and injects them: network (toxiproxy), kafka (rules in the tap), broker, subject,
// downstream, store. Package catalogue combines the kinds.
package faults
