package scenarios

// A dead-letter store of the subject's own: where its table or collection is, and what its columns and status words
// mean.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// OwnStore is a database in which the subject keeps dead letters. It is watched from outside by reading it again and
// again, which changes nothing in it and misses what comes and goes between two looks; only what is proven all the same
// is judged.
type OwnStore struct {
	// URL is sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/NAME or mongodb://USER:PASSWORD@HOST:PORT/NAME. The
	// subject is told an address that leads there over the link "store", if it is a server ({{.StoreURL}},
	// DLQBENCH_STORE_URL). Templates may stand in it: sqlite:{{.WorkDir}}/letters.db.
	URL string `json:"url" jsonschema:"required"`
	// Table has the entries; with a schema if need be: app.dead_letters. In MongoDB it is the collection, and columns
	// are fields, with dots if need be: metadata.source.
	Table   string       `json:"table" jsonschema:"required"`
	Columns StoreColumns `json:"columns" jsonschema:"required"`
	// Statuses says which state each word of the status column stands for: pending, processing, resolved, failed,
	// manual or archived.
	Statuses map[string]string `json:"statuses" jsonschema:"required"`
	// Audited: the database also has the table dead_letter_audit with triggers that write every change of the entries
	// there, as dlqbench dlq migrate --audit makes it.
	Audited bool `json:"audited,omitempty"`
	// Poll is how often the table is read, default 50ms.
	Poll units.Duration `json:"poll,omitempty"`
	// MaxRetries is how often an entry is tried before it has failed; 0 (default) promises nothing.
	MaxRetries int `json:"max_retries,omitempty" jsonschema:"minimum=0"`
	// ByHand: people may act on entries during a run (discard, resolve, replay), as the documents let them.
	ByHand bool `json:"by_hand,omitempty"`
}

// StoreColumns are the names of the table's columns, or of the documents' fields. What is left out isn't there, and
// what needs it is not judged.
type StoreColumns struct {
	ID       string `json:"id" jsonschema:"required"`
	Status   string `json:"status" jsonschema:"required"`
	LockedBy string `json:"locked_by,omitempty"`
	// LeaseUntil is until when a lock holds, NextRetryAt when an entry may be tried next.
	LeaseUntil  string `json:"lease_until,omitempty"`
	NextRetryAt string `json:"next_retry_at,omitempty"`
	// Retries is the number of tries from the store, Version one that grows with every change.
	Retries string `json:"retries,omitempty"`
	Version string `json:"version,omitempty"`
	// Where the record was consumed that failed.
	SourceTopic     string `json:"source_topic,omitempty"`
	SourcePartition string `json:"source_partition,omitempty"`
	SourceOffset    string `json:"source_offset,omitempty"`
	// Payload holds the record's value, EventID a text that has the record's id, either of which tells whose entry it
	// is.
	Payload string `json:"payload,omitempty"`
	EventID string `json:"event_id,omitempty"`
}

// UnmarshalJSON reads a store over its defaults.
func (s *OwnStore) UnmarshalJSON(data []byte) error {
	type plain OwnStore
	*s = OwnStore{Poll: units.Duration(50 * time.Millisecond)}
	return json.Unmarshal(data, (*plain)(s))
}

// Contract is what is judged of the store.
func (s *OwnStore) Contract() *history.StoreContract {
	engine, _, _ := strings.Cut(s.URL, ":")
	return &history.StoreContract{Engine: engine, Vocabulary: "own", MaxRetries: s.MaxRetries,
		Success: history.SuccessProcessed, ByHand: s.ByHand}
}

// States are what the status words stand for.
func (s *OwnStore) States() map[string]history.StoreState {
	states := map[string]history.StoreState{}
	for word, state := range s.Statuses {
		states[word] = history.StoreState(state)
	}
	return states
}

// checkOwnStore checks what the schema can't say of the subject's store.
func (c *checker) checkOwnStore(s *OwnStore) {
	if s == nil || !c.allSound("/store") {
		return
	}
	c.document.checkTemplates(c.root.get("/store/url"))
	scheme, _, _ := strings.Cut(s.URL, ":")
	c.refuseIf(!slices.Contains([]string{"sqlite", "postgres", "postgresql", "mongodb"}, scheme), "/store/url",
		"the address of a store is sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/NAME or "+
			"mongodb://USER:PASSWORD@HOST:PORT/NAME")
	c.refuseIf(s.Audited && scheme == "mongodb", "/store/audited",
		"MongoDB has no triggers that could keep every change, so that a collection is polled: leave audited out")
	known := []string{
		string(history.StorePending), string(history.StoreProcessing), string(history.StoreResolved),
		string(history.StoreFailed), string(history.StoreManual), string(history.StoreArchived),
	}
	for _, word := range c.names("/store/statuses") {
		if state := s.Statuses[word]; !slices.Contains(known, state) {
			c.hinted("/store/statuses/"+word, fmt.Sprintf("%q is no state of an entry: %s", state, strings.Join(known, ", ")),
				hint(state, known))
		}
	}
	c.refuseIf(s.Columns.Payload == "" && s.Columns.EventID == "" && s.Columns.SourceOffset == "", "/store/columns",
		"nothing tells which record an entry is of: name payload, event_id or the three source columns")
}
