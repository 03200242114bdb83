// Package registry defines the faults of the schema registry: its answers, as opposed to those of the link to it. The
// package defines how these faults are written, checked, described and explained, and decides what a request is
// answered. The registry of the run carries the decision out.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Target is the name of the schema registry in plans and reports, and of the link to it.
const Target = "registry"

// Registry changes what the schema registry answers. Exactly one of the fields is set.
type Registry struct {
	// Error is the status that every request is answered with, such as 503.
	Error int `json:"error,omitempty" jsonschema:"minimum=500,maximum=599"`
	// Slow: every answer comes this much later.
	Slow units.Duration `json:"slow,omitempty"`
	// UnknownID: no schema is found by its id: 404, with the error code 40403.
	UnknownID bool `json:"unknown_id,omitempty"`
	// Incompatible: no schema can be registered: 409, as if it were incompatible with the version before.
	Incompatible bool `json:"incompatible,omitempty"`
}

// action is one fault of the registry. Its function starts the fault and returns the function that ends it.
type action = faults.Action[Registry, start]

type start func(service Service, r *Registry, seen func()) (end func())

const made = "The registry of the run answers in this way while the fault is in force; a registry of your own " +
	"(input.registry) does not get these requests. Its connections are not affected: for those, the link registry has " +
	"faults of kind network. Most clients ask for a schema once and keep it, so start an instance while the fault is in " +
	"force."

// actions returns all faults of the registry.
func actions() []action {
	return []action{{
		What: func(r *Registry) string { return fmt.Sprintf("every request answered %d", r.Error) },
		Do:   answer(func(r *Registry, _, _ bool) int { return r.Error }),
		Entry: faults.Entry{Name: "registry.error", Summary: "The schema registry fails.",
			Does: "Every request is answered with this status (500 to 599), whatever it asks for.", Made: made,
			Shows: "A correct consumer holds the record, asks again after a wait, and commits nothing past it. Bugs: good " +
				"records dead-lettered because their schema could not be loaded, requests without a wait between them, a " +
				"process that ends.",
			Effects: []string{"requests answered with an error"}, Keys: []string{"registry.error"},
			Example: "{at: 1s, for: 3s, registry: {error: 503}}"},
	}, {
		What: func(r *Registry) string { return fmt.Sprintf("every request answered %s later", r.Slow) },
		Do:   func(service Service, r *Registry, seen func()) func() { return service.Slow(r.Slow.D(), seen) },
		Entry: faults.Entry{Name: "registry.slow", Summary: "The schema registry is slow.",
			Does: "Every request is answered as usual, after this delay.", Made: made,
			Shows: "A correct consumer waits, or times out and asks again. Bugs: a timeout that counts as a failure of the " +
				"record, a poll loop that misses its deadline, requests for one schema from every thread.",
			Effects: []string{"answers delayed"}, Keys: []string{"registry.slow"},
			Example: "{at: 1s, for: 3s, registry: {slow: 500ms}}"},
	}, {
		What: func(*Registry) string { return "no schema found by its id" },
		Do:   answer(func(_ *Registry, byID, _ bool) int { return where(byID, http.StatusNotFound) }),
		Entry: faults.Entry{
			Name: "registry.unknown_id", Summary: "The schema registry does not know the ids that records name.",
			Does: "Requests for a schema by its id, also by its GUID, are answered 404 with the error code 40403, as by a " +
				"registry that lags behind the one that registered the schema, or was restored from a backup.", Made: made,
			Shows: "A correct consumer waits, or treats the records as ones that it can't read. So dead letters from " +
				"then on, and their counts, are not judged by what was attempted before; losses, commits and contents are. " +
				"Bugs: a process that ends at each such record, records that are skipped without a dead letter.",
			Effects: []string{"schemas not found"}, Keys: []string{"registry.unknown_id"},
			Example: "{at: 1s, for: 2s, registry: {unknown_id: true}}"},
	}, {
		What: func(*Registry) string { return "every schema that is registered refused as incompatible" },
		Do:   answer(func(_ *Registry, _, registers bool) int { return where(registers, http.StatusConflict) }),
		Entry: faults.Entry{Name: "registry.incompatible", Summary: "The schema registry refuses to register schemas.",
			Does: "Requests to register a schema are answered 409, as for a schema that is incompatible with the version " +
				"before. Only subjects that register schemas notice it, such as those whose dead letters or results are " +
				"serialized again.", Made: made,
			Shows: "A correct consumer takes it for a failure to write: it commits nothing past the record, and says so. " +
				"Bugs: an exception of the serializer that is logged, and the record committed.",
			Effects: []string{"registrations refused"}, Keys: []string{"registry.incompatible"},
			Example: "{at: 1s, for: 2s, registry: {incompatible: true}}"},
	}}
}

// where returns the status if the rule is about the request, else 0.
func where(concerned bool, status int) int {
	if concerned {
		return status
	}
	return 0
}

// answer starts a fault that answers requests by a rule.
func answer(rule func(r *Registry, byID, registers bool) (status int)) start {
	return func(service Service, r *Registry, seen func()) func() {
		return service.Answer(func(byID, registers bool) int {
			status := rule(r, byID, registers)
			if status != 0 {
				seen()
			}
			return status
		})
	}
}

// Entries implements faults.Fault.
func (*Registry) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (r *Registry) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), r)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(r)
	traits.Target, traits.Name, traits.Patient = Target, faults.Dashed("registry "+chosen.Key()), true
	traits.HidesSchemas = r.UnknownID
	traits.Idle = history.Idle{
		Needs: history.NeedRecord,
		Why:   "the schema registry got no request that it concerns in the " + history.InForce + " in which it was in force",
		Do:    "let an instance start while it is in force, since most clients ask for a schema once",
	}
	return traits
}

// Validate implements faults.Fault.
func (r *Registry) Validate(setting faults.Setting) []faults.Defect {
	if !setting.Registry {
		return faults.At("", "%s", faults.NoRegistry)
	}
	_, defects := faults.CheckActions(actions(), r)
	return slices.Concat(defects,
		faults.AtIf(r.UnknownID && setting.SkipsUnread, "/unknown_id", "the subject skips what it can't read (poison: "+
			"skip), so it would skip good records, and nothing of that could be judged: use error or slow"),
		faults.AtIf(r.UnknownID && setting.HaltsUnread, "/unknown_id", "the subject halts at what it can't read (poison: "+
			"halt), so it would halt at good records, and nothing of that could be judged: use error or slow"))
}

// Service is the schema registry of a run, as far as faults change it. Each method returns a function that ends the
// change. The functions passed to it are called concurrently.
type Service interface {
	// Answer lets rule answer requests. It is called with whether a request asks for a schema by its id or registers one,
	// and returns a status; 0 leaves the answer to rules that were added later, and then to the registry.
	Answer(rule func(byID, registers bool) (status int)) (end func())
	// Slow delays every answer; seen is called for each.
	Slow(by time.Duration, seen func()) (end func())
}

// Injector injects the faults of kind "registry". It implements faults.Injector. Faults may overlap: delays add up, and
// of several that answer a request, the one that started first does.
//
// Effects count requests. The first is reported immediately, the rest when the fault is lifted.
type Injector struct {
	Service Service // nil: the run has no registry
}

// Inject starts a fault. Lifting it releases requests that wait, and reports the effects.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	spec, chosen, err := faults.Settings(active, actions())
	if err == nil && i.Service == nil {
		err = errors.New(faults.NoRegistry)
	}
	if err != nil {
		return nil, fmt.Errorf("breaking the schema registry: %w", err)
	}
	var count atomic.Int64
	end := chosen.Do(i.Service, spec, func() {
		if count.Add(1) == 1 {
			active.Effect(chosen.Effects[0], 1, 0, history.None)
		}
	})
	return func(context.Context) error {
		end()
		if more := count.Load() - 1; more > 0 {
			active.Effect(chosen.Effects[0], int(more), 0, history.None)
		}
		return nil
	}, nil
}
