// Command ratios compares the processor time of ways to do the same work with what was recorded. A ratio is that of the
// direct way divided by that of another, in one round of make bench: 1 says that the other way costs nothing. Ratios
// vary from round to round, as other work disturbs both ways differently, so the record has all of them, from quiet and
// from busy hours. A drop is an error once the median of the rounds is below every recorded one. If nothing has
// changed, three of five rounds do that with a probability of about 10 / (n + 1)³, where n is the number of recorded
// rounds.
//
// Usage: cost.test -test.bench … | ratios [-add] FILE
//
// FILE has a line for each ratio: the benchmark, the way, the direct way, and the recorded ratios. -add adds those that
// were measured.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// least is the number of rounds whose median counts.
const least = 3

// ratio is one of the lines.
type ratio struct {
	benchmark, way, direct string
	recorded               []float64
}

func main() {
	add := flag.Bool("add", false, "add what was measured to the record")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, flag.Arg(0), *add); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(benchmarks io.Reader, out io.Writer, path string, add bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	ratios, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	measured, err := measure(io.TeeReader(benchmarks, out))
	if err != nil {
		return err
	}
	var problems []error
	for i := range ratios {
		one := &ratios[i]
		now := one.of(measured)
		if add {
			one.recorded = append(one.recorded, now...)
			continue
		}
		problems = append(problems, one.compare(now, out))
	}
	if add {
		return os.WriteFile(path, format(ratios), 0o600)
	}
	return errors.Join(problems...)
}

// line is the result of a benchmark with ways. The number of processors at the end of its name is left out.
var line = regexp.MustCompile(`^Benchmark(\w+)/way=(\S+?)(?:-\d+)?\s+\d+\s.*?([0-9.e+]+) cpu-µs/record`)

// key is a way of a benchmark.
type key struct{ benchmark, way string }

// measure reads what go test prints: the processor time of each way, in the order of the rounds.
func measure(benchmarks io.Reader) (map[key][]float64, error) {
	measured := map[key][]float64{}
	lines := bufio.NewScanner(benchmarks)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "FAIL") {
			return nil, errors.New("a benchmark failed")
		}
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			cost, err := strconv.ParseFloat(found[3], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
			of := key{found[1], found[2]}
			measured[of] = append(measured[of], cost)
		}
	}
	return measured, lines.Err()
}

// of returns the ratios of the rounds.
func (r ratio) of(measured map[key][]float64) (all []float64) {
	direct, other := measured[key{r.benchmark, r.direct}], measured[key{r.benchmark, r.way}]
	for i := range min(len(direct), len(other)) {
		all = append(all, direct[i]/other[i])
	}
	return all
}

// compare prints the ratio, and returns an error if it has dropped.
func (r ratio) compare(now []float64, out io.Writer) error {
	if len(now) < least || len(r.recorded) == 0 {
		return fmt.Errorf("%s of %s was measured in %d rounds and recorded in %d; %d and 1 are needed", r.way, r.benchmark,
			len(now), len(r.recorded), least)
	}
	slices.Sort(now)
	middle, lowest := now[len(now)/2], slices.Min(r.recorded)
	fmt.Fprintf(out, "%s, %s against %s: %.2f× (%.2f – %.2f), recorded %.2f – %.2f\n", r.benchmark, r.way, r.direct,
		middle, now[0], now[len(now)-1], lowest, slices.Max(r.recorded))
	if middle >= lowest {
		return nil
	}
	return fmt.Errorf("%s: %s has %.2f× of the speed of %s, less than in each of %d recorded rounds (%.2f and more). If "+
		"that is wanted, record it: make ratios ADD=-add", r.benchmark, r.way, middle, r.direct, len(r.recorded), lowest)
}

func parse(text string) (all []ratio, err error) {
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%q is not a benchmark with two of its ways", strings.TrimSpace(row))
		}
		one := ratio{benchmark: fields[0], way: fields[1], direct: fields[2]}
		for _, field := range fields[3:] {
			value, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a ratio: %w", field, err)
			}
			one.recorded = append(one.recorded, value)
		}
		all = append(all, one)
	}
	return all, nil
}

func format(all []ratio) []byte {
	var text strings.Builder
	for _, one := range all {
		fmt.Fprintf(&text, "%s %s %s", one.benchmark, one.way, one.direct)
		slices.Sort(one.recorded)
		for _, value := range one.recorded {
			fmt.Fprintf(&text, " %.2f", value)
		}
		text.WriteString("\n")
	}
	return []byte(text.String())
}
