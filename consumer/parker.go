package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Publisher is the producer that a Parker writes with; *kgo.Client is one. TryProduce never blocks.
type Publisher interface {
	TryProduce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error))
}

// Parker publishes the letter of a failed record: its dead letter, or its copy for a retry topic.
type Parker interface {
	// Park publishes the record once, without blocking, and calls done exactly once, from any goroutine: with nil
	// when every in-sync replica has it, with an error if it was rejected. The consumer waits for done before the
	// record counts as finished. If it was rejected, the consumer parks it again after a backoff.
	Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error))
}

// AckedParker is the default Parker: it calls done with the broker's answer only.
type AckedParker struct{}

// Park implements Parker. It produces a copy, because the client modifies the record that it produces.
func (AckedParker) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	record := *letter
	publisher.TryProduce(ctx, &record, func(_ *kgo.Record, err error) { done(err) })
}

// Timing of publications. A produce request without a response is abandoned after about requestLimit + answerLimit.
// The client repeats it under the same producer id and sequence number without limit, and the broker writes it once,
// whichever of the repeats arrive. Only a rejection (an error response) is returned to the caller, who may then
// publish again without creating a duplicate. There is no delivery timeout: a client that gives up on an
// unacknowledged write cannot know whether it happened, and publishing it again may create a duplicate.
const (
	requestLimit = 1500 * time.Millisecond
	answerLimit  = 1500 * time.Millisecond
	// refusals is the number of times that the client itself repeats a rejected write, immediately after it has asked
	// for the current leaders. So a partition that has just moved causes no error. A larger number would hide
	// rejections from the backoff and from the log.
	refusals = 1
	// patience is how long a publication may stay unacknowledged before that is reported.
	patience = 2 * time.Second
	// maxLetter is the maximum batch size that the client tries to write. A dead letter is larger than its record,
	// and the broker decides whether it is too large.
	maxLetter = 16 << 20
)

// newProducer returns the client for dead letters and retry copies. It has its own connections, so that a DLQ that
// does not answer delays neither heartbeats nor commits.
func newProducer(config Config) (*kgo.Client, error) {
	client, err := kgo.NewClient(slices.Concat(production(config), []kgo.Opt{
		kgo.SeedBrokers(config.Bootstrap...), kgo.ClientID(config.ClientID + "-dlq"), kgo.RequestTimeoutOverhead(answerLimit),
		kgo.MetadataMaxAge(metadataMaxAge), kgo.MetadataMinAge(metadataMinAge), kgo.RetryBackoffFn(reconnectBackoff),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may close a connection before its first response
	}, config.Options)...)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka client for dead letters: %w", err)
	}
	return client, nil
}

// production returns the client options for writing dead letters and retry copies.
func production(config Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.ProducerBatchCompression(kgo.NoCompression()), // readers of dead letters may lack a codec
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordRetries(refusals),
		kgo.ProduceRequestTimeout(requestLimit),
		kgo.MaxBufferedRecords(max(10_000, config.Settings.MaxInFlight)), kgo.ProducerBatchMaxBytes(maxLetter),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return sourcePartition
		})),
	}
}

// sourcePartition chooses the source's partition number modulo the topic's number of partitions, so that records of
// one key keep their order.
func sourcePartition(letter *kgo.Record, partitions int) int {
	return int(letter.Partition) % partitions
}

// Trouble is a dead letter, or a retry copy, that could not be published.
type Trouble struct {
	State TroubleState `json:"state"`
	// To is the topic that it is for.
	To string `json:"to"`
	// Topic, Partition, Offset are where the record was consumed.
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Tries is how often its publication was refused; 0 when it just isn't answered.
	Tries int `json:"tries"`
	// Letters is how many of the partition are in trouble.
	Letters int       `json:"letters"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
}

// TroubleState is the publication state of a partition's dead letters and retry copies.
type TroubleState string

// The states of a partition.
const (
	// Refused: a publication failed and will be repeated. The partition is not committed past the record.
	Refused TroubleState = "refused"
	// Halted: publication failed more often than a record may be attempted. It is still repeated, and the partition
	// is not committed past the record until it succeeds.
	Halted TroubleState = "halted"
	// Recovered: every dead letter and retry copy of the partition is published.
	Recovered TroubleState = "recovered"
)

// LogTrouble logs trouble: errors while it lasts, and one line when it is over.
func LogTrouble(log zerolog.Logger, trouble Trouble) {
	event := log.Error()
	message := "publishing a failed record failed, too; it is published again after a backoff, and the partition is not " +
		"committed past it"
	switch trouble.State {
	case Halted:
		message = "commits are halted: a failed record can't be published; it is tried again and again, nothing is lost"
	case Recovered:
		event = log.Info()
		message = "failed records are published again; commits go on"
	case Refused:
	}
	event.Str("state", string(trouble.State)).Str("to", trouble.To).Str("topic", trouble.Topic).Int32("partition",
		trouble.Partition).
		Int64("offset", trouble.Offset).Int("tries", trouble.Tries).Int("letters", trouble.Letters).
		Time("since", trouble.Since).Str("reason", trouble.Reason).Msg(message)
}
