package planted

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// publisher is a Publisher with its Produce replaced.
type publisher struct {
	deadletter.Publisher
	produce func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error))
}

func (p publisher) Produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
	p.produce(ctx, record, promise)
}

func doublePublisher(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher {
	return func(next deadletter.Publisher) deadletter.Publisher {
		return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
			again := *record
			next.Produce(ctx, record, promise)
			next.Produce(ctx, &again, func(*kgo.Record, error) {})
		}}
	}
}

func lostPublisher(config *deadletter.Config) func(deadletter.Publisher) deadletter.Publisher {
	return func(next deadletter.Publisher) deadletter.Publisher {
		return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
			record.Topic = config.From
			next.Produce(ctx, record, promise)
		}}
	}
}

func droppingPublisher(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher {
	return func(next deadletter.Publisher) deadletter.Publisher {
		letters := 0
		return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
			if letters++; letters%10 == 0 {
				promise(record, nil)
				return
			}
			next.Produce(ctx, record, promise)
		}}
	}
}

func alteringPublisher(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher {
	return func(next deadletter.Publisher) deadletter.Publisher {
		return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
			addByte(record)
			next.Produce(ctx, record, promise)
		}}
	}
}

// clinging restores everything except the headers.
type clinging struct{ deadletter.Opener }

func (d clinging) Prepare(letter *kgo.Record) *kgo.Record {
	record := d.Opener.Prepare(letter)
	record.Headers = letter.Headers
	return record
}
