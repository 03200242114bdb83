package main

// This file generates the pages of docs/invariants and docs/faults: the text of `dlqbench explain`, as Markdown.
// Because they are generated, they cannot diverge from it. `make docs` writes them.

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The repository contains the pages, for its readers. They must match the program.
func TestPagesSayWhatExplainSays(t *testing.T) {
	all := pages()
	for path, want := range all {
		golden.Check(t, filepath.Join(repositoryRoot, "docs", path), want)
	}
	for _, folder := range []string{"invariants", "faults"} {
		files := must.Get(filepath.Glob(filepath.Join(repositoryRoot, "docs", folder, "*.md")))(t)
		for _, file := range files {
			if _, known := all[filepath.Join(folder, filepath.Base(file))]; !known {
				t.Errorf("docs/%s/%s explains something that does not exist: remove it", folder, filepath.Base(file))
			}
		}
	}
}

// pages returns every page, by its path below docs.
func pages() map[string]string {
	all := map[string]string{}
	index := "# Invariants\n\nThe rules that a run is judged by. Each page is what `dlqbench explain NAME` prints.\n\n| " +
		"invariant | promise |\n|---|---|\n"
	for _, name := range assertions.Names() {
		about := assertions.Explain(name)[0] // it is an invariant
		promise := about.Promise
		if about.Experimental {
			promise += " *(experimental)*"
		}
		index += fmt.Sprintf("| [%s](%s.md) | %s |\n", name, name, promise)
		all[filepath.Join("invariants", name+".md")] = invariantPage(about)
	}
	all[filepath.Join("invariants", "README.md")] = index
	index = "# Faults\n\nThe faults that can be injected. Each page is what `dlqbench explain NAME` prints.\n\n| fault " +
		"| effect |\n|---|---|\n"
	for _, entry := range catalogue.Entries() {
		index += fmt.Sprintf("| [%s](%s.md) | %s |\n", entry.Name, entry.Name, entry.Summary)
		all[filepath.Join("faults", entry.Name+".md")] = faultPage(entry)
	}
	all[filepath.Join("faults", "README.md")] = index
	return all
}

func invariantPage(about assertions.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**\n", about.Name, about.Promise)
	if about.Experimental {
		b.WriteString("\nExperimental: its results are reported and decide nothing.\n")
	}
	fmt.Fprintf(&b, "\n## Rule\n\n%s\n\n## Evidence\n\n%s\n\n## Anomalies\n",
		about.Rule, sentence(about.Evidence))
	for _, anomaly := range about.Anomalies {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```\n%s\n```\n", anomaly.Name, sentence(anomaly.Meaning),
			strings.Join(anomaly.Example, "\n"))
		for _, one := range assertions.Explain(anomaly.Name) {
			if one.Of == about.Name && one.Cause != about.Cause {
				fmt.Fprintf(&b, "\nTypical causes: %s\n", one.Cause)
			}
		}
	}
	fmt.Fprintf(&b, "\n## Typical causes\n\n%s\n", about.Cause)
	if needs := about.Needs(); needs != "" {
		fmt.Fprintf(&b, "\n## Preconditions\n\nTo be judged, it needs %s.\n", needs)
	}
	return b.String()
}

// sentence turns a phrase into a sentence, with an initial capital and a full stop.
func sentence(phrase string) string {
	return strings.ToUpper(phrase[:1]) + strings.TrimSuffix(phrase[1:], ".") + "."
}

func faultPage(entry faults.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**\n\n%s\n\n## How it is injected\n\n%s\n\n## What it reveals\n\n%s\n", entry.Name,
		entry.Summary, entry.Does, entry.Made, entry.Shows)
	if len(entry.Effects) > 0 {
		b.WriteString("\n## Reported effects\n\n")
		for _, effect := range entry.Effects {
			fmt.Fprintf(&b, "- %s\n", effect)
		}
		b.WriteString("\nIf a planned fault reports none of this, it had no effect and the run is inconclusive.\n")
	}
	b.WriteString("\n## Keys\n\n")
	for _, key := range entry.Keys {
		fmt.Fprintf(&b, "- `%s`\n", key)
	}
	fmt.Fprintf(&b, "\n## Example\n\n```yaml\n%s\n```\n", strings.TrimRight(catalogue.YAML(entry), "\n"))
	return b.String()
}
