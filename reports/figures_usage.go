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

// resourceBlocks returns what the consumer used as a whole, and what each of its instances did.
func resourceBlocks(u measure.Usage) []document.Block {
	out := []document.Block{document.KeyValues{Big: true, Items: usageFacts(u)}}
	if len(u.Instances) == 0 {
		return append(out, document.Paragraph{Soft: true, Text: document.Plain(
			"The history has no readings of the instances: " +
				"dlqbench reads the memory and the processors of processes that it starts.")})
	}
	return append(out, instanceTable(u.Instances), document.Paragraph{Soft: true, Text: append(
		document.Plain("Over time, they are in the charts of the "), append(document.Link("timeline", "#timeline"),
			document.Plain(".")...)...)})
}

func instanceTable(instances []measure.InstanceUsage) document.Table {
	out := document.Table{Title: "Resources of each instance", Columns: []document.Column{{Title: "instance"},
		{Title: "memory", Figure: true, Help: "The most resident memory (RSS) in the whole run, child processes included."},
		{Title: "growth", Figure: true, Help: "By how much the memory of one process grew under load, from the first third " +
			"of its readings to the last (medians)."},
		{Title: "processors", Figure: true,
			Help: "The mean number of processors used under load. 1 is one processor all the time."},
		{Title: "at most", Figure: true, Help: "The most processors used between two readings under load."}}}
	for _, one := range instances {
		growth := "–"
		if one.RSSGrowth != nil {
			growth = size(*one.RSSGrowth)
		}
		row := document.Row{Cells: document.Cells(fmt.Sprintf("instance %d", one.Instance), size(one.RSSMax), growth)}
		for _, used := range []*float64{one.CPUMean, one.CPUMax} {
			words := "–"
			if used != nil {
				words = units.Significant(*used)
			}
			row.Cells = append(row.Cells, document.Plain(words))
		}
		out.Rows = append(out.Rows, row)
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
