// Package promtest reads what a registry shows Prometheus, for the tests of other packages. It must not know what their
// metrics are about.
package promtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Series is what is shown, by name and labels ("dlq_entries state=failed"); of a histogram what its page has: _sum,
// _count, and _bucket with le as the last label.
func Series(t testing.TB, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name, labels := family.GetName(), labelsOf(metric)
			switch {
			case metric.GetCounter() != nil:
				shown[name+labels] = metric.GetCounter().GetValue()
			case metric.GetGauge() != nil:
				shown[name+labels] = metric.GetGauge().GetValue()
			case metric.GetHistogram() != nil:
				shown[name+"_sum"+labels] = metric.GetHistogram().GetSampleSum()
				shown[name+"_count"+labels] = float64(metric.GetHistogram().GetSampleCount())
				for _, bucket := range metric.GetHistogram().GetBucket() {
					shown[fmt.Sprintf("%s_bucket%s le=%g", name, labels, bucket.GetUpperBound())] = float64(
						bucket.GetCumulativeCount())
				}
			default:
				t.Fatalf("%s is a %s, which this package does not read", name, family.GetType())
			}
		}
	}
	return shown
}

func labelsOf(metric *dto.Metric) string {
	var text strings.Builder
	for _, label := range metric.GetLabel() {
		fmt.Fprintf(&text, " %s=%s", label.GetName(), label.GetValue())
	}
	return text.String()
}

// Compare fails the test for each series that is wanted and is not shown, or has another value.
func Compare(t testing.TB, shown, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if got, there := shown[name]; !there || got != value {
			t.Errorf("%s is %g (shown: %t), not %g", name, got, there, value)
		}
	}
}
