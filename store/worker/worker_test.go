package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/store"
)

// fakeStore keeps entries in memory, so that hours pass in a bubble of fake time. The real stores are tested in their
// own packages. fault, if set, is called before (and, as "after OP", after) each operation.
type fakeStore struct {
	mu      sync.Mutex
	entries []*store.Entry
	fault   func(operation string) error
	asked   map[string]int
	settled []string
}

func (f *fakeStore) operation(name string) (func(*error), error) {
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[name]++
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(name); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	return func(err *error) {
		f.mu.Unlock()
		if fault != nil && *err == nil {
			*err = fault("after " + name)
		}
	}, nil
}

func (f *fakeStore) Claim(_ context.Context, worker string, lease time.Duration,
	limit int) (claimed []store.Entry, err error) {
	end, err := f.operation("claim")
	if err != nil {
		return nil, err
	}
	defer end(&err)
	for _, entry := range f.entries {
		if len(claimed) < limit && entry.State == store.Pending && !entry.NextRetryAt.IsZero() &&
			!entry.NextRetryAt.After(time.Now()) {
			entry.State, entry.LockedBy, entry.LeaseUntil = store.Processing, worker, time.Now().Add(lease)
			entry.Version++
			claimed = append(claimed, *entry)
		}
	}
	return claimed, nil
}

func (f *fakeStore) locked(lock store.Lock) (*store.Entry, error) {
	for _, entry := range f.entries {
		if entry.ID == lock.ID && entry.LockedBy == lock.Worker && entry.Version == lock.Version &&
			entry.State == store.Processing {
			return entry, nil
		}
	}
	return nil, store.ErrLockLost
}

func (f *fakeStore) Renew(_ context.Context, lock store.Lock, lease time.Duration) (err error) {
	end, err := f.operation("renew")
	if err != nil {
		return err
	}
	defer end(&err)
	entry, err := f.locked(lock)
	if err == nil {
		entry.LeaseUntil = time.Now().Add(lease)
	}
	return err
}

func (f *fakeStore) Settle(_ context.Context, lock store.Lock, change store.Change) (err error) {
	end, err := f.operation("settle")
	if err != nil {
		return err
	}
	defer end(&err)
	entry, err := f.locked(lock)
	if err != nil {
		return err
	}
	entry.Version++
	entry.State, entry.Strategy, entry.LockedBy, entry.NextRetryAt = change.State, change.Strategy, "", change.RetryAt
	if change.RetryIn > 0 {
		entry.NextRetryAt = time.Now().Add(change.RetryIn)
	}
	if change.Retried {
		entry.DLQRetryCount++
	}
	if change.Attempt != nil {
		entry.RetryHistory = append(entry.RetryHistory, *change.Attempt)
	}
	f.settled = append(f.settled, entry.ID+":"+string(change.State))
	return nil
}

func (f *fakeStore) Recover(context.Context) (recovered int, err error) {
	end, err := f.operation("recover")
	if err != nil {
		return 0, err
	}
	defer end(&err)
	for _, entry := range f.entries {
		if entry.State == store.Processing && !entry.LeaseUntil.After(time.Now()) {
			entry.State, entry.LockedBy, entry.NextRetryAt = store.Pending, "", time.Now()
			entry.Version++
			recovered++
		}
	}
	return recovered, nil
}

func (f *fakeStore) Get(_ context.Context, id string) (found store.Entry, err error) {
	end, err := f.operation("get")
	if err != nil {
		return found, err
	}
	defer end(&err)
	for _, entry := range f.entries {
		if entry.ID == id {
			return *entry, nil
		}
	}
	return found, store.ErrNotFound
}

func (f *fakeStore) Now(context.Context) (at time.Time, err error) {
	end, err := f.operation("now")
	if err != nil {
		return at, err
	}
	defer end(&err)
	return time.Now(), nil
}

func (f *fakeStore) count(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[operation]
}

func (f *fakeStore) setFault(fault func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fakeStore) states() map[store.State]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := map[store.State]int{}
	for _, entry := range f.entries {
		states[entry.State]++
	}
	return states
}

// fakeEntries returns a store with entries that are due after the given times.
func fakeEntries(strategy store.Strategy, due ...time.Duration) *fakeStore {
	f := &fakeStore{}
	for i, in := range due {
		f.entries = append(f.entries, &store.Entry{ID: fmt.Sprintf("e%d", i), Version: 1, State: store.Pending,
			Strategy: strategy, NextRetryAt: time.Now().Add(in)})
	}
	return f
}

// retrierFunc is a Retrier.
type retrierFunc func(ctx context.Context, entry store.Entry) error

func (r retrierFunc) Retry(ctx context.Context, entry store.Entry) error { return r(ctx, entry) }

// oneWorker runs a pool of one worker in the bubble. stop ends it.
func oneWorker(t *testing.T, there Store, retry retrierFunc, change func(*Config)) (log *kafkatest.Log, stop func()) {
	t.Helper()
	log = &kafkatest.Log{}
	config := Config{Store: there, Retrier: retry, Strategies: DefaultStrategies(), Settings: DefaultSettings(),
		Logger: zerolog.New(log), Name: "w"}
	config.Settings.Workers = 1
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, config) }()
	return log, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestImmediateRetriesComeAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		born := time.Now()
		there := fakeEntries(store.Immediate, time.Minute)
		var tried []time.Duration
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tried = append(tried, time.Since(born))
			return errors.New("down")
		}, nil)
		time.Sleep(4 * time.Hour)
		stop()
		if states := there.states(); states[store.Failed] != 1 || len(tried) != MaxRetries {
			t.Fatalf("states %v after retries at %v", states, tried)
		}
		due := time.Duration(0)
		for i, wait := range Backoff() {
			due += wait
			if late := tried[i] - due; late < 0 || late > 30*time.Second {
				t.Errorf("retry %d came at %s, due at %s", i+1, tried[i], due)
			}
			due = tried[i]
		}
	})
}

func TestWholeBatchesAreFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, make([]time.Duration, 25)...)
		began := time.Now()
		last := began
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			last = time.Now()
			return nil
		}, func(c *Config) { c.Settings.Concurrency = 1 })
		time.Sleep(10 * time.Minute)
		stop()
		if there.states()[store.Resolved] != 25 || last != began {
			t.Errorf("%v, the last after %s", there.states(), last.Sub(began))
		}
		// The first poll claims 3 batches, then there is one poll every 30 s.
		if looks := there.count("claim"); looks < 20 || looks > 24 {
			t.Errorf("%d looks in ten minutes", looks)
		}
	})
}

func TestLongRetriesKeepTheirLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0, 0)
		var tries atomic.Int32
		log, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			tries.Add(1)
			return sleep(ctx, 22*time.Minute) // more than four leases
		}, func(c *Config) { c.Settings.Workers = 3 })
		time.Sleep(time.Hour)
		stop()
		if tries.Load() != 2 || there.states()[store.Resolved] != 2 || log.Has("recovered") {
			t.Errorf("%d tries, %v\n%s", tries.Load(), there.states(), log)
		}
	})
}

func TestLocksOfDeadWorkersAreRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		_, _ = there.Claim(t.Context(), "dead", 5*time.Minute, 1)
		began := time.Now()
		var tried time.Duration
		log, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tried = time.Since(began)
			return nil
		}, nil)
		time.Sleep(20 * time.Minute)
		stop()
		if there.states()[store.Resolved] != 1 || tried < 5*time.Minute || tried > 6*time.Minute ||
			!log.Has("are recovered") {
			t.Errorf("tried after %s: %v\n%s", tried, there.states(), log)
		}
		if there.entries[0].DLQRetryCount != 1 {
			t.Errorf("%d retries are counted", there.entries[0].DLQRetryCount)
		}
	})
}

// A worker whose renewals fail does not begin further entries, because another worker may have them.
func TestWhatMayBeSomebodyElsesIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0, 0, 0)
		there.setFault(func(operation string) error {
			if operation == "renew" || operation == "recover" && there.count("claim") > 0 {
				return errors.New("connection reset")
			}
			return nil
		})
		tries := 0
		log, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			tries++
			return sleep(ctx, 6*time.Minute)
		}, func(c *Config) { c.Settings.Concurrency = 1 })
		time.Sleep(time.Hour)
		stop()
		if tries != 1 || there.states()[store.Resolved] != 1 || there.states()[store.Processing] != 2 ||
			!log.Has("the lock's lease was over before the retry began") {
			t.Errorf("%d tries, %v\n%s", tries, there.states(), log)
		}
	})
}

// A lease counts from before the request to the store, because the answer may be late.
func TestALeaseIsNotCountedFromALateAnswer(t *testing.T) {
	for operation, first := range map[string]time.Duration{"claim": 7 * time.Second, "renew": 17 * time.Second} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := fakeEntries(store.Immediate, 0, 0)
				slow := 1 // answers before the slow one: that of the second entry's renewal
				if operation == "renew" {
					slow = 2
				}
				there.setFault(func(asked string) error {
					switch {
					case asked == "after "+operation && slow > 0:
						if slow--; slow == 0 {
							time.Sleep(4 * time.Second)
						}
					case asked == "renew" && (operation == "claim" || slow == 0), asked == "recover" && there.count("claim") > 0:
						return errors.New("connection reset")
					}
					return nil
				})
				tries := 0
				log, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
					tries++
					return sleep(ctx, first)
				}, func(c *Config) {
					c.Settings.Concurrency, c.Settings.Lease = 1, map[string]time.Duration{"claim": 10 * time.Second,
						"renew": 12 * time.Second}[operation]
				})
				time.Sleep(time.Hour)
				stop()
				if tries != 1 || !log.Has("the lock's lease was over before the retry began") {
					t.Errorf("%d tries\n%s", tries, log)
				}
			})
		})
	}
}

func TestALockLostWhileItIsTriedIsSurfaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		ended := false
		log, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			there.mu.Lock()
			there.entries[0].Version++ // another worker has had it
			there.entries[0].State, there.entries[0].NextRetryAt = store.Pending, time.Time{}
			there.mu.Unlock()
			ended = sleep(ctx, time.Hour) != nil
			return nil
		}, nil)
		time.Sleep(2 * time.Hour)
		stop()
		if !ended {
			t.Error("the retry goes on although the lock is lost")
		}
		if len(there.settled) != 0 || !log.Has(`"level":"error"`) || !log.Has("the retry succeeded, but its result could "+
			"not be written") {
			t.Errorf("settled %v\n%s", there.settled, log)
		}
	})
}

func TestAStoreThatIsDownIsAskedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0, 0, 0)
		there.setFault(func(string) error { return errors.New("connection refused") })
		log, stop := oneWorker(t, there, func(context.Context, store.Entry) error { return nil }, nil)
		time.Sleep(10 * time.Minute)
		if asked := there.count("recover"); asked < 100 || asked > 130 {
			t.Errorf("asked %d times in ten minutes", asked)
		}
		if !log.Has(`"level":"error","error":"recovering the locks of dead workers: connection refused"`) ||
			log.Has("ready") {
			t.Errorf("the log says:\n%s", log)
		}
		there.setFault(nil)
		time.Sleep(6 * time.Second)
		if there.states()[store.Resolved] != 3 || !log.Has(`"state":"recovered"`) || !log.Has(`"state":"ready"`) {
			t.Errorf("%v\n%s", there.states(), log)
		}
		stop()
	})
}

// The store becomes unavailable after the retry. The result is stored when the store is back, without another retry.
func TestResultsWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		tries := 0
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tries++
			there.setFault(func(string) error { return errors.New("connection reset") })
			return nil
		}, nil)
		time.Sleep(12 * time.Minute) // longer than the lease
		there.setFault(nil)
		time.Sleep(time.Minute)
		stop()
		if tries != 1 || there.states()[store.Resolved] != 1 {
			t.Errorf("%d tries, %v", tries, there.states())
		}
	})
}

func TestAnAnswerThatGotLostIsNoLostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, result := range []error{nil, errors.New("down")} {
			there := fakeEntries(store.Immediate, 0)
			lost := false
			there.setFault(func(operation string) error {
				if operation == "after settle" && !lost {
					lost = true
					return errors.New("connection reset")
				}
				return nil
			})
			log, stop := oneWorker(t, there, func(context.Context, store.Entry) error { return result }, nil)
			time.Sleep(2 * time.Minute)
			stop()
			if len(there.settled) != 1 || log.Has("could not be written") {
				t.Errorf("settled %v\n%s", there.settled, log)
			}
		}
	})
}

// observed counts the calls of an Observer.
type observed struct{ settled int }

func (o *observed) Ingested([]store.Entry, int) {}

func (o *observed) Settled(store.Entry, store.Change) { o.settled++ }

// Settled entries need no heartbeats.
func TestOnlyWhatIsHeldIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0, 0)
		waits := []time.Duration{0, 9 * time.Minute}
		_, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			wait := waits[0]
			waits = waits[1:]
			return sleep(ctx, wait)
		}, func(c *Config) { c.Settings.Concurrency = 1 })
		time.Sleep(20 * time.Minute)
		stop()
		// every 100 s for nine minutes
		if renewed := there.count("renew"); there.states()[store.Resolved] != 2 || renewed != 5 {
			t.Errorf("%v after %d renewals", there.states(), renewed)
		}
	})
}

// The next try of an entry is scheduled by the store's clock, however this machine's clock is set.
func TestTheScheduleIsTheStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		began := time.Now()
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			return errors.New("down")
		}, func(c *Config) {
			c.Clock = func() time.Time { return time.Now().Add(3 * time.Hour) }
		})
		time.Sleep(time.Minute)
		stop()
		if one := there.entries[0]; !one.NextRetryAt.Equal(began.Add(5*time.Minute)) || !one.RetryHistory[0].At.Equal(began) {
			t.Errorf("tried %s and due %s after the beginning", one.RetryHistory[0].At.Sub(began), one.NextRetryAt.Sub(began))
		}
	})
}

// The store is unavailable when the result is to be stored, and when it answers again, another worker has had the
// entry. That is a lost lock, although it looks like a lost answer.
func TestALockLostWhileTheStoreIsAwayIsNoLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, result := range []error{nil, errors.New("down")} {
			there := fakeEntries(store.Immediate, 0)
			away := true
			there.setFault(func(operation string) error {
				if operation != "settle" || !away {
					return nil
				}
				away = false
				there.mu.Lock()
				defer there.mu.Unlock()
				one := there.entries[0]
				one.Version, one.State, one.LockedBy = one.Version+2, store.Resolved, ""
				one.RetryHistory = append(one.RetryHistory, store.Attempt{At: time.Now(), Worker: "another", Result: Succeeded})
				return errors.New("connection reset")
			})
			seen := &observed{}
			log, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
				return result
			}, func(c *Config) { c.Observer = seen })
			time.Sleep(2 * time.Minute)
			stop()
			if len(there.settled) != 0 || seen.settled != 0 || !log.Has("could not be written") {
				t.Errorf("settled %v, %d told\n%s", there.settled, seen.settled, log)
			}
		}
	})
}

func TestStoppingGivesBackWhatWasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, make([]time.Duration, 10)...)
		due := there.entries[0].NextRetryAt
		tries := 0
		var mu sync.Mutex
		_, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			mu.Lock()
			tries++
			mu.Unlock()
			return sleep(ctx, 2*time.Second)
		}, func(c *Config) { c.Settings.Concurrency = 4 })
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the stop took %s", took)
		}
		states := there.states()
		if tries != 4 || states[store.Resolved] != 4 || states[store.Pending] != 6 {
			t.Fatalf("%d tries, %v", tries, states)
		}
		for _, entry := range there.entries {
			if entry.State == store.Pending && (entry.DLQRetryCount != 0 || !entry.NextRetryAt.Equal(due) ||
				len(entry.RetryHistory) != 0) {
				t.Errorf("given back as %+v", entry)
			}
		}
	})
}

func TestStoppingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		_, stop := oneWorker(t, there, func(ctx context.Context, _ store.Entry) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > DefaultSettings().Grace {
			t.Errorf("the stop took %s", took)
		}
		if entry := there.entries[0]; entry.State != store.Pending || entry.DLQRetryCount != 1 {
			t.Errorf("left as %+v", entry)
		}
	})
}

func TestStoppingWhileTheStoreIsDownIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, 0)
		log, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			there.setFault(func(string) error { return errors.New("connection reset") })
			return nil
		}, nil)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > DefaultSettings().Grace+time.Second {
			t.Errorf("the stop took %s", took)
		}
		if !log.Has(
			"the retry succeeded, but its result could not be written: the dead letter will be tried again (at least once)") {
			t.Errorf("the log says:\n%s", log)
		}
	})
}

func TestConditionsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Conditional, 0, 0)
		began := time.Now()
		asked := 0
		var tried []time.Duration
		log, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tried = append(tried, time.Since(began))
			return nil
		}, func(c *Config) {
			c.Settings.Concurrency = 1
			c.Strategies.Probed = true
			c.Unmet = func(context.Context) string {
				asked++
				if time.Since(began) < 10*time.Minute {
					return "the circuit breaker is OPEN"
				}
				return ""
			}
		})
		time.Sleep(30 * time.Minute)
		stop()
		if len(tried) != 2 || tried[0] < 10*time.Minute || tried[1] > 12*time.Minute || !log.Has("the circuit breaker "+
			"is OPEN") {
			t.Errorf("tried at %v\n%s", tried, log)
		}
		// Each batch queries once, and each minute has one batch.
		if asked < 8 || asked > 12 {
			t.Errorf("asked %d times", asked)
		}
		if there.entries[0].DLQRetryCount != 1 {
			t.Errorf("%d retries are counted", there.entries[0].DLQRetryCount)
		}
	})
}

func TestScheduledEntriesWaitForTheNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := OffPeak{Hours: []int{2, 3, 4}, Zone: zone(t, "Europe/Berlin")}
		there := fakeEntries(store.Scheduled, 0, 0, 0)
		var tried []time.Time
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tried = append(tried, time.Now())
			return &RetryError{Class: RateLimited, Err: errors.New("429")}
		}, func(c *Config) { c.Strategies.OffPeak, c.Settings.Concurrency = off, 1 })
		time.Sleep(60 * time.Hour)
		stop()
		if len(tried) != 3*MaxRetries || there.states()[store.Failed] != 3 {
			t.Fatalf("%d retries, %v", len(tried), there.states())
		}
		for _, at := range tried {
			if !off.Within(at) || at.In(off.Zone).Minute() > 1 {
				t.Errorf("tried at %s", at.In(off.Zone))
			}
		}
	})
}

func TestRetriesKeepTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := fakeEntries(store.Immediate, make([]time.Duration, 30)...)
		var mu sync.Mutex
		var tried []time.Time
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, time.Now())
			return nil
		}, func(c *Config) { c.Settings.Workers, c.Settings.Rate = 3, 2 })
		time.Sleep(5 * time.Minute)
		stop()
		slices.SortFunc(tried, time.Time.Compare)
		if len(tried) != 30 {
			t.Fatalf("%d retries", len(tried))
		}
		for i := 1; i < len(tried); i++ {
			if gap := tried[i].Sub(tried[i-1]); gap < 499*time.Millisecond {
				t.Errorf("retries %s apart", gap)
			}
		}
	})
}

// Scaled time passes through the same life in a 600th of the time.
func TestScaledWorkersLiveFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		born := time.Now()
		there := fakeEntries(store.Immediate, 100*time.Millisecond)
		var tried []time.Duration
		_, stop := oneWorker(t, there, func(context.Context, store.Entry) error {
			tried = append(tried, time.Since(born))
			return errors.New("down")
		}, func(c *Config) { c.Strategies.Clock.Scale = 600 })
		time.Sleep(24 * time.Second)
		stop()
		due := time.Duration(0)
		for i, wait := range Backoff() {
			due += wait / 600
			if late := tried[i] - due; late < 0 || late > 50*time.Millisecond {
				t.Errorf("retry %d came at %s, due at %s", i+1, tried[i], due)
			}
			due = tried[i]
		}
		if there.states()[store.Failed] != 1 {
			t.Errorf("%v", there.states())
		}
	})
}

func TestPoolsThatCanNotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no store":    func(c *Config) { c.Store = nil },
		"no workers":  func(c *Config) { c.Settings.Workers = 0 },
		"batch":       func(c *Config) { c.Settings.BatchSize = 1001 },
		"lease":       func(c *Config) { c.Settings.Lease = 0 },
		"rate":        func(c *Config) { c.Settings.Rate = -1 },
		"hours":       func(c *Config) { c.Strategies.OffPeak.Hours = []int{24} },
		"no hours":    func(c *Config) { c.Strategies.OffPeak.Hours = nil },
		"retries":     func(c *Config) { c.Strategies.MaxRetries = 0 },
		"scale":       func(c *Config) { c.Strategies.Clock.Scale = 0.1 },
		"blind probe": func(c *Config) { c.Strategies.Probed = true },
	} {
		config := Config{Store: &fakeStore{}, Retrier: retrierFunc(nil), Strategies: DefaultStrategies(),
			Settings: DefaultSettings()}
		change(&config)
		var wrong *ConfigError
		if err := Run(t.Context(), config); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
