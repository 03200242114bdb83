// Package store defines the faults of the dead-letter store in a run: faults of its database, of its workers' clocks
// and health probe, and of the dead letters that its routers read. The package defines how these faults are written,
// checked, described and explained, and injects them through interfaces that the store's runner implements.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Store acts on the dead-letter store that the scenario brings. Exactly one of Restart, Crash, ClockAhead, ClockBehind,
// Unhealthy, RepeatLetters is set.
type Store struct {
	// Restart: its database is stopped in order and started at once on the same data. Like Crash it needs a private
	// server: engine postgres without a url.
	Restart bool `json:"restart,omitempty"`
	// Crash: its database ends without a goodbye; after For it is started again and recovers what was committed.
	Crash bool `json:"crash,omitempty"`
	// Process is the worker whose machine has a wrong clock: "worker 0". ClockAhead and ClockBehind say by how much, in
	// real time; it is right again after For.
	Process     string         `json:"process,omitempty"`
	ClockAhead  units.Duration `json:"clock_ahead,omitempty"`
	ClockBehind units.Duration `json:"clock_behind,omitempty"`
	// Unhealthy is what the workers' health probe (store.probe) says is wrong: circuit-breaker (OPEN), cpu (80 %),
	// memory (85 %), connections (none is available), or probe (it answers 503).
	Unhealthy string `json:"unhealthy,omitempty" jsonschema:"enum=circuit-breaker,enum=cpu,enum=memory,enum=connections,enum=probe"`
	// RepeatLetters is the share of the dead letters in their topic by then that is written there once more, in another
	// order.
	RepeatLetters units.Percent `json:"repeat_letters,omitempty"`
}

// The values of Store.Unhealthy.
const (
	UnhealthyBreaker     = "circuit-breaker"
	UnhealthyCPU         = "cpu"
	UnhealthyMemory      = "memory"
	UnhealthyConnections = "connections"
	UnhealthyProbe       = "probe"
)

// offset returns how far the clock is ahead, negative if behind.
func (s *Store) offset() time.Duration { return s.ClockAhead.D() - s.ClockBehind.D() }

// OfWorker reports whether the fault hits a worker.
func (s *Store) OfWorker() bool { return s.offset() != 0 }

// action is one fault of the dead-letter store.
type action = faults.Action[Store, func(*Injector, context.Context, faults.Active, *Store) (faults.Heal, error)]

// actions returns all faults of the dead-letter store.
func actions() []action { return slices.Concat(ofDatabase(), ofWorkers(), ofRouters()) }

const (
	databaseMade = "The scenario's store must have engine: postgres and no url, so that the run owns the server. SQLite " +
		"has no server that could end."
	clockMade = "The worker is ended by TERM and started again with --clock-offset, which shifts every time that it " +
		"reads from the machine's clock. When for has passed, it is started again without."
)

func ofDatabase() []action {
	return []action{{
		Do: (*Injector).restart, Instant: "a restart",
		What: func(*Store) string { return "the store's database restarted" },
		Entry: faults.Entry{Name: "store.restart", Summary: "The dead-letter store's database restarts.",
			Does: "Every connection to it ends, and it returns with its data as soon as it has started.",
			Made: "PostgreSQL's fast shutdown, then a start on the same data and port. This fault is instantaneous and takes " +
				"no for. " + databaseMade,
			Shows: "A correct consumer's router commits no offset whose row is not durable, and its workers repeat unanswered " +
				"statements and settle the entries they tried. Bugs: a worker that gives up on its first broken connection, a " +
				"lost answer that is taken for a lost lock.",
			Effects: []string{"connections to the database ended", "database stopped", "database started"},
			Keys:    []string{"store.restart"}, Example: "{at: 1s, store: {restart: true}}"},
	}, {
		Do:   (*Injector).crash,
		What: func(*Store) string { return "the store's database crashed" },
		Entry: faults.Entry{Name: "store.crash", Summary: "The dead-letter store's database crashes.",
			Does: "It ends at once, in the middle of transactions, and returns after for. Committed transactions survive, " +
				"others do not.",
			Made: "PostgreSQL's immediate shutdown, which writes nothing, then a start that recovers from the log. " +
				databaseMade,
			Shows: "A correct consumer's store has all entries afterwards, each once. Bugs: offsets committed for rows whose " +
				"transaction was open, a repeated ingest that doubles its rows.",
			Effects: []string{"connections to the database ended", "database crashed", "database started"},
			Keys:    []string{"store.crash"}, Example: "{at: 1s, for: 1s, store: {crash: true}}"},
	}}
}

func ofWorkers() []action {
	return []action{{
		Do:   (*Injector).clock,
		What: func(s *Store) string { return fmt.Sprintf("the clock of %s is %s ahead", s.Process, s.ClockAhead) },
		Entry: faults.Entry{Name: "store.clock_ahead", Summary: "The clock of a store's worker is ahead.",
			Does: "Its clock is this much ahead of the database's (in real time, whatever the store's time_scale).",
			Made: clockMade,
			Shows: "A correct consumer's store is not affected, because locks and due times follow the database's clock. " +
				"Bugs: leases compared with the worker's own clock, so that it takes over entries that others have locked; " +
				"entries taken before they are due.",
			Effects: []string{"entries locked by a worker whose clock is wrong"},
			Keys:    []string{"store.process", "store.clock_ahead"},
			Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_ahead: 10m}}"},
	}, {
		Do:   (*Injector).clock,
		What: func(s *Store) string { return fmt.Sprintf("the clock of %s is %s behind", s.Process, s.ClockBehind) },
		Entry: faults.Entry{Name: "store.clock_behind", Summary: "The clock of a store's worker is behind.",
			Does: "Its clock is this much behind the database's (in real time, whatever the store's time_scale).",
			Made: clockMade,
			Shows: "A correct consumer's store is not affected. Bugs: leases that have ended for all others before the " +
				"worker has begun, entries scheduled for a time in the past.",
			Effects: []string{"entries locked by a worker whose clock is wrong"}, Keys: []string{"store.clock_behind"},
			Example: "{at: 1s, for: 2s, store: {process: worker 1, clock_behind: 10m}}"},
	}, {
		Do: (*Injector).unhealthy,
		What: func(s *Store) string {
			return "the workers' health probe says that something is wrong: " + s.Unhealthy
		},
		Entry: faults.Entry{Name: "store.unhealthy", Summary: "The workers' health probe reports a problem.",
			Does: "The probe that a worker asks before a conditional retry reports an OPEN circuit breaker, the CPU at 80 %, " +
				"the memory at 85 % or no available database connection, or answers 503 (probe).",
			Made: "The run serves the probe (store.probe: true, --health-url of the workers) with a listener for each worker, " +
				"and records each answer before it is written.",
			Shows: "A correct consumer's workers try no entry with a conditional strategy until the probe reports that all is " +
				"well. Bugs: a probe that is asked only once, at the start; limits compared the wrong way round; a failing probe " +
				"that is taken for a healthy one.",
			Effects: []string{"health probes answered with what is wrong"}, Keys: []string{"store.unhealthy"},
			Example: "{at: 1s, for: 2s, store: {unhealthy: circuit-breaker}}"},
	}}
}

func ofRouters() []action {
	return []action{{
		Do:      (*Injector).repeat,
		Instant: "writing dead letters again",
		What: func(s *Store) string {
			return fmt.Sprintf("%s of the dead letters written again, in another order", s.RepeatLetters)
		},
		Entry: faults.Entry{
			Name: "store.repeat_letters", Summary: "Dead letters reach the store's router twice and in another order.",
			Does: "This share of the dead letters in the topic is written there again, byte for byte, shuffled, each to a " +
				"random partition, as a mirror, a restored topic or a producer's retry may do.",
			Made: "The run reads the topic and writes the copies itself, from the fault's seed. They are marked in the " +
				"history, so that they are never taken for the subject's. This fault is instantaneous and takes no for.",
			Shows: "A correct consumer's router makes one entry for each position at which a record failed, whichever of its " +
				"dead letters comes first. Bugs: an insert without a conflict check, a unique key over the dead letter's own " +
				"position instead of the record's.",
			Effects: []string{"dead letters written again", "dead letters written after one that was younger"},
			Keys:    []string{"store.repeat_letters"}, Example: "{at: 1s, store: {repeat_letters: 100%}}"},
	}}
}

// Entries implements faults.Fault.
func (*Store) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (s *Store) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), s)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(s)
	traits.Target, traits.Name = s.target(), faults.Dashed(strings.TrimSpace("store "+chosen.Key()+" "+s.Process))
	traits.Worker, traits.Idle = faults.WorkerOf(s.Process), s.idle()
	traits.Patient = s.Process != "" || s.Unhealthy != ""
	return traits
}

// idle returns the reason for which the fault may have no effect.
func (s *Store) idle() history.Idle {
	out := history.Idle{Needs: history.NeedMember, Why: "nobody was connected to the database",
		Do: "let it begin when the store's processes are at work"}
	switch {
	case s.Process != "":
		out.Why = "the worker locked no entry in the " + history.InForce + " in which its clock was wrong"
	case s.Unhealthy != "":
		out.Why = "no worker asked the health probe in the " + history.InForce +
			" in which it said so, as no conditional retry was due"
	case s.RepeatLetters > 0:
		out.Why, out.Do = "there was no dead letter in the topic yet", "let it begin later"
		return out
	default:
		return out
	}
	out.Do = "make it longer, or plan more dead letters"
	return out
}

func (s *Store) target() string {
	switch {
	case s.Process != "":
		return s.Process
	case s.Unhealthy != "":
		return "health probe"
	case s.RepeatLetters > 0:
		return "dlq"
	}
	return "database"
}

// Validate implements faults.Fault.
func (s *Store) Validate(setting faults.Setting) []faults.Defect {
	if setting.StoreProcesses == nil {
		return faults.At("", "the run has no dead-letter store of its own, so there is nothing to break: add store")
	}
	_, defects := faults.CheckActions(actions(), s)
	if chosen, found := faults.Chosen(ofDatabase(), s); found && setting.StoreFixed != "" {
		defects = append(defects, faults.At("/"+chosen.Key(), "%s", setting.StoreFixed)...)
	}
	return slices.Concat(defects,
		faults.AtIf(s.Unhealthy != "" && !setting.StoreProbe, "/unhealthy",
			"the workers ask no health probe, so this fault could have no effect: add probe: true to store"),
		s.clock(setting))
}

// clock checks whose clock it is. Only workers act by a clock.
func (s *Store) clock(setting faults.Setting) []faults.Defect {
	wrong := s.offset() != 0
	switch {
	case !wrong && s.Process != "":
		return faults.At("/process", "process goes with clock_ahead and clock_behind: leave it out")
	case !wrong:
		return nil
	case s.Process == "":
		return faults.At("", "say whose clock is wrong: add process, such as process: worker 0")
	case strings.HasPrefix(s.Process, "router "):
		return faults.At("/process", "a router does not use a clock: write worker N, N from 0")
	}
	return setting.CheckProcess(s.Process)
}

// Database is the store's database server. Stop shuts it down cleanly, Crash kills it. Both return when it is gone,
// with the number of connections that ended with it. Resume starts it again on its data and returns when it answers.
type Database interface {
	Stop(ctx context.Context) (connections int, err error)
	Crash(ctx context.Context) (connections int, err error)
	Resume(ctx context.Context) error
}

// Workers are the workers of the store, by number.
type Workers interface {
	// SetClock restarts a worker with its clock ahead by offset (negative: behind; 0: correct), and returns when it
	// is ready.
	SetClock(ctx context.Context, worker int, offset time.Duration) error
	// WatchLocks calls locked for each entry that the worker is seen to lock, until end is called. A worker is watched
	// by one caller at a time.
	WatchLocks(worker int, locked func()) (end func())
}

// Letters are the dead letters in their topic. Repeat writes a share of the existing ones again, shuffled, and
// returns when they are acknowledged. It returns their number, and how many of them come after a dead letter that was
// first written after them.
type Letters interface {
	Repeat(ctx context.Context, share float64, seed uint64) (written, outOfOrder int, err error)
}

// Health is the answer of the workers' health probe. Unhealthy makes it report the given problem until end is called,
// and calls answered each time.
type Health interface {
	Unhealthy(ctx context.Context, how string, answered func()) (end func(), err error)
}

// Injector injects faults of kind "store". It implements faults.Injector.
//
// Effects: "connections to the database ended", and only if there were any, "database stopped" (or "database
// crashed") and "database started", each with the time that it took, in ns; "entries locked by a worker whose clock
// is wrong", with the worker; "health probes answered with what is wrong"; "dead letters written again" and "dead
// letters written after one that was younger".
type Injector struct {
	Database Database // nil: it cannot be stopped
	Workers  Workers
	Letters  Letters
	Health   Health // nil: workers call no probe

	mu     sync.Mutex
	clocks map[int]*workerClock // by worker; set by the first fault of its clock
}

// startLimit is the maximum time to start the database in Inject. The database must also be started if the run is
// interrupted.
const startLimit = 45 * time.Second

// Inject injects a fault of the store. Heal starts a crashed database again and corrects a clock. A restart, and
// writing dead letters again, are complete before Inject returns.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec, chosen, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("breaking the dead-letter store: %w", err)
	}
	return chosen.Do(i, ctx, active, spec)
}

func (i *Injector) crash(ctx context.Context, active faults.Active, _ *Store) (faults.Heal, error) {
	return i.stop(ctx, active, "database crashed", Database.Crash)
}

func (i *Injector) restart(ctx context.Context, active faults.Active, _ *Store) (faults.Heal, error) {
	start, err := i.stop(ctx, active, "database stopped", Database.Stop)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	return stays, start(starting)
}

func (i *Injector) stop(ctx context.Context, active faults.Active, what string,
	down func(Database, context.Context) (int, error)) (faults.Heal, error) {
	if i.Database == nil {
		return nil, errors.New("breaking the dead-letter store: its database is no server of the run's own")
	}
	began := time.Now()
	connections, err := down(i.Database, ctx)
	if err != nil {
		return nil, err
	}
	// Stopping a database without connections affects no client.
	if connections > 0 {
		active.Effect("connections to the database ended", connections, 0, history.None)
		active.Effect(what, 1, time.Since(began).Nanoseconds(), history.None)
	}
	return func(ctx context.Context) error {
		began := time.Now()
		if err := i.Database.Resume(ctx); err != nil {
			return err
		}
		if connections > 0 {
			active.Effect("database started", 1, time.Since(began).Nanoseconds(), history.None)
		}
		return nil
	}, nil
}

// counter counts effects, which are reported together.
type counter struct {
	active faults.Active
	n      atomic.Int32
}

func (c *counter) add() {
	c.n.Add(1)
	c.active.Met()
}

func (c *counter) report(what string, aux time.Duration, instance int) {
	if n := c.n.Load(); n > 0 {
		c.active.Effect(what, int(n), aux.Nanoseconds(), instance)
	}
}

func (i *Injector) unhealthy(ctx context.Context, active faults.Active, spec *Store) (faults.Heal, error) {
	if i.Health == nil {
		return nil, errors.New("breaking the dead-letter store: its workers ask no health probe")
	}
	answered := counter{active: active}
	end, err := i.Health.Unhealthy(ctx, spec.Unhealthy, answered.add)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		end()
		answered.report("health probes answered with what is wrong", 0, history.None)
		return nil
	}, nil
}

func (i *Injector) repeat(ctx context.Context, active faults.Active, spec *Store) (faults.Heal, error) {
	written, outOfOrder, err := i.Letters.Repeat(ctx, spec.RepeatLetters.Share(), active.Seed)
	if err != nil {
		return nil, fmt.Errorf("writing dead letters again: %w", err)
	}
	if written > 0 {
		active.Effect("dead letters written again", written, 0, history.None)
	}
	if outOfOrder > 0 {
		active.Effect("dead letters written after one that was younger", outOfOrder, 0, history.None)
	}
	return stays, nil
}

// stays lifts a fault that needs no action to lift it.
func stays(context.Context) error { return nil }
