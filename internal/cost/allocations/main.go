// Command allocations compares the memory that benchmarks allocate with recorded bounds. Time varies by a tenth on a
// shared machine. Allocations hardly vary, so each that is added to a hot path shows.
//
// Usage: go test -run '^$' -bench … -benchmem … | allocations [-update] BOUNDS
//
// BOUNDS has a line for each benchmark: its package and name, allocations and bytes per operation. -update writes down
// what was measured.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// usage is what one operation of a benchmark allocates.
type usage struct{ allocations, bytes int64 }

func main() {
	update := flag.Bool("update", false, "record what was measured as the bounds")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, flag.Arg(0), *update); err != nil {
		fmt.Fprintln(os.Stderr, "allocations:", err)
		os.Exit(1)
	}
}

func run(benchmarks io.Reader, out io.Writer, bounds string, update bool) error {
	measured, err := measure(io.TeeReader(benchmarks, out))
	if err != nil {
		return err
	}
	if update {
		return os.WriteFile(bounds, format(measured), 0o600)
	}
	data, err := os.ReadFile(bounds)
	if err != nil {
		return err
	}
	allowed, err := parse(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", bounds, err)
	}
	if err := compare(measured, allowed); err != nil {
		return fmt.Errorf("%w\nIf that is wanted, record it: make allocations UPDATE=-update", err)
	}
	fmt.Fprintf(out, "%d benchmarks allocate no more than in %s\n", len(measured), bounds)
	return nil
}

// line is the result of a benchmark. The number of processors at the end of its name is left out.
var line = regexp.MustCompile(`^(Benchmark\S*?)(?:-\d+)?\s+\d+\s.*?(\d+) B/op\s+(\d+) allocs/op`)

// measure reads what go test prints. Of several rounds of a benchmark, the lowest count: what else the process
// allocates only adds to them.
func measure(benchmarks io.Reader) (map[string]usage, error) {
	measured, of := map[string]usage{}, ""
	lines := bufio.NewScanner(benchmarks)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "FAIL") || strings.HasPrefix(text, "--- FAIL") {
			return nil, errors.New("a benchmark failed")
		}
		if path, found := strings.CutPrefix(text, "pkg: github.com/dlqbench/dlqbench/"); found {
			of = path
		}
		found := line.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		var one usage
		if _, err := fmt.Sscan(found[2]+" "+found[3], &one.bytes, &one.allocations); err != nil {
			return nil, fmt.Errorf("reading %q: %w", text, err)
		}
		name := of + "." + found[1]
		if before, repeated := measured[name]; repeated {
			one = usage{min(one.allocations, before.allocations), min(one.bytes, before.bytes)}
		}
		measured[name] = one
	}
	return measured, lines.Err()
}

func parse(text string) (map[string]usage, error) {
	bounds := map[string]usage{}
	for row := range strings.Lines(text) {
		var name string
		var one usage
		if _, err := fmt.Sscan(row, &name, &one.allocations, &one.bytes); err != nil {
			return nil, fmt.Errorf("%q is not a benchmark with its allocations and bytes: %w", strings.TrimSpace(row), err)
		}
		bounds[name] = one
	}
	return bounds, nil
}

func format(measured map[string]usage) []byte {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(table, "%s\t%d\t%d\t\n", name, measured[name].allocations, measured[name].bytes)
	}
	_ = table.Flush() // a strings.Builder takes everything
	return []byte(text.String())
}

// compare returns an error that names each benchmark that allocates more than its bound, has none, or did not run.
// Fewer than fifty allocations per operation must not become one more. What a benchmark of many records allocates
// depends a little on how its goroutines take turns: two in a hundred are allowed, and of bytes, which also grow with
// the size of a type, one in ten.
func compare(measured, bounds map[string]usage) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		one, bound := measured[name], bounds[name]
		switch _, known := bounds[name]; {
		case !known:
			problems = append(problems, fmt.Errorf("%s has no bound", name))
		case one.allocations > bound.allocations+bound.allocations/50:
			problems = append(problems, fmt.Errorf("%s makes %d allocations per operation; its bound is %d", name,
				one.allocations, bound.allocations))
		case one.bytes > bound.bytes+bound.bytes/10+64:
			problems = append(problems, fmt.Errorf("%s allocates %d bytes per operation; its bound is %d", name, one.bytes,
				bound.bytes))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if _, ran := measured[name]; !ran {
			problems = append(problems, fmt.Errorf("%s has a bound and did not run", name))
		}
	}
	return errors.Join(problems...)
}
