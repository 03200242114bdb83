// Package faults says what can break, and when: the specs of a scenario, the schedule, and the nemesis that carries it
// out and notes what each fault really did. How a fault is made is the injectors' business, one sub-package each:
// network (toxiproxy), kafka (rules in the tap), broker, subject, downstream.
package faults
