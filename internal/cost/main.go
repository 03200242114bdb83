// Command cost measures the cost of dlqbench, as ratios between ways of doing the same work. The ways are measured in
// turns within one run, so that noise of the machine affects them alike. It uses every part of the product from outside
// and judges nothing. No figure makes it fail: it fails only if something could not be measured.
//
// Usage: cost -dlqbench PATH [-real] [-only 1,5] [-entries N] [-json FILE] [-cpuprofile FILE]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// options holds the options of the command line, and the values derived from them.
type options struct {
	executable    string
	only          string
	json, profile string
	real          bool   // Apache Kafka as a process instead of the embedded one, for sections 1 to 3
	entries       int    // of the store for the list measurements
	dir           string // for all written files; removed at the end
}

func main() {
	var o options
	flag.StringVar(&o.executable, "dlqbench", "./dlqbench",
		"the program that is started as the consumer of the whole line")
	flag.StringVar(&o.only, "only", "", "comma-separated numbers of the sections to measure (default: all)")
	flag.BoolVar(&o.real, "real", false,
		"measure sections 1 to 3 on Apache Kafka as a process (see dlqbench kafka install)")
	flag.IntVar(&o.entries, "entries", 1_000_000, "measure lists of a dead-letter store with so many entries (section 6)")
	flag.StringVar(&o.json, "json", "", "also write the figures to this file as JSON")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measureFor(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureFor(ctx context.Context, o options) (err error) {
	if o.executable, err = filepath.Abs(o.executable); err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if _, err := os.Stat(o.executable); err != nil {
		return fmt.Errorf("finding the program: %w; build it first, or say -dlqbench PATH", err)
	}
	if o.dir, err = os.MkdirTemp("", "dlqbench-bench-"); err != nil {
		return fmt.Errorf("making a folder for what is measured: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return fmt.Errorf("writing the CPU profile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("writing the CPU profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	return measureAll(ctx, o)
}

func measureAll(ctx context.Context, o options) error {
	report := newReport(os.Stdout)
	only := strings.Split(o.only, ",")
	for i, measure := range []func(context.Context, options) (section, error){
		measureWorkload, measureConsume, measureLatency, measureHistory, measureLine, measureStore, measureEnvelopes,
		measureLiveView,
	} {
		if number := fmt.Sprint(i + 1); o.only != "" && !slices.Contains(only, number) {
			continue
		}
		began := time.Now()
		found, err := measure(ctx, o)
		if err != nil {
			return fmt.Errorf("section %d: %w", i+1, err)
		}
		found.Number, found.Took = i+1, time.Since(began)
		report.add(found)
	}
	if o.json == "" {
		return nil
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = os.WriteFile(o.json, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
