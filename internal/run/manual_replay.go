package run

// Manual replay while the load continues.
//
// A replay begins a new replay generation of its record: from then on the record succeeds, and its counts start
// anew. So a dead letter may only be replayed when nothing of the earlier generation can still arrive. It is
// selected when
//
//	its source is covered by an accepted commit        - no member is handed the record again, and
//	no fault is in force and none was for a while      - no paused or cut-off member wakes up with it, no write of
//	                                                     it is held somewhere, and
//	it is older than a while                           - its answer, and a client's second try, have arrived.
//
// Dead letters that are not selected stay where they are until the end of the drill, or until the next manual
// replay.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
)

// replayQuiet is the minimum time without any fault before a manual replay, and the minimum age of a dead letter.
const replayQuiet = 3 * time.Second

// Replay replays the dead letters whose cause is planned to be gone. It returns their number once they are written.
// It is refused while any fault is in force.
func (h *Manual) Replay(ctx context.Context) (letters int, err error) {
	h.mu.Lock()
	at, closed := h.at, h.closed
	why := h.notOpen()
	var quiet time.Duration
	if at != nil {
		quiet = at.now() - h.busy
	}
	broken := h.active > 0
	if at != nil && !closed {
		h.group.Add(1) // the run waits for the replay
		defer h.group.Done()
	}
	h.mu.Unlock()
	switch {
	case at == nil || closed:
		return 0, why
	case at.run.scenario.Replay == nil:
		return 0, fmt.Errorf("%w: the scenario has no replay section, so no dead letter's cause is ever gone", ErrRefused)
	case at.run.header.Contract().Retry == history.RetryTopics || at.run.header.Contract().GroupType == history.GroupShare:
		return 0, fmt.Errorf("%w: with retry topics, or in a share group, dead letters are replayed at the end of the drill",
			ErrRefused)
	case len(at.run.header.Consumers) > 1 || at.run.scenario.Store != nil:
		return 0, fmt.Errorf(
			"%w: the dead letters of a graph, of several services or of a store are replayed at the end of the drill",
			ErrRefused)
	case broken:
		return 0, fmt.Errorf("%w: something is still broken, and what goes back now would fail again: heal first", ErrRefused)
	case quiet < replayQuiet:
		return 0, fmt.Errorf("%w: the last heal was only a moment ago: wait %s", ErrRefused,
			(replayQuiet - quiet).Round(100*time.Millisecond))
	}
	if !h.replaying.TryLock() {
		return 0, fmt.Errorf("%w: a replay is going on", ErrRefused)
	}
	defer h.replaying.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(at.ctx, cancel)()
	return at.run.replaySettled(ctx)
}

// hasReplayed reports whether the record's dead letter was replayed manually.
func (h *Manual) hasReplayed(record int32) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replayed[record]
}

// replaySettled selects the dead letters of which nothing can arrive any more, and replays them.
func (r *run) replaySettled(ctx context.Context) (int, error) {
	committed, err := r.progress(ctx)
	if err != nil {
		return 0, environment("asking the brokers how far the subject is", err)
	}
	manual := r.options.Manual
	old := time.Now().Add(-replayQuiet)
	letters, waiting := map[int32][]history.Event{}, map[int32]bool{}
	err = r.auditDeadLetters(ctx, func(record *kgo.Record, found history.Event) {
		if found.Record < 0 || found.Flags.Has(history.Repeated) || !r.plan.Records[found.Record].Healed ||
			manual.hasReplayed(found.Record) {
			return
		}
		r.noteForeign(record)
		claim := found.Stated()
		from := r.header.Topics[max(claim.Topic, 0)]
		at := committed[from.Name][claim.Partition]
		settled := found.Claim != nil && claim.Topic >= 0 && from.Role == history.RoleInput && at.Err == nil &&
			at.At > claim.Offset && record.Timestamp.Before(old)
		waiting[found.Record] = waiting[found.Record] || !settled
		letters[found.Record] = append(letters[found.Record], found)
	})
	if err != nil {
		return 0, environment("reading the dead letters", err)
	}
	selected := r.selectSettled(letters, waiting)
	if len(selected) == 0 {
		return 0, fmt.Errorf(
			"%w: there is no dead letter whose cause is gone and whose record is committed for longer than %s", ErrRefused,
			replayQuiet)
	}
	manual.mu.Lock()
	for _, record := range selected {
		manual.replayed[record] = true
	}
	manual.mu.Unlock()
	return len(selected), r.putBack(ctx, selected)
}

// selectSettled selects all copies of a record's dead letter, or none: the tool replays everything that has the
// record's id.
func (r *run) selectSettled(letters map[int32][]history.Event, waiting map[int32]bool) []int32 {
	var selected []int32
	for _, record := range slices.Sorted(maps.Keys(letters)) {
		if waiting[record] {
			continue
		}
		for _, found := range letters[record] {
			r.selectLetter(0, found)
		}
		selected = append(selected, record)
	}
	return selected
}
