package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/internal/harness"
)

// clusterFlags say which Kafka to run against.
type clusterFlags struct {
	provider string
}

// providers are the words of --cluster.
func providers() []string { return []string{harness.ClusterEmbedded, harness.ClusterProcess} }

func (c *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.provider, "cluster", harness.ClusterEmbedded, "the Kafka to run against: "+strings.Join(providers(), ", "))
}

// options returns what the flags say; what contradicts itself is told here, before anything is started.
func (c *clusterFlags) options() (harness.ClusterOptions, error) {
	if !slices.Contains(providers(), c.provider) {
		return harness.ClusterOptions{}, fmt.Errorf("--cluster %q: write one of %s", c.provider, strings.Join(providers(), ", "))
	}
	return harness.ClusterOptions{Provider: c.provider}, nil
}

// words are the flags again, as somebody would write them, but for what is the default; they name no secret.
func (c *clusterFlags) words() []string {
	if c.provider == harness.ClusterEmbedded {
		return nil
	}
	return []string{"--cluster", c.provider}
}
