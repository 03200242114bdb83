package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// foreignLimit bounds the time for writing another service's dead letters.
const foreignLimit = 20 * time.Second

// writeForeign writes dead letters of another service into the dead-letter topic, as found in one that several
// services share. They carry no id of the run. Nothing may replay them, and none of them is judged as one of the
// subject's.
func (r *run) writeForeign(ctx context.Context) error {
	if r.header.Foreign == 0 {
		return nil
	}
	dialect, err := r.dialect()
	if err != nil || dialect == nil {
		return errors.Join(err,
			errors.New("the subject writes no dead letters, so there are none of another's that could be told from them"))
	}
	client, err := kgo.NewClient(slices.Concat(r.cluster.client, kafkaio.Writing(r.cluster.client),
		[]kgo.Opt{kgo.DefaultProduceTopic(r.topic(history.RoleDLQ))})...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	letters := make([]*kgo.Record, r.header.Foreign)
	for i := range letters {
		letters[i] = r.foreignDeadLetter(dialect, i)
	}
	return client.ProduceSync(ctx, letters...).FirstErr()
}

func (r *run) foreignDeadLetter(dialect deadletter.Dialect, i int) *kgo.Record {
	text := func(format string) []byte { return fmt.Appendf(nil, format, i) }
	letter := dialect.Seal(&kgo.Record{
		Key: text("user-%d"), Value: text(`{"user":%d}`),
		Headers: []kgo.RecordHeader{
			{Key: "type", Value: []byte("user_registered")}, {Key: "correlation_id", Value: []byte(uuid.NewString())},
			{Key: "event_id", Value: []byte(uuid.NewString())},
		},
	}, deadletter.Failure{
		Service: r.header.RunID + ".users", Topic: r.header.RunID + ".users", Class: "ValueError",
		Reason: "Invalid data format", Attempts: 1, Time: time.Now(),
	})
	letter.Topic, letter.Timestamp = "", time.Time{}
	return letter
}
