// Package kafka makes faults of the kind "kafka": rules that the tap asks for each request of a subject, and that have
// it answer with an error in the broker's place, hold, lose or throttle a request or its answer, or close the
// connection. It owns what matches and what is drawn from the seed; how frames are answered and held is the tap's
// business, and when a fault begins and ends the nemesis's.
package kafka
