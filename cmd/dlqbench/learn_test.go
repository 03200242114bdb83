package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// Of two schemas, the samples fit the one that has their members.
func TestSamplesFitASchema(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"orders.jsonl": `{"event": "created", "order": {"id": "o-1", "total": 2.5}}` + "\n",
		"order.avsc": `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"},
			{"name": "total", "type": "double"}]}`,
		"event.avsc": `{"type": "record", "name": "Event", "fields": [{"name": "event", "type": "string"},
			{"name": "order", "type": [{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"},
			{"name": "total", "type": "double"}]}, {"type": "record", "name": "Gone", "fields": []}]}]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	records := scaffold.Records{Samples: "orders.jsonl", IDs: []string{"$.order.id"}}
	if format, schema := scaffold.FindSchema(os.DirFS(folder), fitting(folder, records)); format != "avro" ||
		schema != "event.avsc" {
		t.Errorf("%s %s, want avro event.avsc", format, schema)
	}
}
