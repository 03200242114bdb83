package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/env/cluster/docker"
	"github.com/dlqbench/dlqbench/internal/env/cluster/external"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/run"
)

// clusterFlags are the flags that select the Kafka to run against, and what makes the links to it.
type clusterFlags struct {
	provider, version, image string
	bootstrap, config        string
	keep                     bool
	toxiproxy                string
}

func (c *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.provider, "cluster", run.ClusterEmbedded,
		"the Kafka to run against: "+strings.Join(run.Clusters(), ", "))
	flags.StringVar(&c.version, "kafka-version", "",
		"process: version of Apache Kafka (default: the one in KAFKA_HOME, otherwise "+install.DefaultVersion+")")
	flags.StringVar(&c.image, "image", "", "docker: image of the brokers (default "+docker.DefaultImage+")")
	c.addExternal(flags)
	flags.BoolVar(&c.keep, "keep", false, "external: leave the run's topics and groups on the cluster")
	flags.StringVar(&c.toxiproxy, "toxiproxy", "", "make the links proxies of a toxiproxy server on this machine: the "+
		"address of its API, such as http://127.0.0.1:8474, or "+network.ToxiproxyStart+" (default: links of dlqbench's own)")
}

func (c *clusterFlags) addExternal(flags *pflag.FlagSet) {
	flags.StringVar(&c.bootstrap, "bootstrap", "",
		"external: brokers as host:port,host:port (default: bootstrap.servers of --kafka-config)")
	flags.StringVar(&c.config, "kafka-config", "",
		"external: properties file with TLS and SASL settings, as for librdkafka or the Java clients")
}

// options returns the options that the flags define. It reports contradictions before anything is started. The notes
// list the settings of a properties file that are not used.
func (c *clusterFlags) options() (options run.ClusterOptions, notes []string, err error) {
	options = run.ClusterOptions{Provider: c.provider, Version: c.version, Image: c.image, Toxiproxy: c.toxiproxy}
	if c.toxiproxy != "" {
		if err := network.CheckToxiproxy(c.toxiproxy); err != nil {
			return options, nil, fmt.Errorf("--toxiproxy: %w", err)
		}
	}
	if !slices.Contains(run.Clusters(), c.provider) {
		return options, nil, fmt.Errorf("--cluster %q: write one of %s", c.provider, strings.Join(run.Clusters(), ", "))
	}
	for _, flag := range []struct {
		name, provider string
		given          bool
	}{
		{"--kafka-version", run.ClusterProcess, c.version != ""}, {"--image", run.ClusterDocker, c.image != ""},
		{"--bootstrap", run.ClusterExternal, c.bootstrap != ""},
		{"--kafka-config", run.ClusterExternal, c.config != ""},
		{"--keep", run.ClusterExternal, c.keep},
	} {
		if flag.given && flag.provider != c.provider {
			return options, nil, fmt.Errorf("%s is for --cluster %s, and this is %s", flag.name, flag.provider, c.provider)
		}
	}
	if c.version != "" {
		if _, err := install.ParseVersion(c.version); err != nil {
			return options, nil, fmt.Errorf("--kafka-version: %w", err)
		}
	}
	if c.provider != run.ClusterExternal {
		return options, nil, nil
	}
	overrides := external.Overrides{Keep: c.keep}
	if c.bootstrap != "" {
		overrides.Bootstrap = strings.Split(c.bootstrap, ",")
	}
	options.External, notes, err = external.Load(c.config, os.Getenv, overrides)
	return options, notes, err
}

// kafkaOptions returns the Kafka that the flags name, and prints what its configuration leaves to be noted.
func (a *app) kafkaOptions(flags clusterFlags) (run.ClusterOptions, error) {
	options, notes, err := flags.options()
	for _, note := range notes {
		fmt.Fprintln(a.stderr, note)
	}
	return options, err
}

// words are the flags as a user would write them, without defaults and without secrets.
func (c *clusterFlags) words() (words []string) {
	if c.provider != run.ClusterEmbedded {
		words = append(words, "--cluster", c.provider)
	}
	for _, flag := range []struct{ name, value string }{
		{"--kafka-version", c.version}, {"--image", c.image}, {"--bootstrap", c.bootstrap}, {"--kafka-config", c.config},
		{"--toxiproxy", c.toxiproxy},
	} {
		if flag.value != "" {
			words = append(words, flag.name, quoteWord(flag.value))
		}
	}
	return words
}
