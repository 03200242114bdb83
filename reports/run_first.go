package reports

// This file describes the first violation of a run for the banner of its page: what, where, and since when.

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// failure is an anomaly with the name of its invariant.
type failure struct {
	invariant string
	assertions.Anomaly
}

func failures(v *assertions.Verdict) []failure {
	var out []failure
	for _, r := range ranked(v.Invariants) {
		if r.Status != assertions.Fail {
			continue
		}
		for _, a := range r.Anomalies {
			out = append(out, failure{r.Name, a})
		}
	}
	return out
}

// bySight compares occurrences by the run's clock. Those without a time come last.
func bySight(a, b *assertions.Occurrence) int {
	at := func(o *assertions.Occurrence) uint64 {
		if o == nil {
			return math.MaxUint64
		}
		return uint64(o.At) // no time is -1
	}
	return cmp.Compare(at(a), at(b))
}

// firstViolation describes the first violation, and returns the command that shows its record again, "" if there is
// none.
func firstViolation(v *assertions.Verdict, shown evidence) (facts []document.KeyValue, command string) {
	all := failures(v)
	if len(all) == 0 {
		return nil, ""
	}
	first := slices.MinFunc(all, func(a, b failure) int { return bySight(a.First, b.First) })
	what := name(first.invariant) + ": " + name(first.Name) + ", " + units.Plural(first.Count, "time", "times")
	if len(all) > 1 {
		what += "; " + units.Plural(int64(len(all)-1), "more kind of violation", "more kinds of violation")
	}
	value := document.Plain(what)
	if first.First != nil && shown.anchors[first.First.Record] != "" {
		value = append(append(value, document.Plain(" ")...), traceLink("its trace", shown.anchors[first.First.Record])...)
	}
	out := []document.KeyValue{{Key: "First violation", Value: value}}
	at := first.First
	if at == nil && len(first.Counterexamples) > 0 {
		w := first.Counterexamples[0]
		at = &assertions.Occurrence{Record: w.Record, ID: w.ID, Key: w.Key, Topic: w.Topic, Partition: w.Partition,
			Offset: w.Offset, At: -1, Command: w.Command}
	}
	if at == nil {
		return out, ""
	}
	out = append(out, fact("Where", whereWords(at), ""))
	if at.At >= 0 {
		out = append(out, document.KeyValue{Key: "Since when",
			Value: append(document.Plain(sinceWords(v, at)), faultTags(v, at.At)...)})
	}
	return out, text(at.Command)
}

// whereWords describes the position of an occurrence: topic, partition, offset, record, key.
func whereWords(o *assertions.Occurrence) string {
	var parts []string
	if o.Topic != "" {
		parts = append(parts, "topic "+name(o.Topic))
	}
	if o.Partition >= 0 {
		parts = append(parts, "partition "+strconv.Itoa(int(o.Partition)))
	}
	if o.Offset >= 0 {
		parts = append(parts, "offset "+strconv.FormatInt(o.Offset, 10))
	}
	if o.Record >= 0 {
		parts = append(parts, "record "+strconv.Itoa(int(o.Record)))
	}
	if o.Key != "" {
		parts = append(parts, "key "+name(o.Key))
	}
	if len(parts) == 0 {
		return "the run as a whole"
	}
	return strings.Join(parts, ", ")
}

// missingWords explains how it is known that a missing event will not come any more.
func missingWords(m assertions.Missing) string {
	switch m {
	case assertions.MissingCommitted:
		return ": committed past, nobody is handed it again"
	case assertions.MissingDrained:
		return ": the drain ended, and it was still missing"
	case assertions.MissingReplayed:
		return ": the replay ended, and it was still missing"
	case assertions.MissingAudited:
		return ": the audit looked for it, and it was not there"
	}
	return ""
}

func sinceWords(v *assertions.Verdict, o *assertions.Occurrence) string {
	return clock(o.At) + " on the run's clock" + phaseWords(v, o) + missingWords(o.Missing)
}

func phaseWords(v *assertions.Verdict, o *assertions.Occurrence) string {
	if o.Phase == "" {
		return ""
	}
	out := ", in the phase " + name(o.Phase)
	for _, p := range v.Phases {
		if p.Name == o.Phase && o.At >= p.From && o.At <= max(p.To, p.From) {
			out += " (" + units.Text((o.At - p.From).Round(time.Millisecond)) + " into it)"
			break
		}
	}
	return out
}
