// Package kafka injects the faults of kind "kafka". They are rules that the tap consults for each request of a
// subject. A rule makes the tap answer with an error in the broker's place, hold, lose or throttle a request or its
// response, or close the connection. The package owns the matching and the random choices from the seed. The tap
// answers and holds frames, and the nemesis decides when a fault starts and ends.
package kafka
