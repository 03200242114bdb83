package drill

import (
	"cmp"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

const (
	// courseStep is the initial distance between two points of the course. It doubles when there are mostPoints.
	courseStep = 500 * time.Millisecond
	mostPoints = 1200
)

// Point is the figures of a drill at one time. Rates are per second.
type Point struct {
	At        time.Duration `json:"at_ns"`
	Sent      float64       `json:"sent_per_s"`
	Processed float64       `json:"processed_per_s"`
	Dead      float64       `json:"dead_letters_per_s"`
	Lag       int64         `json:"lag"`
	Retries   int64         `json:"retries_in_flight"`
	// P50 and P99 are the latencies of success; 0 if there was none.
	P50 time.Duration `json:"success_p50_ns"`
	P99 time.Duration `json:"success_p99_ns"`
}

// course is the figures over the time of a drill, of any length in a bounded number of points.
type course struct {
	points []Point
	step   time.Duration
}

// add adds the figures of a snapshot, unless the last point is too recent.
func (c *course) add(at time.Duration, of *reports.Snapshot) {
	c.step = cmp.Or(c.step, courseStep)
	if n := len(c.points); n > 0 && at-c.points[n-1].At < c.step {
		return
	}
	c.points = append(c.points, Point{At: at, Sent: of.SentRate, Processed: of.ProcessedRate, Dead: of.DeadLetterRate,
		Lag: of.Lag, Retries: of.RetriesInFlight, P50: of.Latency.Success.P50, P99: of.Latency.Success.P99})
	if len(c.points) < mostPoints {
		return
	}
	for i := range mostPoints / 2 {
		c.points[i] = c.points[2*i]
	}
	c.points, c.step = c.points[:mostPoints/2], 2*c.step
}
