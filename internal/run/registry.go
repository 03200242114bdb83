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
)

// openRegistry starts the registry behind the link "registry", and has the samples name their schemas as it does.
func (r *run) openRegistry(ctx context.Context) error {
	if r.samples = r.options.samples(); r.samples == nil {
		return nil
	}
	formats, old, err := r.formats()
	if err != nil {
		return err
	}
	names := map[*format.Format]format.Named{}
	if len(formats) > 0 {
		if err := r.startRegistry(ctx, formats, old); err != nil {
			return err
		}
		link, err := r.openLink(network.LinkRegistry, r.registry.Address(), r.portsOf(0).registry)
		if err != nil {
			return err
		}
		r.values.SchemaRegistryURL = "http://" + link.Address()
		r.live.watchRegistry(r.registry.Requests)
		for i, known := range r.registry.Known[:len(formats)] {
			if formats[i].NeedsGUID() && known.GUID == "" {
				return fmt.Errorf("the schema registry %s has no GUIDs of schemas, which framing: %s needs: write framing: %s",
					r.options.Subject.Input.Registry.URL, format.FramingConfluentHeaders, format.FramingConfluent)
			}
			names[formats[i]] = format.Named{ID: known.ID, GUID: known.GUID, URL: r.values.SchemaRegistryURL}
		}
	}
	var frames samples.Frames
	if value := r.options.Subject.Format; value != nil {
		frames.Value = frameOf(value.Frame(names[value]))
		frames.Unknown = frameOf(value.Absent(r.values.SchemaRegistryURL))
	}
	if old != nil {
		frames.Old = frameOf(old.Frame(names[old]))
	}
	if key := r.options.Subject.KeyFormat; key != nil {
		frames.Key = frameOf(key.Frame(names[key]))
	}
	r.samples = r.samples.Framed(frames)
	return nil
}

// formats are those that have a schema, the earlier version of the values' before that, if records have it.
func (r *run) formats() (formats []*format.Format, old *format.Format, err error) {
	formats = r.options.Subject.Formats()
	if !r.options.Scenario.SendsOldSchema() {
		return formats, nil, nil
	}
	if old, err = r.options.Subject.OldFormat(); err != nil {
		return nil, nil, fmt.Errorf("making an earlier version of the schema: %w", err)
	}
	return append([]*format.Format{old}, formats...), old, nil
}

// startRegistry starts the registry that has the schemas, or goes in front of the user's. A registry of the user's may
// refuse two versions under one subject as incompatible, so there the earlier one has a subject of its own.
func (r *run) startRegistry(ctx context.Context, formats []*format.Format, old *format.Format) (err error) {
	spec := r.options.Subject.Input.Registry
	var schemas []registry.Schema
	for _, topic := range strings.Split(r.values.InputTopics, ",") { // the same schemas, so with the same ids
		for _, one := range formats {
			subject := topic + "-" + one.Part()
			if one == old && spec != nil {
				subject += "-earlier"
			}
			schemas = append(schemas, registry.Schema{Subject: subject, Schema: *one.Schema})
		}
	}
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
		made.Headers = append(made.Headers, samples.Header{Name: header.Name, Value: header.Value, IsID: header.IsID})
	}
	return made
}
