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
	// askLimit bounds one query to the database.
	askLimit = 5 * time.Second
	// clockEvery is the interval of queries for the database's time.
	clockEvery = time.Second
	// firstClocks is the number of such queries at the beginning. The quickest answer is the most precise.
	firstClocks = 8
	// grain is the resolution to which a database rounds times.
	grain = time.Millisecond
)

// Config configures a watcher.
type Config struct {
	// Address is sqlite:PATH, postgres://… or mongodb://…. The watcher bypasses the link that faults affect.
	Address string
	Layout  Layout
	// Poll is the interval at which the store is read.
	Poll   time.Duration
	Topics []history.Topic
	IDs    *history.IDs
	// Records is the number of records in the run. A larger id is not a record's.
	Records int
	// Worker returns the process of the run that a lock's name identifies, history.None if none.
	Worker func(lockedBy string) int16
	Clock  history.Clock
	Sink   history.Sink
	Log    zerolog.Logger
}

// Watcher watches a store until it is stopped.
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
	// base is the database's time when the run's clock began. blur is the uncertainty of base.
	base    time.Time
	blur    time.Duration
	clocked time.Duration
	away    bool
	untold  []change
}

// entries is a store's table or collection, read only.
type entries interface {
	// clock returns the database's time.
	clock(ctx context.Context) (time.Time, error)
	// changes returns the changes since the last call, in the order in which each entry changed.
	changes(ctx context.Context) ([]change, error)
	// table calls see for each existing entry.
	table(ctx context.Context, see func(*row)) error
	// details returns the entry in its present state, nil if it does not exist.
	details(ctx context.Context, id string) (*row, error)
}

// connect opens the store at an address. It returns a function that closes the connections.
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

// entry is the known state of one entry.
type entry struct {
	number         int64
	record         int32
	letter, source spot
	state          history.StoreState
	next           time.Duration
}

// Start begins to watch. It fails if the store cannot be read. Stop ends the watching.
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

// Stop ends the watching with a last look. Audit and Close may follow.
func (w *Watcher) Stop(ctx context.Context) error {
	w.cancel()
	w.done.Wait()
	err := w.lookAgain(ctx)
	if err == nil {
		w.note(history.KindStoreWatch, history.WatchEnds, w.cfg.Poll)
	}
	return err
}

// Close closes the connections, and ends the watching if it is still in progress.
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

// lookAgain looks at the store, and records when that begins or ceases to be possible. An audit table later reports
// the missed changes. Polling does not, and its later findings are marked accordingly.
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
	// Changes that cannot be reported now, because the database went away in between, are reported before any later
	// ones.
	w.untold = append(w.untold, changes...)
	for len(w.untold) > 0 {
		if err := w.tell(ctx, &w.untold[0]); err != nil {
			return err
		}
		w.untold = w.untold[1:]
	}
	return nil
}

// compareClocks queries the database's time. That time lies between the query and the answer, so the shortest
// exchange bounds the difference of the two clocks best. A time outside of the bounds shows that a clock was put
// forward or back by that amount.
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

// stamp returns the run's time, later than every earlier stamp.
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
	known, err := w.meet(ctx, one.now.id, nil)
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
	if one.now.status != "" {
		to, understood := w.cfg.Layout.state(one.now.status, one.now.held)
		if said.To = to; !understood {
			said.Word = one.now.status
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

// byHand reports whether the resolution is one of the management schema's words for an end that a person caused.
func byHand(resolution string) bool {
	return resolution == "manual_resolution" || resolution == "manual_retry" || resolution == "discard"
}

// run converts the database's time to the run's clock; history.None if there is none.
func (w *Watcher) run(at time.Time) time.Duration {
	if at.IsZero() {
		return history.None
	}
	return max(at.Sub(w.base), 0)
}

// event creates an event with the origin of an entry; mu is held.
func (w *Watcher) event(kind history.Kind, known *entry, now *row) history.Event {
	event := history.New(kind, w.stamp())
	event.Op, event.Record, event.N, event.Sequence = known.number, known.record, int32(now.retries), int32(now.version)
	event.Topic, event.Partition, event.Offset = w.topic(known.letter.topic), known.letter.partition, known.letter.offset
	if known.source.topic != "" {
		event.Claim = &history.Claim{
			Topic: w.topic(known.source.topic), Partition: known.source.partition, Offset: known.source.offset,
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

// meet returns the known state of the entry. When the entry is first observed, this is that of the whole row found, or
// of the row that is looked up if found is nil.
func (w *Watcher) meet(ctx context.Context, id string, found *row) (*entry, error) {
	w.mu.Lock()
	known := w.known[id]
	w.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if found == nil {
		var err error
		if found, err = w.db.details(ctx, id); err != nil {
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
	w.known[id] = known
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

// Audit looks at the store once more, then reads all of it and records every entry. The watcher must have been stopped,
// or the store must not change any more, so that no change follows this look.
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
		known, err := w.meet(ctx, one.id, one)
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

// Figures returns the number of entries that the retention still has to archive (resolved, failed), and the number
// that a worker has or will take on its own.
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

// Waiting returns, by record, the ids of the entries that a person may have replayed: those that are not final and
// not owned by a worker.
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
