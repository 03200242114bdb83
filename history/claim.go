package history

import (
	"encoding/json"
	"time"
)

// ClaimMore is what an audit found in a dead letter besides its position: what a judge needs that has neither the
// dead letter nor the record any more.
type ClaimMore struct {
	// Twice are the fields of the envelope that are there more than once, though the record had no header of the name.
	Twice []string `json:"twice,omitempty"`
	// Epoch is the leader epoch that the dead letter names, nil if it names none; Epochs are the least that the record's
	// batch and the most that its partition can have had it with.
	Epoch  *int32    `json:"epoch,omitempty"`
	Epochs *[2]int32 `json:"epochs,omitempty"`
	// Times are the times that fields of the envelope name, as times of the run's clock.
	Times map[string]time.Duration `json:"times_ns,omitempty"`
	// Quotes are the outcomes whose answers the dead letter's error text quotes.
	Quotes []Outcome `json:"quotes,omitempty"`
	// Value, Key and Headers say how these differ from the record's, "" where they don't or where the audit does not
	// have the record any more.
	Value   string `json:"value,omitempty"`
	Key     string `json:"key,omitempty"`
	Headers string `json:"headers,omitempty"`
}

// Encode returns the claim as text, "" if it is empty.
func (m *ClaimMore) Encode() string {
	text, err := json.Marshal(m)
	if err != nil || string(text) == "{}" {
		return ""
	}
	return string(text)
}

// Stated returns the event's claim, and the zero Claim if it has none.
func (e *Event) Stated() Claim {
	if e.Claim == nil {
		return Claim{}
	}
	return *e.Claim
}

// Beside returns what else the audit found in the dead letter. It is empty for a nil claim, and if Encode did not write
// More.
func (c *Claim) Beside() ClaimMore {
	var m ClaimMore
	if c == nil || c.More == "" || json.Unmarshal([]byte(c.More), &m) != nil {
		return ClaimMore{}
	}
	return m
}
