package run

// The schema registry of a subject whose records have a schema.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/env/registry"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// openRegistry starts the registry behind the link "registry", and has the samples name their schemas as it does.
func (r *run) openRegistry(ctx context.Context) error {
	if r.samples = r.options.samples(); r.samples == nil {
		return nil
	}
	made, err := r.made()
	if err != nil {
		return err
	}
	names := map[*format.Format]format.Named{}
	if len(r.options.Subject.Formats()) > 0 {
		if names, err = r.startRegistry(ctx, made); err != nil {
			return err
		}
	}
	var frames []samples.Frames
	for _, one := range made {
		var of samples.Frames
		if one.Format != nil {
			of.Value = frameOf(one.Format.Frame(names[one.Format]))
			of.Unknown = frameOf(one.Format.Absent(r.values.SchemaRegistryURL))
		}
		if one.old != nil {
			of.Old = frameOf(one.old.Frame(names[one.old]))
		}
		if one.KeyFormat != nil {
			of.Key = frameOf(one.KeyFormat.Frame(names[one.KeyFormat]))
		}
		frames = append(frames, of)
	}
	r.samples = r.samples.Framed(frames...)
	return nil
}

// madeFrom is what the records of a topic are made from, with the earlier version of its format, if records have it.
type madeFrom struct {
	*scenarios.Made
	old *format.Format
}

// schemas are the formats that have a schema, the earlier version before the others.
func (m madeFrom) schemas() []*format.Format {
	if m.old == nil {
		return m.Formats()
	}
	return append([]*format.Format{m.old}, m.Formats()...)
}

// made returns what the records are made from: one for all topics, or one for each.
func (r *run) made() (all []madeFrom, err error) {
	for i := range r.options.Subject.Made {
		one := madeFrom{Made: &r.options.Subject.Made[i]}
		if r.options.Scenario.SendsOldSchema() {
			if one.old, err = one.OldFormat(); err != nil {
				return nil, fmt.Errorf("making an earlier version of the schema: %w", err)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// startRegistry starts the registry that has the schemas, or goes in front of the user's, behind its link. It returns
// the names that the schemas have there. A registry of the user's may refuse two versions under one subject as
// incompatible, so there the earlier one has a subject of its own.
func (r *run) startRegistry(ctx context.Context, made []madeFrom) (map[*format.Format]format.Named, error) {
	own := r.options.Subject.Input.Registry
	var schemas []registry.Schema
	var of []*format.Format
	for i, topic := range strings.Split(r.values.InputTopics, ",") {
		from := made[min(i, len(made)-1)] // the same schemas have the same ids
		for _, one := range from.schemas() {
			subject := topic + "-" + one.Part()
			if one == from.old && own != nil {
				subject += "-earlier"
			}
			schemas, of = append(schemas, registry.Schema{Subject: subject, Schema: *one.Schema}), append(of, one)
		}
	}
	if err := r.openRegistryOf(ctx, schemas); err != nil {
		return nil, err
	}
	link, err := r.openLink(network.LinkRegistry, network.Upstream{Address: r.registry.Address()}, r.portsOf(0).registry)
	if err != nil {
		return nil, err
	}
	r.values.SchemaRegistryURL = "http://" + link.Address()
	r.live.watchRegistry(r.registry.Requests)
	names := map[*format.Format]format.Named{}
	for i, known := range r.registry.Known[:len(of)] {
		if of[i].NeedsGUID() && known.GUID == "" {
			return nil, fmt.Errorf("the schema registry %s has no GUIDs of schemas, which framing: %s needs: write framing: %s",
				own.URL, format.FramingConfluentHeaders, format.FramingConfluent)
		}
		if _, named := names[of[i]]; !named {
			names[of[i]] = format.Named{ID: known.ID, GUID: known.GUID, URL: r.values.SchemaRegistryURL}
		}
	}
	return names, nil
}

// openRegistryOf starts the registry that has these schemas, or goes in front of the user's.
func (r *run) openRegistryOf(ctx context.Context, schemas []registry.Schema) (err error) {
	spec := r.options.Subject.Input.Registry
	if spec == nil {
		r.registry, err = registry.Start(schemas...)
		return err
	}
	own := registry.Own{URL: spec.URL}
	if own.Authorization, own.Roots, err = spec.Access(filepath.Dir(r.options.SubjectFile), os.LookupEnv); err != nil {
		return err
	}
	r.registry, err = registry.Forward(ctx, own, r.values.RunID, schemas...)
	return err
}

// frameOf is a format's frame for samples, which know no formats.
func frameOf(frame format.Frame) samples.Frame {
	made := samples.Frame{Head: frame.Head}
	for _, header := range frame.Headers {
		made.Headers = append(made.Headers, samples.Header(header))
	}
	return made
}
