package verify

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/internal/verify/agreement"
)

// Oracle is the third table: do the checkers and the reference checker agree.
type Oracle struct {
	First uint64 `json:"first"`
	Seeds int    `json:"seeds"`
	agreement.Report
	// Disagreements are seeds at which something was not as it must be: a correct history that is accused, a corruption
	// that is not named or named wrongly, the two judges of different opinions. Stories tells of the first ones.
	Disagreements int      `json:"disagreements"`
	Stories       []string `json:"traces,omitempty"`
}

// Holds reports whether there was no disagreement.
func (o *Oracle) Holds() bool { return o.Seeds > 0 && o.Disagreements == 0 }

// storiesLimit is the maximum number of disagreements reported in full.
const storiesLimit = 20

// comparedPerSeed is the number of histories of a seed that both the checkers and the reference checker judge: the
// correct one and a scrambled one.
const comparedPerSeed = 2

// ProveOracle has at least the given number of histories judged by the checkers and by the reference checker. Seeds
// start at first and ascend.
func (c *Config) ProveOracle(ctx context.Context, first uint64, histories int) (*Oracle, error) {
	o := &Oracle{First: first, Report: *agreement.NewReport()}
	var mu sync.Mutex
	c.each(ctx, (histories+comparedPerSeed-1)/comparedPerSeed, func(i int) {
		seed := first + uint64(i)
		report, err := agreement.Check(seed)
		mu.Lock()
		defer mu.Unlock()
		o.Seeds++
		o.Add(report)
		if err != nil {
			o.Disagreements++
			if len(o.Stories) < storiesLimit {
				o.Stories = append(o.Stories, fmt.Sprintf("%v; again with: dlqbench prove oracle --first %d --histories 1",
					err, seed))
			}
			c.say("%v", err)
		}
		if o.Seeds%5000 == 0 {
			c.say("%d histories judged, %d disagreements", o.Histories, o.Disagreements)
		}
	})
	return o, ctx.Err()
}

func (o *Oracle) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Oracle: generated histories, seeds %d to %d\n\n", o.First, o.First+uint64(max(o.Seeds, 1))-1)
	fmt.Fprintf(&b, "%d judgements of %d events; of %d of %d records the reference checker decides something.\n\n",
		o.Histories, o.Events, o.Decided, o.Records)
	rows := [][]string{{"invariant", "correct histories in which it judged", "records compared"}}
	names := map[string]int64{}
	maps.Copy(names, o.Correct)
	maps.Copy(names, o.Compared)
	for _, name := range sorted(names) {
		if strings.Contains(name, "/") && o.Compared[name] == 0 {
			continue // one node of a graph: the reference checker judges graph-conservation as a whole
		}
		rows = append(rows, []string{name, fmt.Sprint(o.Correct[name]), fmt.Sprint(o.Compared[name])})
	}
	b.WriteString(table(rows) + "\n")
	rows = [][]string{{"corruption", "made and named"}}
	for _, name := range sorted(o.Corrupted) {
		rows = append(rows, []string{name, fmt.Sprint(o.Corrupted[name])})
	}
	b.WriteString(table(rows))
	list(&b, "", o.Stories)
	return b.String()
}
