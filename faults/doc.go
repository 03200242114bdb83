// Package faults has what all faults have in common: what a kind says of itself (Fault), what the scenario tells it
// (Setting), the schedule, and the nemesis that carries it out and notes what each fault did. It knows no kind. Each
// kind has a package of its own, which says how its faults are written, checked, described and explained, and injects
// them: network (toxiproxy), kafka (rules in the tap), broker, subject, downstream, store. Package catalogue puts the
// kinds together.
package faults
