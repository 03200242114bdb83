package storewatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// askLimit bounds one question to the database.
	askLimit = 5 * time.Second
	// clockEvery is how often the database is asked for its time.
	clockEvery = time.Second
	// firstClocks is how often it is asked at the beginning: the quickest answer tells most.
	firstClocks = 8
	// grain is what a database's times are rounded to.
	grain = time.Millisecond
)

// Config is what a watcher needs.
type Config struct {
	// Address is sqlite:PATH, postgres://… or mongodb://…; the watcher does not go through the link that faults break.
	Address string
	Layout  Layout
	// Poll is how often the store is looked at.
	Poll   time.Duration
	Topics []history.Topic
	IDs    *history.IDs
	// Records is how many the run has; an id beyond is none.
	Records int
	// Worker tells which process of the run a lock's name is, history.None if none.
	Worker func(lockedBy string) int16
	Clock  history.Clock
	Sink   history.Sink
	Log    zerolog.Logger
}

// Watcher looks at a store until it is stopped.
type Watcher struct {
	cfg    Config
	db     entries
	end    func() error // of the connections
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	known map[string]*entry
	count int64
	last  time.Duration
	// base is the database's time when the run's clock began; blur how far that may be off.
	base    time.Time
	blur    time.Duration
	clocked time.Duration
	away    bool
	untold  []change
}

// entries is a store's table or collection, read only.
type entries interface {
	// clock is the database's time.
	clock(ctx context.Context) (time.Time, error)
	// changes returns what was changed since the last call, in the order in which each entry was.
	changes(ctx context.Context) ([]change, error)
	// table calls see for each entry that is there.
	table(ctx context.Context, see func(*row)) error
	// details returns the entry as it is, nil if it is gone.
	details(ctx context.Context, id string) (*row, error)
}

// connect opens the store at an address, and returns what ends the connections.
func connect(address string, layout Layout) (entries, func() error, error) {
	if strings.HasPrefix(address, "mongodb:") || strings.HasPrefix(address, "mongodb+srv:") {
		return connectMongo(address, layout)
	}
	db, err := connectSQL(address, layout)
	if err != nil {
		return nil, nil, err
	}
	return db, db.close, nil
}

// entry is what is known of one.
type entry struct {
	number         int64
	record         int32
	letter, source spot
	state          history.StoreState
	next           time.Duration
}

// Start begins to watch; it fails when the store can't be read. Stop ends it.
func Start(ctx context.Context, cfg Config) (*Watcher, error) {
	db, end, err := connect(cfg.Address, cfg.Layout)
	if err != nil {
		return nil, fmt.Errorf("watching the dead-letter store: %w", err)
	}
	w := &Watcher{cfg: cfg, db: db, end: end, known: map[string]*entry{}}
	for range firstClocks {
		if err = w.compareClocks(ctx); err != nil {
			return nil, fmt.Errorf("watching the dead-letter store: %w", errors.Join(err, end()))
		}
	}
	w.note(history.KindStoreClock, "", w.blur)
	w.note(history.KindStoreWatch, history.WatchBegins, cfg.Poll)
	if err := w.look(ctx); err != nil {
		return nil, fmt.Errorf("watching the dead-letter store: %w", errors.Join(err, end()))
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	w.done.Go(func() { w.watch(watching) })
	return w, nil
}

// Stop ends the watching with a last look; Audit may follow, and Close.
func (w *Watcher) Stop(ctx context.Context) error {
	w.cancel()
	w.done.Wait()
	err := w.lookAgain(ctx)
	if err == nil {
		w.note(history.KindStoreWatch, history.WatchEnds, w.cfg.Poll)
	}
	return err
}

// Close ends the connections; the watching ends with them, if it has not yet.
func (w *Watcher) Close() error {
	w.cancel()
	w.done.Wait()
	return w.end()
}

func (w *Watcher) watch(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := w.lookAgain(ctx); err != nil && ctx.Err() == nil {
			w.cfg.Log.Debug().Err(err).Msg("the dead-letter store can't be read now")
		}
	}
}

// lookAgain looks, and notes when that begins or ceases to be possible. An audit table tells later what was missed;
// polling does not, and what it finds afterwards says so by itself.
func (w *Watcher) lookAgain(ctx context.Context) error {
	err := w.look(ctx)
	w.mu.Lock()
	away := w.away
	w.away = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !away && ctx.Err() == nil:
		w.note(history.KindStoreWatch, history.WatchLost, w.cfg.Poll)
	case err == nil && away:
		w.note(history.KindStoreWatch, history.WatchResumed, w.cfg.Poll)
	}
	return err
}

func (w *Watcher) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if w.cfg.Clock.Now()-w.clocked > clockEvery {
		if err := w.compareClocks(ctx); err != nil {
			return err
		}
	}
	changes, err := w.db.changes(ctx)
	if err != nil {
		return err
	}
	// What can't be told now, for the database went away in between, is told before anything that comes later.
	w.untold = append(w.untold, changes...)
	for len(w.untold) > 0 {
		if err := w.tell(ctx, &w.untold[0]); err != nil {
			return err
		}
		w.untold = w.untold[1:]
	}
	return nil
}

// compareClocks asks the database for its time. It lies between the question and the answer, so the narrowest of them
// bounds the difference of the two clocks; one that does not fit into it tells that a clock was put forward or back by
// as much.
func (w *Watcher) compareClocks(ctx context.Context) error {
	before := w.cfg.Clock.Now()
	now, err := w.db.clock(ctx)
	after := w.cfg.Clock.Now()
	if err != nil {
		return err
	}
	if now.IsZero() {
		return errors.New("the database did not tell its time")
	}
	half := (after - before) / 2
	w.mu.Lock()
	w.clocked = after
	blur := w.blur
	switch {
	case w.base.IsZero() || len(w.known) == 0 && half+grain < w.blur:
		w.base, w.blur = now.Add(-before-half), half+grain
		blur = w.blur
	default:
		at := now.Sub(w.base)
		w.blur = max(w.blur, before-grain-at, at-after)
	}
	grown := w.blur > blur
	w.mu.Unlock()
	if grown {
		w.note(history.KindStoreClock, "", w.blur)
	}
	return nil
}

// stamp is the run's time, later than every stamp before.
func (w *Watcher) stamp() time.Duration {
	w.last = max(w.cfg.Clock.Now(), w.last+1)
	return w.last
}

func (w *Watcher) note(kind history.Kind, what string, aux time.Duration) {
	w.mu.Lock()
	event := history.New(kind, w.stamp())
	w.mu.Unlock()
	event.Text, event.Aux = what, int64(aux)
	w.cfg.Sink.Record(event)
}

// tell writes a change into the history.
func (w *Watcher) tell(ctx context.Context, one *change) error {
	known, err := w.meet(ctx, one)
	if err != nil {
		return err
	}
	said := history.StoreChange{
		From: history.StoreAbsent, To: history.StoreAbsent, By: one.now.lockedBy, Strategy: one.now.strategy,
		Next: w.run(one.now.next), Lease: w.run(one.now.lease),
	}
	if one.oldStatus != "" {
		said.From, _ = w.cfg.Layout.state(one.oldStatus, one.oldHeld)
	}
	if one.status != "" {
		to, understood := w.cfg.Layout.state(one.status, one.held)
		if said.To = to; !understood {
			said.Word = one.status
		}
	}
	ended := said.To == history.StoreResolved || said.To == history.StoreArchived
	said.Hand = ended && byHand(one.now.resolution)
	w.mu.Lock()
	event := w.event(history.KindStoreChange, known, one.now)
	known.state, known.next = said.To, said.Next
	w.mu.Unlock()
	event.Text, event.Aux = said.String(), int64(w.run(one.at))
	if one.polled {
		event.Flags |= history.Polled
	}
	if w.cfg.Worker != nil && one.now.lockedBy != "" {
		event.Instance = w.cfg.Worker(one.now.lockedBy)
	}
	w.cfg.Sink.Record(event)
	return nil
}

// byHand: the words of the management schema for how an entry came to its end.
func byHand(resolution string) bool {
	return resolution == "manual_resolution" || resolution == "manual_retry" || resolution == "discard"
}

// run is the database's time as one of the run's clock, history.None if there is none.
func (w *Watcher) run(at time.Time) time.Duration {
	if at.IsZero() {
		return history.None
	}
	return max(at.Sub(w.base), 0)
}

// event says of an entry where it comes from; mu is held.
func (w *Watcher) event(kind history.Kind, known *entry, now *row) history.Event {
	event := history.New(kind, w.stamp())
	event.Op, event.Record, event.N, event.Sequence = known.number, known.record, int32(now.retries), int32(now.version)
	event.Topic, event.Partition, event.Offset = w.topic(known.letter.topic), known.letter.partition, known.letter.offset
	if known.source.topic != "" {
		event.Claim = history.Claim{
			Present: true, Topic: w.topic(known.source.topic), Partition: known.source.partition, Offset: known.source.offset,
			Attempts: history.None,
		}
	}
	return event
}

func (w *Watcher) topic(name string) int16 {
	for i := range w.cfg.Topics {
		if w.cfg.Topics[i].Name == name {
			return int16(i)
		}
	}
	return history.None
}

// meet returns what is known of the entry, which is learned when it is seen first.
func (w *Watcher) meet(ctx context.Context, one *change) (*entry, error) {
	w.mu.Lock()
	known := w.known[one.id]
	w.mu.Unlock()
	if known != nil {
		return known, nil
	}
	found := one.details
	if found == nil {
		var err error
		if found, err = w.db.details(ctx, one.id); err != nil {
			return nil, err
		}
	}
	known = &entry{record: history.None, letter: spot{"", history.None, history.None},
		source: spot{"", history.None, history.None}, next: history.None}
	if found != nil {
		known.letter, known.source, known.record = found.letter, found.source, w.record(found)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	known.number = w.count
	w.known[one.id] = known
	return known, nil
}

// record finds the id of the run's record.
func (w *Watcher) record(found *row) int32 {
	for _, data := range [][]byte{found.payload, []byte(found.eventID)} {
		if seq, is := w.cfg.IDs.Find(data); is && int(seq) < w.cfg.Records {
			return seq
		}
	}
	return history.None
}

// Audit reads the whole store and writes down every entry. The last look has to be before it, so that it is stopped
// first or nothing changes any more.
func (w *Watcher) Audit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 6*askLimit)
	defer cancel()
	if err := w.lookAgain(ctx); err != nil {
		return fmt.Errorf("auditing the dead-letter store: %w", err)
	}
	var rows []*row
	if err := w.db.table(ctx, func(one *row) { rows = append(rows, one) }); err != nil {
		return fmt.Errorf("auditing the dead-letter store: %w", err)
	}
	for _, one := range rows {
		known, err := w.meet(ctx, &change{id: one.id, details: one})
		if err != nil {
			return fmt.Errorf("auditing the dead-letter store: %w", err)
		}
		state, understood := w.cfg.Layout.state(one.status, one.held)
		said := history.StoreChange{
			From: history.StoreAbsent, To: state, By: one.lockedBy, Strategy: one.strategy, Next: w.run(one.next),
			Lease: w.run(one.lease),
		}
		if !understood {
			said.Word = one.status
		}
		w.mu.Lock()
		event := w.event(history.KindStoreEntry, known, one)
		w.mu.Unlock()
		event.Text = said.String()
		w.cfg.Sink.Record(event)
	}
	now, err := w.db.clock(ctx)
	if err != nil {
		return fmt.Errorf("auditing the dead-letter store: %w", err)
	}
	w.mu.Lock()
	event := history.New(history.KindStoreAudited, w.stamp())
	w.mu.Unlock()
	event.N, event.Aux = int32(len(rows)), int64(w.run(now))
	w.cfg.Sink.Record(event)
	return nil
}

// Figures are how many entries the retention still has to put away (resolved, failed), and how many a worker has or
// will take of its own accord.
func (w *Watcher) Figures() (kept, open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.known {
		switch {
		case one.state == history.StoreResolved, one.state == history.StoreFailed:
			kept++
		case one.state == history.StoreProcessing, one.state == history.StorePending && one.next != history.None:
			open++
		}
	}
	return kept, open
}

// Waiting returns, by record, the ids of the entries that a person may have replayed: those that are at no end and that
// no worker has.
func (w *Watcher) Waiting() map[int32][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := map[int32][]string{}
	for id, one := range w.known {
		switch one.state {
		case history.StorePending, history.StoreManual, history.StoreFailed:
			if one.record >= 0 {
				waiting[one.record] = append(waiting[one.record], id)
			}
		}
	}
	return waiting
}
