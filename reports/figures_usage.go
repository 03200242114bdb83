package reports

// This file decides what all formats say about the consumer's resource usage.

import (
	"fmt"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// busyRecord is the number of attempts of one record within a second from which on every format remarks on it.
const busyRecord = 100

// usageFacts returns the facts about the instances with the highest usage, and the most frequently attempted record.
func usageFacts(u measure.Usage) []document.KeyValue {
	out := []document.KeyValue{fact("Memory", "n/a", "not measured")}
	if len(u.Instances) > 0 {
		out = instanceFacts(u.Instances)
	}
	if u.Busiest != nil {
		out = append(out, warned(u.Busiest.Attempts >= busyRecord, fact("Attempts of one record",
			units.Count(u.Busiest.Attempts), fmt.Sprintf("at most, within one second: record %d at %s", u.Busiest.Record,
				moment(u.Busiest.At)))))
	}
	return out
}

func instanceFacts(instances []measure.InstanceUsage) []document.KeyValue {
	of := func(instance int16) string { return fmt.Sprintf("instance %d", instance) }
	most, grown, busy := instances[0], instances[0], instances[0]
	for _, one := range instances[1:] {
		if one.RSSMax > most.RSSMax {
			most = one
		}
		if one.RSSGrowth != nil && (grown.RSSGrowth == nil || *one.RSSGrowth > *grown.RSSGrowth) {
			grown = one
		}
		if one.CPUMean != nil && (busy.CPUMean == nil || *one.CPUMean > *busy.CPUMean) {
			busy = one
		}
	}
	growth := fact("Growth", "n/a", "no process was under load for long enough")
	if grown.RSSGrowth != nil {
		growth = fact("Growth", size(*grown.RSSGrowth), "of its memory under load, at most: "+of(grown.Instance))
	}
	out := []document.KeyValue{fact("Memory", size(most.RSSMax), "at most: "+of(most.Instance)), growth}
	if busy.CPUMean != nil {
		out = append(out, fact("Processors", units.Significant(*busy.CPUMean),
			fmt.Sprintf("under load; at most %s: %s", units.Significant(*busy.CPUMax), of(busy.Instance))))
	}
	return out
}

// remarkOnRetries returns a remark that every format shows if one record was attempted very often, "" otherwise.
func remarkOnRetries(u measure.Usage) string {
	if u.Busiest == nil || u.Busiest.Attempts < busyRecord {
		return ""
	}
	return fmt.Sprintf("record %d was attempted %s times within one second, at %s", u.Busiest.Record,
		units.Count(u.Busiest.Attempts), moment(u.Busiest.At))
}
