package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/dlqbench/dlqbench/scenarios"
)

// loadDigest is short for everything that a subject is asked to do. Two runs with the same one may be compared,
// whatever their subjects and their subjects' settings are, and whatever is expected of them. The seed is no part of
// it: it draws from the same load.
func loadDigest(s *scenarios.Scenario) string {
	load, err := json.Marshal(struct {
		Cluster  scenarios.Cluster
		Topics   scenarios.Topics
		Workload scenarios.Workload
		Faults   any
		Replay   *scenarios.Replay
	}{s.Cluster, s.Topics, s.Workload, s.Faults, s.Replay})
	if err != nil {
		return "" // what came from YAML goes into JSON; and who has no digest is compared by its plan
	}
	sum := sha256.Sum256(load)
	return hex.EncodeToString(sum[:6])
}
