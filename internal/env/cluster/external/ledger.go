package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2/maybe"
)

// ledger notes in a file what a run has on a cluster, so that it can be removed whatever becomes of the run. It names
// no host and no secret. A topic is entered before it is created, without an id, and again with its id afterwards: a
// run that is killed between leaves an entry for a topic that may not exist, never a topic without an entry.
type ledger struct {
	path string

	Format  int    `json:"format"`
	Prefix  string `json:"prefix"`
	Cluster string `json:"cluster_id"`
	// Topics by name; an id is as Kafka writes it, "" where it is not known.
	Topics map[string]string `json:"topics"`
}

const ledgerFormat = 1

// newLedger returns an empty ledger; without a path it is never written.
func newLedger(path, prefix, cluster string) *ledger {
	return &ledger{path: path, Format: ledgerFormat, Prefix: prefix, Cluster: cluster, Topics: map[string]string{}}
}

// readLedger returns nil when there is no file.
func readLedger(path string) (*ledger, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what an earlier run left on the cluster: %w", err)
	}
	l := &ledger{path: path}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("reading what an earlier run left on the cluster: %s: %w", path, err)
	}
	if l.Format != ledgerFormat || l.Prefix == "" {
		return nil, fmt.Errorf(
			"reading what an earlier run left on the cluster: %s is not in format %d: it belongs to another version of dlqbench",
			path, ledgerFormat)
	}
	for name := range l.Topics {
		if !under(l.Prefix, name) { // somebody has edited the file
			return nil, fmt.Errorf(
				"reading what an earlier run left on the cluster: %s names topic %s, which is not under the prefix %s: %w", path,
				name, l.Prefix, ErrForeign)
		}
	}
	return l, nil
}

// write replaces the file's content by the ledger in one step.
func (l *ledger) write() error {
	if l.path == "" {
		return nil
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := maybe.WriteFile(l.path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("noting what is created on the cluster: %w", err)
	}
	return nil
}

// remove removes the file once nothing is left.
func (l *ledger) remove() error {
	if l.path == "" {
		return nil
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the note of what was created on the cluster: %w", err)
	}
	return nil
}
