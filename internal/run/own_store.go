package run

// The subject's own dead-letter store. It exists already, or the subject creates it. The run only watches it.

import (
	"context"
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/storewatch"
	"github.com/dlqbench/dlqbench/scenarios"
)

// ownStore returns the subject's own store, nil if the subject declares none.
func (r *run) ownStore() *scenarios.OwnStore {
	if r.options.Subject == nil {
		return nil
	}
	return r.options.Subject.Store
}

// openOwnStore determines the address that the subject is given: that of the link "store", if the store is a server.
func (r *run) openOwnStore() error {
	values := r.values
	values.WorkDir = r.workDir(0)
	rendered, err := r.options.Subject.Render(values)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
	}
	r.store.address, r.store.linked = rendered.Store.URL, rendered.Store.URL
	if !strings.HasPrefix(r.store.address, "sqlite:") {
		if err := r.linkStore(); err != nil {
			return err
		}
	}
	r.values.StoreURL = r.store.linked
	return nil
}

// watchOwnStore begins to watch once the subject is up, because the subject may create its table only then.
func (r *run) watchOwnStore(ctx context.Context) error {
	own := r.ownStore()
	if own == nil {
		return nil
	}
	c := own.Columns
	var err error
	r.store.watcher, err = storewatch.Start(ctx, storewatch.Config{
		Address: r.store.address, Poll: own.Poll.D(), Topics: r.header.Topics, IDs: r.ids, Records: r.header.Records,
		Clock: r.clock, Sink: r.live, Log: r.options.Log, Layout: storewatch.Layout{
			Table: own.Table, Audited: own.Audited, Words: own.States(),
			Columns: storewatch.Columns{
				ID: c.ID, Status: c.Status, LockedBy: c.LockedBy, LeaseUntil: c.LeaseUntil, Version: c.Version, Retries: c.Retries,
				NextRetryAt: c.NextRetryAt,
				SourceTopic: c.SourceTopic, SourcePartition: c.SourcePartition, SourceOffset: c.SourceOffset, Payload: c.Payload,
				EventID: c.EventID,
			},
		},
	})
	if err != nil {
		return fmt.Errorf("%w (store.table and store.columns of %s say where to look)", err, r.options.SubjectFile)
	}
	return nil
}
