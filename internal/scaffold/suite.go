package scaffold

// The suite: which scenarios a repository begins with, and what they must judge.

import (
	"slices"
	"strings"
)

// Suite is the default suite: the shipped scenarios that a repository begins with. They are chosen by measurement
// (dlqbench prove completeness, docs/proof.md): poison-mix, hostile-payloads and dlq-publish-failure name most planted
// bugs of ordinary consumers; of the others, transient-downstream names the missing jitter, consumer-kill who starts at
// the latest offset, consumer-rolling-restart what is lost at a stop, stop-while-dlq-refuses what becomes of refused
// dead letters then, and of those of unreadable records, scale-up-and-down which offsets outlive a rebalance, and
// offset-gaps who counts offsets. smoke is the quickest, and comes first. Where there are retry topics, retry-topics
// goes with them.
func Suite() []string {
	return []string{
		"smoke", "poison-mix", "hostile-payloads", "dlq-publish-failure", "dlq-leader-loss", "transient-downstream",
		"consumer-kill", "consumer-rolling-restart", "stop-while-dlq-refuses", "scale-up-and-down", "offset-gaps",
	}
}

// Substitute is the scenario with records that can't be read, for consumers that hostile-payloads does not fit.
const Substitute = "malformed-records"

// retryTopics is the scenario that goes with retry topics.
const retryTopics = "retry-topics"

// Candidates are all scenarios that a suite may have.
func Candidates() []string { return append(Suite(), Substitute, retryTopics) }

// chosen are scenarios of the default suite that follow one another, and why the consumer can't be run in them: the
// lines of a comment, none if it can.
type chosen struct{ Why, Names []string }

// suite is the default suite. Scenarios that are refused stay behind comment signs.
func (p *Proposal) suite() (all []chosen) {
	add := func(name string) {
		why := wrapped("Not with subject.yaml: "+oneLine(p.Refused[name]), reasonColumns)
		if p.Refused[name] == "" {
			why = nil
		}
		if n := len(all); n > 0 && slices.Equal(all[n-1].Why, why) {
			all[n-1].Names = append(all[n-1].Names, name)
			return
		}
		all = append(all, chosen{why, []string{name}})
	}
	for _, name := range Suite() {
		add(name)
		if name == "hostile-payloads" && p.Refused[name] != "" && p.Refused[Substitute] == "" {
			add(Substitute) // it has values that can't be read, and ordinary keys
		}
	}
	if p.HasRetryTopics() {
		add(retryTopics)
	}
	return all
}

// reasonColumns is the width of a reason in the suite.
const reasonColumns = 110

// HasRetryTopics reports whether the code has retry topics, or the subject file that is there already.
func (p Proposal) HasRetryTopics() bool {
	return p.Retries.Found && !p.Retries.None || p.Refused != nil && p.Refused[retryTopics] == ""
}

// required is the entry with the invariants that must be judged: those that a consumer with a dead-letter topic is
// judged by, without what is not promised.
func (p *Proposal) required() string {
	all := []string{"no-loss", "commit-after-dlq", "commit-after-outcome", "halt-on-dlq-failure", "dlq-fidelity",
		"dlq-once", "graceful-stop", "stays-up"}
	all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(p.Unpromised, name) })
	const width = 110
	text, line := "", "require: ["
	for i, name := range all {
		if i > 0 && len(line)+len(name) > width {
			text, line = text+strings.TrimRight(line, " ")+"\n", "  "
		}
		if line += name; i < len(all)-1 {
			line += ", "
		}
	}
	return text + line + "]"
}
