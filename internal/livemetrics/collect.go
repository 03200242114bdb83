package livemetrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlqbench/dlqbench/reports"
)

// collector collects the newest snapshots.
type collector struct{ *Metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, one := range c.families.values {
		to <- one.desc
	}
	for _, one := range c.families.histograms {
		to <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for number, snapshot := range c.runs() {
		if snapshot == nil {
			continue
		}
		run := []string{strconv.Itoa(number), labelOf(snapshot.Scenario)}
		for _, one := range c.families.values {
			one.show(snapshot, func(value float64, own ...string) {
				labels := append(make([]string, 0, len(run)+len(own)), run...)
				for _, label := range own {
					labels = append(labels, labelOf(label))
				}
				to <- prometheus.MustNewConstMetric(one.desc, one.kind, value, labels...)
			})
		}
		for _, one := range c.families.histograms {
			buckets := one.of(snapshot)
			to <- prometheus.MustNewConstHistogram(one.desc, buckets.Count, buckets.Sum.Seconds(), below(buckets), run...)
		}
	}
}

// below returns the counts by upper bound in seconds.
func below(buckets reports.Buckets) map[float64]uint64 {
	counts := make(map[float64]uint64, len(buckets.Bounds))
	for i, bound := range buckets.Bounds {
		counts[bound.Seconds()] = buckets.Below[i]
	}
	return counts
}

// labelOf turns foreign text into a label: valid UTF-8, cut to the maximum length of a label.
func labelOf(text string) string {
	const longest = 100
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	return string(runes[:min(len(runes), longest)])
}
