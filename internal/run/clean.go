package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/cluster/external"
	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Clean removes the remains of killed runs from the folder of run directories: processes that are still alive, and
// brokers' data. It leaves alone a run in progress and data that a run kept on purpose. With all, it also removes
// the run directories of ended runs. It returns a line for each thing it did, also when it returns an error.
func Clean(ctx context.Context, root string, all bool, kafka ClusterOptions) (did []string, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, environment("looking for run directories", err)
	}
	var errs []error
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		if !entry.IsDir() || !isRun(dir) {
			continue // not a run of this program
		}
		lines, err := cleanRun(ctx, dir, all, kafka)
		did, errs = append(did, lines...), append(errs, err)
	}
	if all && errors.Join(errs...) == nil {
		errs = append(errs, removeDangling(filepath.Join(root, linkLatest)))
	}
	return did, environment("cleaning", errors.Join(errs...))
}

// isRun reports whether a folder is a run directory that still has its original name. A folder that somebody else
// made, or that was renamed to keep it, is never removed.
func isRun(dir string) bool {
	header, err := readHeader(dir)
	return err == nil && strings.HasPrefix(header.RunID, filepath.Base(dir)+"-")
}

// runHeader is what cleaning must know of a run.
type runHeader struct {
	RunID       string            `json:"run_id"`
	Environment map[string]string `json:"environment"`
}

func readHeader(dir string) (header runHeader, err error) {
	data, err := os.ReadFile(filepath.Join(dir, dirHistory, "header.json"))
	if err != nil {
		return header, err
	}
	return header, json.Unmarshal(data, &header)
}

// cleanUpBefore removes the remains of killed runs before a new run begins. A failure to remove something does not
// keep the new run from beginning.
func cleanUpBefore(ctx context.Context, options Options) {
	did, err := Clean(ctx, options.Out, false, options.Cluster)
	for _, line := range did {
		options.Log.Info().Msg(line)
	}
	if err != nil {
		options.Log.Warn().Err(err).Msg("what an earlier run left could not be removed")
	}
}

func cleanRun(ctx context.Context, dir string, all bool, kafka ClusterOptions) (did []string, err error) {
	// Read the registry before the sweep. A run that begins meanwhile has its registry before it has a history, and
	// both before any data.
	registry := filepath.Join(dir, subject.RegistryFile)
	_, err = os.Stat(registry)
	wasKilled := err == nil // a run that ends in order removes the registry last
	killed, err := subject.Sweep(registry)
	if errors.Is(err, subject.ErrRunActive) {
		return nil, nil
	}
	for _, pid := range killed {
		did = append(did, fmt.Sprintf("ended process %d, left over from %s", pid, dir))
	}
	if err != nil {
		return did, err
	}
	if wasKilled {
		for _, clean := range []func(context.Context, string) ([]string, error){cleanContainers, cleanProxies} {
			lines, err := clean(ctx, dir)
			if did = append(did, lines...); err != nil {
				return did, err
			}
		}
	}
	lines, err := cleanExternal(ctx, dir, kafka)
	if did = append(did, lines...); err != nil {
		return did, err
	}
	var leftovers []string
	switch {
	case all:
		leftovers = []string{dir}
	case wasKilled:
		leftovers = []string{filepath.Join(dir, dirKafka), filepath.Join(dir, dirWork)}
	}
	for _, path := range leftovers {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return did, err
		}
		did = append(did, "removed "+path)
	}
	return did, nil
}

// cleanContainers removes the remaining containers of a killed run.
func cleanContainers(ctx context.Context, dir string) (did []string, err error) {
	header, err := readHeader(dir)
	environment := header.Environment
	if err != nil || !strings.HasPrefix(environment[environmentKafka], ClusterDocker) &&
		environment[environmentSubject] != scenarios.KindContainer {
		return nil, err
	}
	removed, err := engine.Sweep(ctx, header.RunID)
	for _, name := range removed {
		did = append(did, fmt.Sprintf("removed %s, left over from %s", name, dir))
	}
	if errors.Is(err, engine.ErrNoEngine) {
		err = nil // without its engine no container runs
	}
	return did, err
}

// cleanExternal removes what a run created on an external cluster and could not remove itself. The run's ledger
// lists it.
func cleanExternal(ctx context.Context, dir string, kafka ClusterOptions) (did []string, err error) {
	ledger := filepath.Join(dir, fileLedger)
	if _, err := os.Stat(ledger); err != nil {
		return nil, nil //nolint:nilerr // the run created nothing, or removed it
	}
	if !kafka.provider().shared {
		return nil, fmt.Errorf("%s has left topics on a cluster: `dlqbench clean --kafka-config FILE` removes them", dir)
	}
	header, err := readHeader(dir)
	if err != nil {
		return nil, err
	}
	config := kafka.External
	config.Prefix = header.RunID
	removed, err := external.Sweep(ctx, config, ledger)
	for _, name := range removed {
		did = append(did, fmt.Sprintf("removed %s from the cluster, left over from %s", name, dir))
	}
	return did, err
}

// removeDangling removes the link to a run directory that no longer exists.
func removeDangling(link string) error {
	if _, err := os.Stat(link); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
