package manage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

const (
	// pageSize is the number of entries read at a time.
	pageSize = 500
	// maxFailures is the maximum number of failures listed in a report.
	maxFailures = 20
)

// Report counts what became of the selected entries.
type Report struct {
	Selected int64 `json:"selected"`
	Done     int64 `json:"done"`
	// Skipped entries were locked, changed or removed by somebody else meanwhile, or are in a state that doesn't allow
	// it; Failed ones were refused.
	Skipped int64 `json:"skipped"`
	Failed  int64 `json:"failed"`
	// Failures tells the first 20 of both.
	Failures []string      `json:"failures,omitempty"`
	Took     time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
}

func (r *Report) tell(id string, err error) {
	if len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, id+": "+err.Error())
	}
}

// count records the result for one entry. fatal is an error that concerns the store and not the entry.
func (r *Report) count(id string, err error) (fatal error) {
	var illegal *store.IllegalTransition
	switch {
	case err == nil:
		r.Done++
		return nil
	case errors.Is(err, store.ErrLocked), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNotFound),
		errors.As(err, &illegal), errors.Is(err, store.ErrUnknownStatus):
		r.Skipped++
		r.tell(id, err)
		return nil
	}
	r.Failed++
	r.tell(id, err)
	return err
}

// Each calls do for each entry of the query, page by page. Entries that leave the query because do changes them cause
// no gaps, because cursors are values, not row numbers.
func Each(ctx context.Context, from store.Reader, query store.Query, limit int, do func(store.Entry) error) error {
	query.Limit = pageSize
	for seen := 0; ; {
		page, after, err := from.List(ctx, query)
		if err != nil {
			return fmt.Errorf("listing dead letters: %w", err)
		}
		for _, entry := range page {
			if limit > 0 && seen >= limit {
				return nil
			}
			seen++
			if err := do(entry); err != nil {
				return err
			}
		}
		if after == "" {
			return nil
		}
		query.After = after
	}
}

// Decision is a person's decision about entries.
type Decision struct {
	// State is Archived (discard) or Resolved (resolve).
	State store.State
	By    string
	Notes string
	// DryRun only counts the entries.
	DryRun bool
	// OnEntry, if set, is called with each entry before it is changed.
	OnEntry func(store.Entry)
}

// Decide applies the decision to all entries of the query.
func Decide(ctx context.Context, there store.Store, query store.Query, decision Decision) (Report, error) {
	how := store.Discard
	if decision.State == store.Resolved {
		how = store.ManualResolution
	}
	var report Report
	began := time.Now()
	err := Each(ctx, there, query, 0, func(entry store.Entry) error {
		report.Selected++
		if decision.OnEntry != nil {
			decision.OnEntry(entry)
		}
		if decision.DryRun {
			return nil
		}
		now, err := there.Now(ctx)
		if err != nil {
			return fmt.Errorf("asking the store for the time: %w", err)
		}
		err = there.Alter(ctx, entry.ID, entry.Version, store.Change{
			State: decision.State, Resolution: &store.Resolution{At: now, How: how, By: decision.By, Notes: decision.Notes},
			Notes: decision.Notes,
		})
		return report.count(entry.ID, Explain(ctx, there, entry.ID, err))
	})
	report.end(began)
	return report, err
}

func (r *Report) end(began time.Time) {
	r.Took = time.Since(began)
	r.Seconds = r.Took.Seconds()
}

// Edit replaces the value of an unlocked entry. The entry keeps its state; replay it afterwards.
func Edit(ctx context.Context, there store.Store, entry store.Entry, value []byte, notes string) error {
	change := store.Change{State: entry.State, Value: value, Notes: notes}
	change.OriginalEvent = store.OriginalEvent(value, "", entry.EventID)
	if pattern := store.EventPattern(change.OriginalEvent); pattern == "" && entry.Pattern != "" {
		change.OriginalEvent = store.OriginalEvent(value, entry.Pattern, entry.EventID)
	}
	return Explain(ctx, there, entry.ID, there.Alter(ctx, entry.ID, entry.Version, change))
}

// Explain adds to the error of a refused change who holds the entry, or how it has changed since it was read, and a
// remedy.
func Explain(ctx context.Context, there store.Reader, id string, err error) error {
	if !errors.Is(err, store.ErrLocked) && !errors.Is(err, store.ErrStale) {
		return err
	}
	entry, getErr := there.Get(ctx, id)
	switch {
	case getErr != nil:
		return err
	case entry.LockedBy != "":
		return fmt.Errorf("%w: %s has it since %s, until %s unless it is renewed; try again when it is done", store.ErrLocked,
			entry.LockedBy, moment(entry.LockedAt), moment(entry.LeaseUntil))
	}
	return fmt.Errorf("%w: it is %s since %s; look at it again (dlqbench dlq show %s)", store.ErrStale, entry.State,
		moment(entry.UpdatedAt), id)
}

// Purge removes the entries of the query, except locked ones.
func Purge(ctx context.Context, there store.Store, query store.Query, dryRun bool,
	onEntry func(store.Entry)) (Report, error) {
	var (
		report Report
		ids    []string
	)
	began := time.Now()
	remove := func() error {
		if len(ids) == 0 || dryRun {
			return nil
		}
		removed, err := there.Remove(ctx, ids)
		report.Done += int64(removed)
		ids = ids[:0]
		if err != nil {
			return fmt.Errorf("removing dead letters: %w", err)
		}
		return nil
	}
	err := Each(ctx, there, query, 0, func(entry store.Entry) error {
		report.Selected++
		if onEntry != nil {
			onEntry(entry)
		}
		if ids = append(ids, entry.ID); len(ids) < pageSize {
			return nil
		}
		return remove()
	})
	err = errors.Join(err, remove())
	if !dryRun && err == nil {
		report.Skipped = report.Selected - report.Done
	}
	report.end(began)
	return report, err
}
