package planted

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store/worker"
)

// Bug is one planted bug.
type Bug struct {
	// Name is the name in the list of `dlqbench demo --all`, and the argument of the subcommands of `dlqbench bug`.
	Name string
	// What describes the bug in one sentence.
	What string
	// Anomaly must be reported for the bug (others may be, too), and Invariant must report it. Two invariants share the
	// names of some anomalies.
	Anomaly, Invariant string
	// Scenario is the scenario in internal/verify/testdata in which the bug shows.
	Scenario string
	// Consumer plants the bug in a consumer, Replay in a replay, Router and Worker in those of the dead-letter store at
	// the address. Exactly one is set.
	Consumer func(*consumer.Config, *consumer.Parts)
	Replay   func(*deadletter.Config)
	Router   func(*worker.RouterConfig)
	Worker   func(address string, config *worker.Config)
	// Keeper holds additional flags for dlqbench dlq retain.
	Keeper map[string]string
}

// Kind is the component that has the bug, as the subcommand of `dlqbench bug`: consume, replay, router, worker or
// keeper.
func (b Bug) Kind() string {
	switch {
	case b.Consumer != nil:
		return "consume"
	case b.Replay != nil:
		return "replay"
	case b.Router != nil:
		return "router"
	}
	if b.Worker != nil {
		return "worker"
	}
	return "keeper"
}

// All returns every planted bug, consumers first.
func All() []Bug {
	return slices.Concat(consumers(), replays(), graphReplays(), sharedDeadLetterReplays(), stores())
}

// Named returns the planted bug with this name. "none" is the control: the unchanged reference consumer and replay.
func Named(name string) (Bug, error) {
	if name == "none" {
		return Bug{
			Name: "none", What: "nothing is wrong: the control",
			Consumer: func(*consumer.Config, *consumer.Parts) {}, Replay: func(*deadletter.Config) {},
			Router: func(*worker.RouterConfig) {}, Worker: func(string, *worker.Config) {}, Keeper: map[string]string{},
		}, nil
	}
	names := []string{"none"}
	for _, bug := range All() {
		if bug.Name == name {
			return bug, nil
		}
		names = append(names, bug.Name)
	}
	return Bug{}, fmt.Errorf("%q is not a planted bug: known are %s", name, strings.Join(names, ", "))
}

func consumers() []Bug {
	return slices.Concat(commitBugs(), retryBugs(), deadLetterBugs(), stopBugs(), lifeBugs(), libraryBugs(),
		groupBugs(), topicBugs(), shareBugs(), graphBugs(), sharedDeadLetterBugs())
}

func commitBugs() []Bug {
	return []Bug{
		{
			Name: "commit-before-dlq-ack", What: "a record counts as finished when its dead letter is handed to the producer; " +
				"the acknowledgement is awaited in the background",
			Anomaly: "commit-before-dlq", Invariant: "commit-after-dlq", Scenario: "dlq-slow",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = eagerParker{} },
		},
		{
			Name: "ignore-dlq-error", What: "a dead letter that was refused counts as published",
			Anomaly: "commit-without-dlq", Invariant: "commit-after-dlq", Scenario: "dlq-down",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = deafParker{} },
		},
		{
			Name:    "ignore-dlq-error-of-garbage",
			What:    "a value that is not text is committed even if its dead letter was refused",
			Anomaly: "commit-without-dlq", Invariant: "commit-after-dlq", Scenario: "refused-garbage",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = textParker{} },
		},
		{
			Name:    "commit-advanced-while-dlq-down",
			What:    "a dead letter that was refused three times is given up, and its record committed",
			Anomaly: "commit-advanced-while-dlq-down", Invariant: "halt-on-dlq-failure", Scenario: "dlq-down",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = newImpatientParker() },
		},
		{
			Name: "not-surfaced", What: "a DLQ that refuses writes is mentioned nowhere",
			Anomaly: "failure-not-surfaced", Invariant: "halt-on-dlq-failure", Scenario: "dlq-down",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Surface = silent },
		},
		{
			Name: "commit-past-unfinished", What: "one past the highest finished record is committed, whatever lies below it",
			Anomaly: "commit-past-unfinished", Invariant: "commit-after-outcome", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.NewTracker = func() consumer.Tracker { return &highestTracker{} }
			},
		},
		{
			Name: "commit-regressed", What: "every third commit goes back by ten records",
			Anomaly: "commit-regressed", Invariant: "commit-after-outcome", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Committer = &backwardsCommitter{Committer: parts.Committer, last: map[consumer.TopicPartition]int64{}}
			},
		},
	}
}

func retryBugs() []Bug {
	return []Bug{
		bounded("one-retry-too-many", "a record is tried once more than promised", "bounded-retries", "over-retried", "mix",
			func(policy *consumer.Bounded) { policy.MaxAttempts++ }),
		bounded("one-retry-too-few", "a record is tried once less than promised", "bounded-retries", "under-retried", "mix",
			func(policy *consumer.Bounded) { policy.MaxAttempts-- }),
		policied("backoff-early", "a record is tried again after half the promised wait", "backoff", "backoff-early", "mix",
			func(policy consumer.Policy) consumer.Policy { return halfPolicy{policy} }),
		bounded("backoff-not-growing", "the wait is the first one every time", "backoff", "backoff-not-growing", "mix",
			func(policy *consumer.Bounded) { policy.Backoff.Exponential = false }),
		bounded("cap-ignored", "the wait doubles beyond its cap", "backoff", "cap-exceeded", "mix",
			func(policy *consumer.Bounded) { policy.Backoff.Cap = 0 }),
		bounded("no-jitter", "the promised jitter is not added", "backoff", "no-jitter", "jitter",
			func(policy *consumer.Bounded) { policy.Backoff.Jitter = 0 }),
		policied("retry-after-ignored", "a rate-limited record is tried again without regard to Retry-After", "backoff",
			"backoff-early", "mix", func(policy consumer.Policy) consumer.Policy { return impolitePolicy{policy} }),
		policied("retry-permanent", "permanent failures are retried", "classification", "permanent-retried", "mix",
			func(policy consumer.Policy) consumer.Policy { return stubbornPolicy{policy} }),
		policied("dead-letter-logical", "logical failures are dead-lettered", "classification",
			"logical-dead-lettered", "mix", func(policy consumer.Policy) consumer.Policy { return strictPolicy{policy} }),
		policied("success-dead-lettered", "one success in fifty is dead-lettered, too", "classification",
			"dual-terminal", "mix", func(policy consumer.Policy) consumer.Policy { return gloomyPolicy{policy} }),
		{
			Name: "reorder-in-key", What: "records of one key don't wait for each other", Anomaly: "reordered",
			Invariant: "ordering", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Lane = consumer.LaneFor(consumer.OrderingNone) },
		},
		{
			Name: "duplicate", What: "one success in twenty is processed again", Anomaly: "duplicate", Invariant: "duplicates",
			Scenario: "mix",
			Consumer: func(config *consumer.Config, _ *consumer.Parts) { config.Handler = twice(config.Handler) },
		},
	}
}

func deadLetterBugs() []Bug {
	return []Bug{
		sealed("payload-altered", "the value of a dead letter gets one byte more", "payload-changed", addByte),
		sealed("key-altered", "the key of a dead letter gets one byte more", "key-changed", addKeyByte),
		sealed("header-dropped", "one of the original headers is left out of the dead letter", "headers-lost", dropHeader),
		sealed("metadata-missing", "the dead letter doesn't say how often the record was tried", "metadata-missing",
			dropAttempts),
		oddly("header-as-text", "a header's value is decoded as UTF-8 and encoded again", "headers-lost", asText),
		oddly("null-header-emptied", "a header with a null value gets an empty one", "headers-lost", emptied),
		oddly("empty-header-nulled", "a header with an empty value gets a null one", "headers-lost", nulled),
		oddly("repeated-header-kept-once", "of two headers of one name the first is left out, as a map leaves it out",
			"headers-lost", keptOnce),
		oddly("own-name-overwritten",
			"a header of the record's own that has the name of one of the envelope's is overwritten", "headers-lost",
			overwritten),
		oddly("key-as-text", "the key is decoded as UTF-8 and encoded again", "key-changed", func(letter *kgo.Record) {
			letter.Key = utf8Of(letter.Key)
		}),
		sealed("envelope-twice", "the envelope's headers are put into the dead letter twice", "metadata-wrong", twiceSealed),
		sealedBy("reason-of-another", "a dead letter has the error text of the one before it", "mix",
			func(next deadletter.Sealer) deadletter.Sealer {
				return &lastReason{Sealer: next}
			}),
		sealedBy("epoch-made-up", "a dead letter names a leader epoch that its partition never had", "mix",
			func(next deadletter.Sealer) deadletter.Sealer {
				return failing{next, func(failure *deadletter.Failure) { failure.Epoch += 1000 }}
			}),
		sealedBy("time-in-the-future", "the time of the failure is in local time and called UTC", "timed",
			func(next deadletter.Sealer) deadletter.Sealer {
				return failing{next, func(failure *deadletter.Failure) { failure.Time = failure.Time.Add(9 * time.Hour) }}
			}),
		sealedBy("time-of-1970", "the time of the failure is the beginning of 1970", "timed",
			func(next deadletter.Sealer) deadletter.Sealer {
				return failing{next, func(failure *deadletter.Failure) { failure.Time = time.UnixMilli(1) }}
			}),
		{
			Name: "metadata-wrong", What: "the dead letter names the offset after the record's", Anomaly: "metadata-wrong",
			Invariant: "dlq-fidelity", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Sealer = offByOne{parts.Sealer} },
		},
		{
			Name: "dlq-twice", What: "every dead letter is produced twice", Anomaly: "dlq-duplicate", Invariant: "dlq-once",
			Scenario: "mix", Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = doubleParker{} },
		},
	}
}

func stopBugs() []Bug {
	return []Bug{
		{
			Name: "drop-on-term", What: "what is in backoff at TERM counts as finished", Anomaly: "lost",
			Invariant: "graceful-stop", Scenario: "restart",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.AtStop = always(consumer.Finish) },
		},
		{
			Name: "dead-letter-on-term", What: "what is in backoff at TERM is dead-lettered", Anomaly: "premature-dead-letter",
			Invariant: "graceful-stop", Scenario: "restart",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.AtStop = always(consumer.DeadLetter) },
		},
		{
			Name:    "refused-is-done-at-term",
			What:    "a dead letter that is refused is written again until TERM, and then counts as published",
			Anomaly: "commit-without-dlq", Invariant: "commit-after-dlq", Scenario: "refused-stop",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				told := make(chan struct{})
				atTerm(func() { close(told) })(nil, nil)
				parts.Parker = partingParker{told}
			},
		},
	}
}

func replays() []Bug {
	published := func(name, what, anomaly string,
		wrap func(*deadletter.Config) func(deadletter.Publisher) deadletter.Publisher) Bug {
		return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: "replay-round-trip", Scenario: "replay",
			Replay: func(config *deadletter.Config) {
				config.Publish = wrap(config)
			}}
	}
	return []Bug{
		published("replays-twice", "every dead letter is replayed twice", "replay-duplicated", doublePublisher),
		published("replay-wrong-topic", "dead letters go back to the dead-letter topic", "replay-wrong-topic", lostPublisher),
		published("replay-drops", "one dead letter in ten is not replayed", "replay-lost", droppingPublisher),
		published("replay-alters", "the value of a replayed record gets one byte more", "replay-altered", alteringPublisher),
		{
			Name: "replay-keeps-failure-headers", What: "replayed records still carry the failure headers",
			Anomaly: "replay-altered", Invariant: "replay-round-trip", Scenario: "replay",
			Replay: func(config *deadletter.Config) { config.Dialect = clinging{deadletter.Plain{}} },
		},
		{
			Name: "replay-ignores-filter", What: "every dead letter is replayed, selected or not", Anomaly: "selected-wrong",
			Invariant: "replay-round-trip", Scenario: "replay",
			Replay: func(config *deadletter.Config) { config.Where, config.Select = "", nil },
		},
	}
}
