package planted

// This file has bugs in how a consumer's process runs and ends.

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/consumer"
)

func lifeBugs() []Bug {
	lives := func(name, what, anomaly, scenario string, plant func(*consumer.Config, *consumer.Parts)) Bug {
		return Bug{Name: name, What: what, Invariant: "stays-up", Anomaly: anomaly, Scenario: scenario, Consumer: plant}
	}
	return slices.Concat(refusalBugs(lives), droppingBugs(), []Bug{
		lives("panics-at-garbage", "a value that is not text is an exception that nobody catches", "crashed", "lives",
			looked(func(_ int64, record *kgo.Record) {
				if !utf8.Valid(record.Value) {
					panic("decoding the record: invalid character")
				}
			})),
		lives("panics-after-a-while", "the two-hundredth record that a process takes in makes it panic", "crashed", "lives",
			looked(func(n int64, _ *kgo.Record) {
				if n == 200 {
					panic("assignment to entry in nil map")
				}
			})),
		lives("ends-after-a-while",
			"the loop returns after the two-hundredth record, and the program ends as if it had been told to", "crashed",
			"lives", looked(func(n int64, _ *kgo.Record) {
				if n == 200 {
					os.Exit(0)
				}
			})),
		lives("ends-with-an-error-at-term", "TERM ends the process with code 1", "unclean-exit", "lives", atTerm(func() {
			os.Exit(1)
		})),
		lives("panics-at-term", "what was stopped is closed a second time", "unclean-exit", "lives", atTerm(func() {
			stopped := make(chan struct{})
			close(stopped)
			close(stopped)
		})),
		lives("ignores-the-signal", "TERM is left to its default action", "unclean-exit", "lives",
			func(*consumer.Config, *consumer.Parts) {
				signal.Reset(syscall.SIGTERM)
			}),
		lives("leaves-for-good", "after a while the subscription ends, and the program waits for records that never come",
			"gave-up", "stuck", func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Committer = &partingCommitter{Committer: parts.Committer}
			}),
		lives("falls-silent",
			"after a while the client's metrics hook never returns: heartbeats and commits wait behind it, and the session ends",
			"gave-up", "stuck", func(config *consumer.Config, _ *consumer.Parts) {
				config.Options = append(config.Options, kgo.WithHooks(&stuckHook{}))
			}),
	})
}

// droppingBugs lose records that can't be read.
func droppingBugs() []Bug {
	return []Bug{
		{
			Name: "garbage-dropped", What: "a value that is not text is committed, and nothing else", Invariant: "no-loss",
			Anomaly: "lost", Scenario: "lives", Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				next := config.Handler
				config.Handler = func(ctx context.Context, record *kgo.Record) error {
					if !utf8.Valid(record.Value) {
						return nil
					}
					return next(ctx, record)
				}
			},
		},
		{
			Name: "unknown-dropped", What: "a record that the downstream does not know (404) is logged and committed",
			Invariant: "no-loss", Anomaly: "lost", Scenario: "lives",
			Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				next := config.Handler
				config.Handler = func(ctx context.Context, record *kgo.Record) error {
					err := next(ctx, record)
					var failure *consumer.Error
					if errors.As(err, &failure) && failure.Code == "404" {
						return nil
					}
					return err
				}
			},
		},
	}
}

// refusalBugs are bugs that deviate from the promised reaction to a refused dead letter.
func refusalBugs(lives func(name, what, anomaly, scenario string,
	plant func(*consumer.Config, *consumer.Parts)) Bug) []Bug {
	unkept := func(name, what, anomaly, scenario string, plant func(*consumer.Config, *consumer.Parts)) Bug {
		return Bug{Name: name, What: what, Invariant: "halt-on-dlq-failure", Anomaly: anomaly, Scenario: scenario,
			Consumer: plant}
	}
	ends := func(code int) func(*consumer.Config, *consumer.Parts) {
		return func(_ *consumer.Config, parts *consumer.Parts) {
			report := parts.Surface
			parts.Surface = func(log zerolog.Logger, trouble consumer.Trouble) {
				report(log, trouble)
				if trouble.State == consumer.Refused {
					os.Exit(code)
				}
			}
		}
	}
	return []Bug{
		lives("crashes-where-it-promised-to-halt", "a dead letter that is refused ends the process, which promised to halt",
			"crashed", "dlq-down", ends(1)),
		lives("crashes-where-it-promised-to-retry",
			"a dead letter that is refused ends the process, which promised to try on", "crashed", "refused-retry", ends(1)),
		unkept("halts-where-it-promised-to-retry",
			"a dead letter that was refused once is written again by nobody; the contract promises to try on",
			"stopped-trying", "refused-retry", func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Parker = &haltingParker{Parker: parts.Parker}
			}),
		unkept("retries-where-it-promised-to-crash",
			"a dead letter that is refused is tried again and again; the contract promises that the process ends",
			"did-not-crash", "refused-crash", func(config *consumer.Config, _ *consumer.Parts) {
				config.Settings.DLQOnFailure = consumer.FailureRetry
			}),
		unkept("ends-as-if-all-were-well",
			"a dead letter that is refused ends the process with code 0; the contract promises an error",
			"did-not-crash", "refused-crash", ends(0)),
	}
}

// haltingParker publishes nothing after a dead letter was refused.
type haltingParker struct {
	consumer.Parker
	halted atomic.Bool
}

func (p *haltingParker) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	if p.halted.Load() {
		return
	}
	p.Parker.Park(ctx, publisher, letter, func(err error) {
		if err != nil {
			p.halted.Store(true)
		}
		done(err)
	})
}

// looked calls look for each record when it is received, before anything handles panics. n counts the process's records
// from 1.
func looked(look func(n int64, record *kgo.Record)) func(*consumer.Config, *consumer.Parts) {
	return func(_ *consumer.Config, parts *consumer.Parts) {
		taken, next := int64(0), parts.Lane
		parts.Lane = func(record *kgo.Record) (uint64, bool) {
			taken++
			look(taken, record)
			return next(record)
		}
	}
}

// atTerm does something as soon as SIGTERM arrives.
func atTerm(do func()) func(*consumer.Config, *consumer.Parts) {
	return func(*consumer.Config, *consumer.Parts) {
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		go func() {
			<-told
			do()
		}()
	}
}

// stuckHook does not return from the eighth commit on.
type stuckHook struct{ commits atomic.Int32 }

func (h *stuckHook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if commit := kmsg.NewOffsetCommitRequest(); key == commit.Key() && h.commits.Add(1) >= 8 {
		select {}
	}
}

// partingCommitter leaves the group after a few commits.
type partingCommitter struct {
	consumer.Committer
	commits int
}

func (c *partingCommitter) Commit(ctx context.Context, client *kgo.Client, own marks) failures {
	failed := c.Committer.Commit(ctx, client, own)
	if c.commits++; c.commits == 8 {
		go client.LeaveGroup()
	}
	return failed
}
