// Package retention owns how long dead letters are kept: the table of "Dead Letter Queue Lifecycle", and the Parquet
// archive that outlives the store. It knows stores by their interface, and nothing about Kafka and workers.
//
//	resolved ──30 days──▶ gone
//	failed ──90 days──▶ archive file, archived
//	archived ──1 year──▶ archive file unless it is in one, gone
//
// # Why a crash neither loses nor duplicates entries
//
// An entry is written to a file that has a temporary name until it is complete and on disk (fsync, rename, fsync of
// the folder). Only then is the entry marked as archived, or removed. A crash before the rename leaves a partial file,
// which the next run deletes, and every entry unchanged. A crash after it leaves entries that are in a file and not
// marked: the next run finds them there, by id and version, and only marks them. Two concurrent runs would not find
// each other's rows, so the folder is locked. Marking is a compare-and-set with the version that was written: an entry
// that was taken up again meanwhile keeps its state, and its row remains as a copy of that version.
package retention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Store is the part of a store that retention needs.
type Store interface {
	store.Reader
	store.Keeper
}

const day = 24 * time.Hour

// Policy defines how long entries are kept, counted from their last change by the store's clock, and where they go.
type Policy struct {
	// After these times, resolved entries are deleted, failed ones archived, and archived ones removed. Each must be
	// above 0. Entries that are pending, in process or waiting for a person are kept for ever.
	Resolved, Failed, Archived time.Duration
	// Scale divides these times. It is at least 1; 0 means 1. At 600, a day takes 2 min 24 s.
	Scale float64
	// Folder is the folder of the archive's files.
	Folder string
	// Batch is the number of entries read and removed at a time, 1 to 1000.
	Batch int
	// DryRun counts and changes nothing.
	DryRun bool
}

// DefaultPolicy returns the document's times. Folder must still be set.
func DefaultPolicy() Policy {
	return Policy{Resolved: 30 * day, Failed: 90 * day, Archived: 365 * day, Scale: 1, Batch: 100}
}

func (p Policy) validate() error {
	switch {
	case p.Resolved <= 0 || p.Failed <= 0 || p.Archived <= 0:
		return errors.New("the times that entries are kept must be more than 0s")
	case p.Scale != 0 && !(p.Scale >= 1 && p.Scale <= 1e6): // also excludes NaN
		return fmt.Errorf("the time scale is 1 to 1000000, not %g", p.Scale)
	case p.Batch < 1 || p.Batch > 1000:
		return fmt.Errorf("a batch has 1 to 1000 entries, not %d", p.Batch)
	case p.Folder == "":
		return errors.New("the archive needs a folder")
	}
	return nil
}

// cutoff is the latest time of the last change for an entry to be due.
func (p Policy) cutoff(now time.Time, kept time.Duration) time.Time {
	return now.Add(-time.Duration(math.Ceil(float64(kept) / max(p.Scale, 1))))
}

// Report is what a run did or, in a dry run, would do.
type Report struct {
	// At is the store's clock when the run began.
	At     time.Time
	DryRun bool
	// Deleted counts the resolved entries that were deleted, Filed the failed ones that were archived, Removed the
	// archived ones that were removed.
	Deleted, Filed, Removed int
	// Unchanged counts due entries that were changed or locked during the run.
	Unchanged int
	// Files are the names of the archive files that this run wrote.
	Files []string
}

// Run applies the policy once. After an error the report has the work done until then. Running it again continues from
// there.
func Run(ctx context.Context, db Store, policy Policy) (Report, error) {
	if err := policy.validate(); err != nil {
		return Report{}, fmt.Errorf("applying retention: %w", err)
	}
	now, err := db.Now(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("applying retention: %w", err)
	}
	r := &run{db: db, policy: policy, report: Report{At: now, DryRun: policy.DryRun}}
	if policy.DryRun {
		return r.report, r.preview(ctx)
	}
	if err := r.apply(ctx); err != nil {
		return r.report, fmt.Errorf("applying retention: %w", err)
	}
	return r.report, nil
}

// Keep applies the policy at once and then at each interval until the context ends. It calls tell with every report.
func Keep(ctx context.Context, db Store, policy Policy, every time.Duration, tell func(Report, error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		report, err := Run(ctx, db, policy)
		if ctx.Err() == nil || err == nil {
			tell(report, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// run is one application of a policy.
type run struct {
	db      Store
	policy  Policy
	archive *writable
	report  Report
}

func (r *run) due(state store.State, kept time.Duration) store.Query {
	return store.Query{
		States: []store.State{state}, UpdatedBefore: r.policy.cutoff(r.report.At, kept), OrderBy: "updatedAt",
		Limit: r.policy.Batch,
	}
}

func (r *run) preview(ctx context.Context) error {
	for _, one := range []struct {
		state store.State
		kept  time.Duration
		count *int
	}{{store.Resolved, r.policy.Resolved, &r.report.Deleted}, {store.Failed, r.policy.Failed, &r.report.Filed},
		{store.Archived, r.policy.Archived, &r.report.Removed}} {
		n, err := r.db.Count(ctx, r.due(one.state, one.kept))
		if err != nil {
			return fmt.Errorf("counting what retention is due for: %w", err)
		}
		*one.count = int(n)
	}
	return nil
}

func (r *run) apply(ctx context.Context) (err error) {
	if r.archive, err = openWritable(r.policy.Folder); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.archive.close()) }()
	if err := r.deleteResolved(ctx); err != nil {
		return err
	}
	// Entries that this run archives were changed by it, and are not yet due for removal.
	if err := r.sweep(ctx, r.due(store.Failed, r.policy.Failed), r.archive.has, r.mark); err != nil {
		return err
	}
	return r.sweep(ctx, r.due(store.Archived, r.policy.Archived), r.archive.hasFailed, r.remove)
}

func (r *run) deleteResolved(ctx context.Context) error {
	for query := r.due(store.Resolved, r.policy.Resolved); ; {
		page, after, err := r.db.List(ctx, query)
		if err != nil {
			return err
		}
		ids := make([]string, len(page))
		for i, entry := range page {
			ids[i] = entry.ID
		}
		removed, err := r.db.Remove(ctx, ids)
		r.report.Deleted += removed
		if err != nil {
			return err
		}
		if query.After = after; after == "" {
			return nil
		}
	}
}

// filed is an entry, at a version, that the archive contains.
type filed struct {
	id      string
	version int64
}

// sweep ensures that each due entry is in a complete file on disk before it finishes with the entry.
func (r *run) sweep(ctx context.Context, query store.Query, has func(store.Entry) bool,
	finish func(context.Context, []filed) error) error {
	var waiting []filed
	for last := false; !last; {
		page, after, err := r.db.List(ctx, query)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			if err := r.archive.look(); err != nil {
				return err
			}
		}
		for _, entry := range page {
			if !has(entry) {
				if err := r.archive.add(entry, r.report.At); err != nil {
					return err
				}
			}
			waiting = append(waiting, filed{entry.ID, entry.Version})
		}
		query.After, last = after, after == ""
		if !last && !r.archive.full() && len(waiting) < segmentEntries {
			continue
		}
		name, err := r.archive.complete()
		if err != nil {
			return err
		}
		if name != "" {
			r.report.Files = append(r.report.Files, name)
		}
		if err := finish(ctx, waiting); err != nil {
			return err
		}
		waiting = waiting[:0]
	}
	return nil
}

// mark archives the failed entries that are in a file.
func (r *run) mark(ctx context.Context, entries []filed) error {
	for _, one := range entries {
		err := r.db.Alter(ctx, one.id, one.version, store.Change{State: store.Archived, Notes: "archived by retention"})
		var illegal *store.IllegalTransition
		switch {
		case err == nil:
			r.report.Filed++
		case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrLocked), errors.Is(err, store.ErrNotFound),
			errors.As(err, &illegal):
			r.report.Unchanged++
		default:
			return err
		}
	}
	return nil
}

// remove deletes from the store the archived entries that are in a file. Archived entries do not change, so the removed
// content is the written one.
func (r *run) remove(ctx context.Context, entries []filed) error {
	for begin := 0; begin < len(entries); begin += r.policy.Batch {
		some := entries[begin:min(begin+r.policy.Batch, len(entries))]
		ids := make([]string, len(some))
		for i, one := range some {
			ids[i] = one.id
		}
		removed, err := r.db.Remove(ctx, ids)
		r.report.Removed += removed
		r.report.Unchanged += len(ids) - removed
		if err != nil {
			return err
		}
	}
	return nil
}
