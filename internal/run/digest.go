package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// loadDigest returns a hash of everything that a subject is asked to do. Runs with equal digests are comparable,
// whatever their subjects, the subjects' settings and the expectations are. The digest excludes the seed, which only
// draws from the same load.
func loadDigest(s *scenarios.Scenario, from *samples.Set) string {
	madeFrom := ""
	if from != nil {
		madeFrom = from.Digest()
	}
	load, err := json.Marshal(struct {
		Cluster  scenarios.Cluster
		Topics   scenarios.Topics
		Workload scenarios.Workload
		Faults   any
		Replay   *scenarios.Replay
		Samples  string `json:",omitempty"`
	}{s.Cluster, s.Topics, s.Workload, s.Faults, s.Replay, madeFrom})
	if err != nil {
		return "" // a value from YAML always encodes as JSON; a run without a digest is compared by its plan
	}
	sum := sha256.Sum256(load)
	return hex.EncodeToString(sum[:6])
}
