package reports

// This file adds to the banner of the HTML report: the first violation, its position and time, and the command that
// shows it again.

import (
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
)

// pinView is the first violation. Its texts are "" if the verdict does not have them.
type pinView struct {
	What, Where, Since string
	// Anchor is the id of its counterexample in the page, "" if the page does not have it.
	Anchor string
	Faults []faultRef
	// Command shows the whole trace of its record.
	Command string
}

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

// firstFailure returns the failure that was seen first on the run's clock. If no time is known, it returns the first
// one in the verdict. It returns nil if nothing failed.
func firstFailure(v *assertions.Verdict) *failure {
	var first *failure
	for _, one := range failures(v) {
		switch {
		case first == nil, one.First != nil && (first.First == nil || one.First.At < first.First.At):
			first = &one
		}
	}
	return first
}

func newPinView(v *assertions.Verdict) *pinView {
	first := firstFailure(v)
	if first == nil {
		return nil
	}
	out := &pinView{What: name(first.invariant) + ": " + name(first.Name) + ", " +
		units.Plural(first.Count, "time", "times")}
	if all := failures(v); len(all) > 1 {
		out.What += "; " + units.Plural(int64(len(all)-1), "more kind of violation", "more kinds of violation")
	}
	at := first.First
	if at == nil && len(first.Counterexamples) > 0 {
		w := first.Counterexamples[0]
		at = &assertions.Occurrence{Record: w.Record, ID: w.ID, Key: w.Key, Topic: w.Topic, Partition: w.Partition,
			Offset: w.Offset, At: -1, Command: w.Command}
	}
	if at == nil {
		return out
	}
	out.Where, out.Command = whereWords(at), text(at.Command)
	if at.At >= 0 {
		out.Since = sinceWords(v, at)
		out.Faults = faultsAt(v, at.At)
	}
	return out
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
