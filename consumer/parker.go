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

// Parker publishes what a failed record leaves behind, its letter: the dead letter, or the copy for a retry topic.
type Parker interface {
	// Park publishes the letter once, without blocking, and calls done exactly once, from any goroutine: with nil when
	// every in-sync replica has it, with an error when it was refused. The consumer waits for done before the record
	// counts as finished, and parks the letter again, after a backoff, when it was refused.
	Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error))
}

// AckedParker is the Parker: done is the broker's answer and nothing else.
type AckedParker struct{}

// Park implements Parker. The letter itself is not handed over: the client writes into what it produces.
func (AckedParker) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	record := *letter
	publisher.TryProduce(ctx, &record, func(_ *kgo.Record, err error) { done(err) })
}

// Publication timing. A produce request without an answer is given up after about requestLimit + answerLimit and
// repeated by the client under the same producer id and sequence number, for as long as it takes: the broker writes it
// once, whichever of the repeats arrive. Only a refusal (an answer that says no) comes back to the caller, who may then
// publish anew without making a second copy. Hence there is no delivery timeout here: a client that gives up on an
// unanswered write can't know whether it happened, and whoever publishes it again makes a duplicate.
const (
	requestLimit = 1500 * time.Millisecond
	answerLimit  = 1500 * time.Millisecond
	// refusals is how often the client itself repeats a refused write, right after it has asked for the current
	// leaders: a partition that has just moved is nobody's trouble. More would hide the refusals from the backoff and
	// from the log.
	refusals = 1
	// patience is how long a publication may go unanswered before that is reported.
	patience = 2 * time.Second
	// maxLetter is the largest batch that is tried: a dead letter is larger than its record, and whether it is too
	// large is for the broker to say.
	maxLetter = 16 << 20
)

// newProducer returns the client for dead letters and retry copies. It is a client of its own, so that a DLQ that
// doesn't answer holds up neither heartbeats nor commits on a shared connection.
func newProducer(config Config) (*kgo.Client, error) {
	client, err := kgo.NewClient(slices.Concat(production(config), []kgo.Opt{
		kgo.SeedBrokers(config.Bootstrap...), kgo.ClientID(config.ClientID + "-dlq"), kgo.RequestTimeoutOverhead(answerLimit),
		kgo.MetadataMaxAge(metadataMaxAge), kgo.MetadataMinAge(metadataMinAge), kgo.RetryBackoffFn(reconnectBackoff),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may go before its first answer on a connection
	}, config.Options)...)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka client for dead letters: %w", err)
	}
	return client, nil
}

// production is what a client is told of the letters that it writes.
func production(config Config) []kgo.Opt {
	return []kgo.Opt{
		kgo.ProducerBatchCompression(kgo.NoCompression()), // whoever reads dead letters may lack a codec
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordRetries(refusals),
		kgo.ProduceRequestTimeout(requestLimit),
		kgo.MaxBufferedRecords(max(10_000, config.Settings.MaxInFlight)), kgo.ProducerBatchMaxBytes(maxLetter),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return sourcePartition
		})),
	}
}

// sourcePartition puts a letter on its source's partition number, modulo the topic's partitions: records of one
// key stay in order among themselves.
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

// TroubleState tells how a partition's letters fare.
type TroubleState string

// The states of a partition.
const (
	// Refused: a publication failed and will be repeated. The partition is not committed past the record.
	Refused TroubleState = "refused"
	// Halted: publication failed more often than a record may be attempted; the same holds, until it succeeds.
	Halted TroubleState = "halted"
	// Recovered: every letter of the partition is published.
	Recovered TroubleState = "recovered"
)

// LogTrouble reports trouble in the log: errors while it lasts, one line when it is over.
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
