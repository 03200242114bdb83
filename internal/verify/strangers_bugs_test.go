package verify

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// plantedInStranger is a bug that a stranger has if its environment says so. want is the invariant that it violates,
// with the anomaly where it has several: "effects: effect-missing"; "" if the stranger is correct; or "inconclusive: "
// and what a reason contains. scenario is a shipped one, or a file beside the stranger's folder, and may be followed by
// values of --set.
type plantedInStranger struct{ name, scenario, want string }

const inconclusive = "inconclusive: "

// fewer sends records so seldom that none waits for the retries of another. A stall of the machine then concerns few of
// them: attempts at a record may be hidden by one at any time from its acknowledgement to its dead letter.
const fewer = "../a-few-records workload.rate=6/s workload.duration=6s"

// byThree has three instances, each of which takes a third of the partitions.
func byThree(scenario string) string { return scenario + " subject.reference.instances=3" }

// fewerPartitions is a scenario whose dead-letter topic has fewer partitions than the input.
const fewerPartitions = "../a-few-records topics.dlq.partitions=2"

// seldom is a scenario with fewer records than it has, for a stranger that waits for seconds.
func seldom(scenario string) string { return scenario + " workload.rate=15/s" }

// inBatches is a scenario whose records come in batches, with fewer of them for a stranger that waits for seconds.
func inBatches(scenario string) string { return scenario + " workload.rate=60/s" }

// aloneInOutage has one instance make all calls while they fail.
const aloneInOutage = "downstream-outage subject.reference.instances=1"

// fewTimeOut has few records, and calls of some of them time out.
const fewTimeOut = "../a-few-records workload.outcomes.exhausted=0 workload.outcomes.timeout.weight=10 " +
	"workload.outcomes.timeout.failures=1"

// longOutage lets waits grow to 20 s.
const longOutage = "../long-outage"

// handover takes partitions from an instance that has the schema to one that cannot load it.
const handover = "registry-outage subject.reference.instances=2"

// strangersBugs are the bugs of strangers, by the subject file.
func strangersBugs() map[string][]plantedInStranger {
	return map[string][]plantedInStranger{
		"confluent-kafka/subject.yaml": {
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
			{"delivery-error-ignored", "dlq-publish-failure", "commit-after-dlq"},
			{"garbage-committed", "hostile-payloads", "no-loss"},
			{"skips-at-rebalance", "scale-up-and-down", "no-loss"},
		},
		"confluent-kafka/subjects/patient.yaml": {
			{"", longOutage, ""},
			{"polls-without-pause", "downstream-outage", "commit-after-outcome: commit-past-unfinished"},
			{"", "../joins-in-outage", ""},
			{"not-resumed", "../joins-in-outage", "no-loss: stalled"},
		},
		"confluent-kafka/subjects/search.yaml": {
			{"item-errors-ignored", "smoke", "commit-after-outcome"},
			{"wrong-item-parked", "poison-mix", "classification"},
			{"all-repeated", "poison-mix", "duplicates"},
		},
		"confluent-kafka/assigns.yaml": {
			{"", "consumer-kill", ""},
			{"letter-not-awaited", byThree("dlq-publish-failure"), "commit-after-dlq"},
			{"takes-all", "consumer-kill", inconclusive + "no group gave it to one of them"},
		},
		"confluent-kafka/offsets-outside.yaml": {
			{"", "consumer-kill", ""},
			{"stored-first", "consumer-kill", "no-loss: stalled"},
		},
		"java/subject.yaml": {
			{"auto-commit-beside-a-thread", "consumer-rolling-restart", "commit-after-outcome"},
			{"letter-not-checked", "dlq-publish-failure", "commit-after-dlq"},
			{"no-seek-after-failure", "dlq-publish-failure", "no-loss"},
		},
		"java/subjects/patient.yaml": {
			{"", longOutage, ""},
			{"paused-without-seek", "downstream-outage", "commit-after-outcome: commit-past-unfinished"},
		},
		"sarama/subject.yaml": {
			{"marked-before-letter", "dlq-publish-failure", "commit-after-dlq"},
			{"goroutine-per-message", "transient-downstream", "commit-after-outcome"},
			{"newest-by-default", "consumer-kill", "no-loss: stalled"},
			{"acks-by-default", "dlq-leader-loss", "no-loss: dropped-by-ack"},
		},
		"kafka-python/subject.yaml": {
			{"", "broker-loss", ""},
			{"producer-not-replaced", "dlq-refused-for-good", "no-loss: stalled"},
			{"send-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		},
		"kafka-go/subject.yaml": {
			{"committed-first", "consumer-kill", "commit-after-outcome"}, {"markers", "offset-gaps", "dlq-fidelity"},
		},
		"kafkajs/subject.yaml": {
			{"resolved-before-await", "consumer-rolling-restart", "commit-after-outcome"},
			{"rejection-swallowed", "dlq-publish-failure", "commit-after-dlq"},
			{"not-awaited", "transient-downstream", "commit-after-outcome"},
		},
		"kafkajs/subjects/patient.yaml": {
			{"", longOutage, ""},
			{"waits-run-out", "downstream-outage", "backoff: backoff-early"},
		},
		"java/subjects/halts-ends.yaml": {
			{"", "malformed-records", ""},
			{"seeks-past-unreadable", "malformed-records", "commit-after-outcome: commit-past-unfinished"},
		},
		"java/subjects/halts-again.yaml": {{"", "malformed-records", ""}},
		"kafkajs/subjects/halts.yaml": {
			{"", "malformed-records", ""},
			{"unreadable-logged", "malformed-records", "commit-after-outcome: commit-past-unfinished"},
		},
		"aiokafka/subject.yaml": {{"acks-by-default", "dlq-leader-loss", "no-loss: dropped-by-ack"}},
		"aiokafka/subjects/letters.yaml": {
			{"", "dlq-link-down", ""},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-before-dlq"},
			{"status-not-checked", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"every-failure-is-final", "transient-downstream", "classification: premature-dead-letter"},
			{"ticket-at-first-failure", "transient-downstream", "classification: dual-terminal"},
		},
		"aiokafka/subjects/letters-table.yaml": {
			{"", "consumer-kill", ""},
			{"not-committed", "smoke", "commit-after-dlq: commit-without-dlq"},
		},
		"aiokafka/subjects/patient.yaml": {
			{"", longOutage, ""},
			{"max-elapsed", longOutage, "no-loss: lost"},
		},
		"aiokafka/subjects/halts-ends.yaml": {
			{"", "malformed-records", ""},
			{"auto-commit-at-stop", "malformed-records", "commit-after-outcome: commit-past-unfinished"},
		},
		"aiokafka/subjects/halts-again.yaml": {
			{"", "malformed-records", ""},
			{"deserializer-in-getmany", "malformed-records", "no-loss: stalled"},
		},
		"aiokafka/subjects/registry.yaml": {
			{"", handover, ""},
			{"registry-error-is-unreadable", "registry-outage", "classification: premature-dead-letter"},
		},
		"aiokafka/subjects/schemas.yaml": {{"", "../schemas-evolve", ""}},
		"sarama/subjects/registry.yaml": {
			{"", handover, ""},
			{"registry-error-is-poison", "registry-outage", "classification: premature-dead-letter"},
		},
		"franz-go/subjects/enrich.yaml": {
			{"results-in-a-buffer", "consumer-kill", "effects: effect-missing"},
			{"result-in-the-retried-block", "smoke", "effects: effect-doubled"},
			{"result-before-call", "smoke", "effects: effect-partial"},
		},
		"confluent-kafka/subjects/transform.yaml": {
			{"delivery-error-ignored", "smoke", "commit-after-outcome"},
		},
		"modes/subjects/halts-partition.yaml": {
			{"unreadable-skipped", "malformed-records", "no-loss: lost"},
			{"unreadable-dead-lettered", "malformed-records", "classification: premature-dead-letter"},
		},
		"kafkajs/untrusting.yaml": {{"", "a-few-records", inconclusive + "have the service trust {{.CAFile}}"}},
		"grpc/subject.yaml": {
			{"error-ignored", "smoke", "commit-after-outcome"},
			{"retry-info-ignored", "transient-downstream", "backoff: backoff-early"},
		},
		"grpc/several.yaml": {
			{"", "smoke", ""},
			{"last-error-ignored", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"last-call-forgotten", "smoke", "no-loss: lost"},
		},
		"grpc/books.yaml": {
			{"", "postgres/shop-outage", ""},
			{"", "postgres/results-refused", ""},
			{"row-error-ignored", "postgres/shop-outage", "no-loss: lost"},
			{"result-error-ignored", "postgres/results-refused", "no-loss: lost"},
			{"last-call-forgotten", "smoke", "commit-after-outcome: commit-past-unfinished"},
		},
		"grpc/java/subject.yaml": {
			{"", "transient-downstream", ""},
			{"deadline-of-the-stub", fewer, "classification: premature-dead-letter"},
			{"permanent-retried", "smoke", "classification: permanent-retried"},
		},
		"frameworks/streams/halts.yaml": {
			{"", "malformed-records", ""},
			{"continues-at-unreadable", "malformed-records", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/streams/letters.yaml": {
			{"", "dlq-publish-failure", ""},
			{"production-continues", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/spring/halts-again.yaml": {{"", "malformed-records", ""}},
		"frameworks/spring/halts-stops.yaml": {
			{"", "malformed-records", ""},
			{"unreadable-recovered", "malformed-records", "classification: premature-dead-letter"},
		},
		"frameworks/spring/defaults.yaml": {
			{"", "smoke", ""},
			{"count-starts-anew", "unreliable-downstream", "bounded-retries: over-retried"},
		},
		"frameworks/spring/fewer-partitions.yaml": {
			{"", fewerPartitions, ""},
			{"same-partition", fewerPartitions, "no-loss: stalled"},
		},
		"frameworks/spring/batch.yaml": {
			{"", seldom("smoke"), ""},
			{"batch-fails-as-a-whole", inBatches("smoke"), "dlq-fidelity: metadata-wrong"}, // dead letters of what succeeded
		},
		"frameworks/spring/retryable-topic.yaml": {{"", "smoke", ""}},
		"frameworks/connect/subject.yaml": {
			{"", "dlq-refused-for-good", ""},
			{"batch-again", "smoke", "duplicates"},
			{"report-not-awaited", "dlq-refused-for-good", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/connect/distributed.yaml": {{"", "consumer-kill", ""}},
		"frameworks/faststream/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"", "hostile-payloads", "no-loss: lost"}, // ag2ai/faststream#2458
			{"ack-first-by-default", "consumer-kill", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/quarkus/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"not-awaited", "smoke", "no-loss: lost"},
		},
		"frameworks/quarkus/delayed-retry.yaml": {
			{"", "dlq-publish-failure", ""},
			{"retries-by-auto-commit", "smoke", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/watermill/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"retry-outside", "smoke", "classification: premature-dead-letter"},
			{"canceled-is-poison", "term-during-backoff", "graceful-stop: premature-dead-letter"},
			{"newest-by-default", "consumer-kill", "no-loss"},
		},
		"frameworks/spring-cloud-stream/binder.yaml": {
			{"", seldom("smoke"), ""},
			{"", seldom("dlq-publish-failure"), "commit-after-dlq: commit-without-dlq"}, // the binder logs the error
			{"not-awaited", seldom("smoke"), "no-loss: lost"},
		},
		"frameworks/spring-cloud-stream/container.yaml": {
			{"", seldom("dlq-publish-failure"), ""},
			{"back-off-counts-retries", seldom("smoke"), "bounded-retries: over-retried"},
			{"letter-by-stream-bridge", seldom("dlq-publish-failure"), "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/camel/defaults.yaml": {
			{"", "smoke", ""},
			{"", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"}, // the channel handles the error
			{"client-repeats", "smoke", "bounded-retries: over-retried"},
		},
		"frameworks/camel/manual-commit.yaml": {
			{"", "dlq-publish-failure", ""},
			{"new-exception-handled", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"committed-first", "consumer-kill", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/parallel-consumer/subject.yaml": {
			{"", "smoke", ""},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/confluent-kafka-javascript/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"resolved-before-await", "consumer-rolling-restart", "commit-after-outcome"},
			{"not-awaited", "transient-downstream", "commit-after-outcome"},
		},
		"frameworks/nestjs/operator.yaml": {
			{"", "dlq-publish-failure", ""},
			{"", "hostile-payloads", "dlq-fidelity: key-changed"}, // NestJS reads keys as text
			{"client-error-thrown", "dlq-publish-failure", "stays-up: gave-up"},
			{"not-returned", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"emit-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/nestjs/redelivery.yaml": {
			{"", seldom("consumer-kill"), ""},
			{"count-in-a-header", seldom("smoke"), "bounded-retries"},
		},
		"frameworks/moleculer/subject.yaml": {
			{"", "retry-topics", ""},
			{"refusal-logged", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"copy-not-awaited", "retry-topics", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/kafkajs-async-retry/subject.yaml": {
			{"", "dlq-refused-for-good", ""},
			{"as-documented", "dlq-refused-for-good", "stays-up: gave-up"},
		},
		"frameworks/kafkajs-async-retry/paused.yaml": {
			{"", "smoke", ""},
			{"as-documented", "smoke", "stays-up: gave-up"},
		},
		"frameworks/django-kafka/subject.yaml": {
			{"", "consumer-rolling-restart", ""},
			{"unconfirmed", "dlq-refused-for-good", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/django-kafka/retry-topics.yaml": {
			{"", "retry-topics", ""},
			{"unconfirmed", "dlq-refused-for-good", "commit-after-dlq: commit-without-dlq"},
			{"unconfirmed", "retry-topics", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/arroyo/subject.yaml": {
			{"", "smoke", "commit-after-dlq: commit-before-dlq"}, // librdkafka commits what is stored before the flush
			{"", "dlq-publish-failure", "no-loss: lost"},         // it drops what its client denies
			{"", "hostile-payloads", "dlq-fidelity: payload-changed"},
		},
		"frameworks/arroyo/manual-commit.yaml": {
			{"", "smoke", ""},
			{"", "dlq-publish-failure", ""},
			// its flush awaits the dead letters of one partition
			{"commits-once-per-second", "dlq-publish-failure", "commit-after-dlq: commit-before-dlq"},
		},
		"frameworks/platformatic/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"autocommit", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"stream-kept", "consumer-rolling-restart", "commit-after-outcome: commit-regressed"},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/dapr/subject.yaml":  {{"", "dlq-publish-failure", ""}},
		"frameworks/dapr/defaults.yaml": {{"", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"}},
		"frameworks/benthos/subject.yaml": {
			{"", seldom("dlq-publish-failure"), ""},
			{"nacks-not-replayed", seldom("dlq-publish-failure"), "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/faust/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"send-awaited-once", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"exception-raised", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/quixstreams/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"errors-suppressed", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/micronaut/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"handler-throws", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/rdkafka/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"stored-by-client", "consumer-kill", "commit-after-outcome: commit-past-unfinished"},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/confluent-kafka-go/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"stored-by-client", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
			{"committed-beside", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"reports-logged", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/confluent-kafka-dotnet/subject.yaml": {
			{"", "hostile-payloads", ""},
			{"stored-by-client", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
			{"report-logged", "dlq-publish-failure", "commit-after-dlq: commit-before-dlq"},
			{"not-awaited", "transient-downstream", "commit-after-outcome: commit-past-unfinished"},
			{"timeout-is-the-stop", "transient-downstream", "stays-up: gave-up"},
			{"read-as-text", "hostile-payloads", "dlq-fidelity: payload-changed"},
		},
		"frameworks/kafkaflow/subject.yaml": {
			{"", "stop-while-dlq-refuses", ""},
			{"refusal-thrown", "dlq-publish-failure", "no-loss: lost"},
			{"not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/masstransit/checkpoints.yaml": {
			{"", "dlq-publish-failure", ""},
			{"left-to-the-rider", "smoke", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/node-rdkafka/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"stored-by-client", "transient-downstream", "commit-after-outcome: commit-past-unfinished"},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/node-rdkafka/stream.yaml": {{"", "consumer-rolling-restart", ""}},
		"frameworks/kafka-ts/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"not-resolved", "dlq-publish-failure", "duplicates: duplicate"},
		},
		"frameworks/fs2-kafka/subject.yaml": {
			{"", "consumer-rolling-restart", ""},
			{"unordered", "smoke", "commit-after-outcome: commit-regressed"},
		},
		"frameworks/spring-integration/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"container-gives-up", "dlq-refused-for-good", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/spring-integration/subjects/error-handler.yaml": {{"", "dlq-publish-failure", ""}},
		"frameworks/hazelcast-jet/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"order-by-default", "smoke", "ordering: reordered"},
			{"auto-commit", "consumer-rolling-restart", "no-loss: lost"},
		},
		"frameworks/axon/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"error-propagated", "dlq-publish-failure", "commit-after-outcome: commit-past-unfinished"},
			{"logged-by-default", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"confirmation-by-default", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/eventuate-tram/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"consumer-by-default", "consumer-rolling-restart", "stays-up: crashed"},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/php-rdkafka/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"", "ragged-links", ""}, // it has a connection for each call
			{"auto-commit", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
			{"flush-is-delivery", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/karafka/subject.yaml": {
			{"", seldom("dlq-publish-failure"), ""},
			{"letter-not-awaited", seldom("dlq-publish-failure"), "commit-after-dlq"},
			{"retries-of-the-batch", inBatches("smoke"), "bounded-retries: under-retried"},
			{"batches-by-default", inBatches("smoke"), "bounded-retries: over-retried"},
		},
		"frameworks/ruby-kafka/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"letters-buffered", "smoke", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/broadway/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"failed-logged", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/otel-collector/subject.yaml": {
			{"", "consumer-rolling-restart", ""},
			{"marked-first", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
			{"queued", "transient-downstream", "commit-after-outcome: commit-past-unfinished"},
			{"refused-not-marked", "malformed-records", "no-loss: stalled"},
		},
		"frameworks/telegraf/subject.yaml": {
			{"", inBatches("transient-downstream"), ""},
			{"repeats-batch", inBatches("transient-downstream"), "duplicates"},
		},
		"frameworks/telegraf/subjects/batch.yaml": {
			{"", "transient-downstream", ""},
			{"buffer-overflows", "transient-downstream", "commit-after-outcome: commit-past-unfinished"},
			{"refused-dropped", "transient-downstream", "no-loss: lost"},
		},
		"frameworks/flink/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"async-io", "unreliable-downstream", "commit-after-outcome: commit-past-unfinished"},
			{"no-guarantee", "dlq-publish-failure", "commit-after-dlq"},
		},
		"frameworks/spark/subject.yaml": {{"", "smoke", ""}},
		"frameworks/bytewax/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"", "consumer-kill", ""},
			{"own-sink", "dlq-publish-failure", "no-loss: stalled"},
		},
		"frameworks/fastapi/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"error-logged", "dlq-publish-failure", "no-loss: lost"},
		},
		"frameworks/fastapi/subjects/patient.yaml": {
			{"", "../" + longOutage, ""},
			{"timeout-not-caught", "../" + fewTimeOut, "no-loss: stalled"},
		},
		"frameworks/vertx/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"auto-commit", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
			{"circuit-opens", aloneInOutage, "classification: premature-dead-letter"},
			{"not-paused", "smoke", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/pekko/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"letters-unordered", "dlq-publish-failure", "commit-after-dlq"},
			{"resumes-at-failure", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/reactor-kafka/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"flat-map", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"letter-error-resumed", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/helidon/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"listener", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"acked-before-letter", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"auto-commit", "consumer-rolling-restart", "commit-after-outcome: commit-past-unfinished"},
		},
		"frameworks/go-cdk/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"deferred-ack", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
			{"metadata-copied", "hostile-payloads", "no-loss: stalled"},
			{"opened-by-url", "dlq-leader-loss", "no-loss: dropped-by-ack"},
		},
		"frameworks/cloudevents/subject.yaml": {
			{"", "dlq-publish-failure", ""},
			{"as-documented", "smoke", "commit-after-outcome: commit-past-unfinished"},
			{"nack-for-redelivery", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/cloudevents/bridge.yaml": {
			{"", "dlq-publish-failure", ""},
			{"message-forwarded", "dlq-publish-failure", "commit-after-dlq: commit-without-dlq"},
		},
		"frameworks/kombu/subject.yaml": {
			{"", "smoke", "commit-after-outcome: commit-past-unfinished"}, // ack commits what is polled meanwhile
		},
		"frameworks/kombu/manual-commit.yaml": {
			{"", seldom("dlq-publish-failure"), ""},
			{"no-report", seldom("dlq-publish-failure"), "commit-after-dlq: commit-without-dlq"},
		},
		"postgres/go/subject.yaml": {
			{"offset-before-commit", "consumer-kill", "commit-after-outcome: commit-past-unfinished"},
		},
		"postgres/python/subject.yaml": {
			{"", "produced-twice", ""},
			{"key-with-offset", "produced-twice", "effects: effect-doubled"},
		},
		"postgres/python/subjects/executemany.yaml": {{"refused-ignored", "smoke", "no-loss: lost"}},
		"postgres/python/subjects/savepoints.yaml":  {{"failures-ignored", "smoke", "no-loss: lost"}},
		"postgres/go/subjects/batch.yaml":           {{"error-ignored", "smoke", "no-loss: lost"}},
		"postgres/go/several.yaml": {
			{"", "shop-outage", ""},
			{"error-ignored", "shop-outage", "no-loss: lost"},
			{"result-ignored", "results-refused", "no-loss: lost"},
			{"rows-before-payment", "smoke", "effects: effect-partial"},
			{"client-retries-more", "smoke", "backoff: backoff-early"},
		},
	}
}

// A stranger with a bug is accused, in the shipped scenarios and on the client's own schedule, and one without is not.
// The bugs are those that users of each client make most often. Two run at a time, as they mostly wait.
func TestBugsOfAStrangerAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("builds consumers on four clients and runs them for minutes")
	}
	program := must.Get(programtest.Build())(t)
	config := &Config{Executable: program, Dir: t.TempDir(), Log: zerolog.Nop()}
	for stranger, bugs := range strangersBugs() {
		t.Run(stranger, func(t *testing.T) {
			file := filepath.Join("..", "..", "test", "strangers", filepath.FromSlash(stranger))
			subject := builtStranger(t, file)
			for _, bug := range bugs {
				t.Run(cmp.Or(bug.name, "as-it-is")+"-in-"+path.Base(strings.Fields(bug.scenario)[0]), func(t *testing.T) {
					t.Parallel()
					bug.expect(t, config, subject, file)
				})
			}
		})
	}
}

// builtStranger returns a built stranger, or skips the test if this machine cannot build it.
func builtStranger(t *testing.T, file string) *scenarios.SubjectFile {
	subject := must.Get(scenarios.LoadSubject(file))(t)
	var absent absentError
	if err := buildIn(t.Context(), filepath.Join(filepath.Dir(file), subject.Dir), subject.Build); errors.As(err,
		&absent) {
		t.Skip(absent)
	} else if err != nil {
		t.Fatal(err)
	}
	subject.Build = nil
	return subject
}

// expect runs the stranger with the bug and expects the invariant to be violated.
func (p plantedInStranger) expect(t *testing.T, config *Config, subject *scenarios.SubjectFile, file string) {
	planted := *subject
	planted.Env = maps.Clone(subject.Env)
	planted.Env["PLANTED_BUG"] = p.name
	words := strings.Fields(p.scenario)
	name := words[0]
	text, shipped := scenarios.Shipped(name)
	if !shipped {
		var err error
		name = p.name
		if text, err = os.ReadFile(filepath.Join(filepath.Dir(file), "..", words[0]+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	own := *config
	own.Dir = t.TempDir() // another bug is run in the same scenario
	outcome, err := own.run(context.Background(), trial{
		name: name, scenario: text, seed: 1, sets: append(words[1:], strangerSlip), subject: &planted, subjectFile: file,
		rerun: "seed %d",
	})
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.compare(t, outcome.Verdict)
}

// compare reports a verdict that is not the wanted one.
func (p plantedInStranger) compare(t *testing.T, v *assertions.Verdict) {
	invariant, anomaly, _ := strings.Cut(p.want, ": ")
	expected, as := assertions.Fail, slices.ContainsFunc(v.Invariants, func(r assertions.Result) bool {
		return r.Name == invariant && r.Status == assertions.Fail && (anomaly == "" ||
			slices.ContainsFunc(r.Anomalies, func(a assertions.Anomaly) bool { return a.Name == anomaly }))
	})
	if text, open := strings.CutPrefix(p.want, inconclusive); open {
		expected = assertions.Inconclusive
		as = slices.ContainsFunc(v.Reasons, func(reason string) bool { return strings.Contains(reason, text) })
	} else if p.want == "" {
		expected, as = assertions.Pass, true
	}
	if v.Verdict != expected || !as {
		t.Errorf("%s: %s with %v, want %s", p.scenario, v.Verdict, v.Reasons, cmp.Or(p.want, "a pass"))
	}
}
