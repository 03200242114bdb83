package main

// Section 3 measures the latency that the components between a client and its broker add to a round trip.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func measureLatency(ctx context.Context, o options) (found section, err error) {
	const rounds, trips = 7, 400
	r, err := newRig(ctx, o)
	if err != nil {
		return section{}, err
	}
	defer func() { err = firstOf(err, r.close()) }()
	ways, err := r.ways()
	if err != nil {
		return section{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var clients []*kgo.Client
	for _, w := range ways {
		client, err := w.client(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return section{}, err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	if _, err := roundTrips(ctx, r, clients, trips/4); err != nil {
		return section{}, err
	}
	p50, p99 := make([][]float64, len(ways)), make([][]float64, len(ways))
	for range rounds {
		took, err := roundTrips(ctx, r, clients, trips)
		if err != nil {
			return section{}, err
		}
		for i := range took {
			p50[i], p99[i] = append(p50[i], quantile(took[i], 0.5)), append(p99[i], quantile(took[i], 0.99))
		}
	}
	found = section{
		Title: "Round trip of one produced record (acks=all, to the dead-letter topic, which the tap observes)",
		How: []string{fmt.Sprintf(
			"%d rounds of %d trips on each of the four ways, record by record in turns; the quantiles are those of a round.",
			rounds, trips)},
	}
	for q, by := range [][][]float64{p50, p99} {
		name := []string{"p50", "p99"}[q]
		found.Rows = append(found.Rows, summary(name+" straight", "µs", by[0]))
		for i, w := range ways[1:] {
			var added, ratio []float64
			for round := range by[0] {
				added = append(added, by[i+1][round]-by[0][round])
				ratio = append(ratio, by[i+1][round]/by[0][round])
			}
			row := summary(name+" added by "+w.name, "µs", added)
			row.Detail = fmt.Sprintf("%.2f×", summary("", "", ratio).Value)
			found.Rows = append(found.Rows, row)
		}
	}
	return found, nil
}

// roundTrips produces records one by one, on each client in turns. It returns the durations by client.
func roundTrips(ctx context.Context, r *rig, clients []*kgo.Client, trips int) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(clients))
	for trip := range trips {
		for i := range clients {
			i = (i + trip) % len(clients)
			record := r.record(int32(trip))
			record.Topic = dlqTopic
			start := time.Now()
			if err := clients[i].ProduceSync(ctx, record).FirstErr(); err != nil {
				return nil, fmt.Errorf("producing one record: %w", err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	return took, nil
}

// quantile returns microseconds.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return took[int(q*float64(len(took)-1))].Seconds() * 1e6
}
