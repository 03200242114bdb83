package scenarios

// What the records of a real service are made of: samples of its own.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Input is what the subject's records are made of.
type Input struct {
	// Samples is a file with a record in each line, as JSON: absolute, or relative to subject.yaml. Its records take
	// turns, each with an id of its own.
	Samples string `json:"samples" jsonschema:"required,minLength=1"`
	// Lines says what a line is: value (default), the record's value; or envelope, an object with the members value, key
	// and headers.
	Lines string  `json:"lines,omitempty" jsonschema:"enum=value,enum=envelope"`
	ID    InputID `json:"id" jsonschema:"required"`
	// Header: false, if the records must not have the header dlqbench-id, by which records without a readable value are
	// followed.
	Header bool `json:"header,omitempty"`
}

// InputID is where a record carries its identity.
type InputID struct {
	// At is the path to a string or a whole number in the value, such as $.order.id.
	At string `json:"at" jsonschema:"required"`
	// As is how ids are written: uuid (version 8), int64 (a whole number of 16 digits, below 2^53), or text (24 capitals
	// and digits). Default: uuid, if all samples have UUIDs there; int64, if all have whole numbers or digits there; else
	// text.
	As string `json:"as,omitempty" jsonschema:"enum=text,enum=uuid,enum=int64"`
}

func defaultInput() Input { return Input{Lines: samples.LinesValue, Header: true} }

// UnmarshalJSON reads an input over its defaults.
func (i *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	filled := plain(defaultInput())
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*i = Input(filled)
	return nil
}

// checkInput reads the samples. Folder is what their path is relative to.
func (c *checker) checkInput(s *SubjectFile, folder string) {
	if s.Input == nil || !c.allSound("/input") {
		return
	}
	place, err := samples.ParsePlace(s.Input.ID.At)
	if err != nil {
		c.at("/input/id/at", err.Error())
		return
	}
	path := s.Input.Samples
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if s.Samples = c.readSamples(path, samples.Options{
		Lines: s.Input.Lines, ID: place, As: history.IDForm(s.Input.ID.As),
	}); s.Samples == nil {
		return
	}
	for _, name := range s.Samples.HeaderNames() {
		_, named := s.RecordHeaders[name]
		switch {
		case ownHeader.MatchString(name):
			c.at("/input/samples", fmt.Sprintf("the samples have the header %s, which every record has of its own here: "+
				"take it out of %s", name, path))
		case named:
			c.at("/input/samples",
				fmt.Sprintf("the samples have the header %s, and so has record_headers: keep one", name))
		}
	}
	dialect, err := deadletter.Named(string(s.Contract.DLQ.Envelope))
	if err == nil && dialect.Traits().JSON && s.Contract.DLQ.KeepsValue {
		c.at("/input", fmt.Sprintf("dead letters with the envelope %s hold values that were decoded and encoded again, "+
			"which can't be compared with samples yet: leave input out, or withdraw the promise (dlq: {keeps_value: false})",
			s.Contract.DLQ.Envelope))
	}
}

// readSamples reads a file; nil if something is wrong with it.
func (c *checker) readSamples(path string, options samples.Options) *samples.Set {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.at("/input/samples", fmt.Sprintf("there is no file %s: the path is relative to the folder of this file", path))
		return nil
	case err == nil && !info.Mode().IsRegular():
		c.at("/input/samples", fmt.Sprintf("%s is not a file: name one with a record in each line", path))
		return nil
	}
	data, err := os.Open(path)
	if err != nil {
		c.at("/input/samples", fmt.Sprintf("reading the samples: %v", err))
		return nil
	}
	defer data.Close()
	set, problems := samples.Read(data, options)
	for _, one := range problems {
		c.problems = append(c.problems, Problem{File: path, Line: one.Line, Column: one.Column, Source: one.Source,
			Message: one.Message})
	}
	return set
}

// unfitInput says why records made from the subject's samples can't be what the scenario is about; "" if they can.
func (s *Scenario) unfitInput(subject *SubjectFile) string {
	if subject.Input == nil {
		return ""
	}
	load := s.Workload
	switch {
	case !subject.Input.Header && (load.Tombstones > 0 || load.Garbage > 0):
		return s.Name + " sends records without a readable value, which can only be followed by the header dlqbench-id: " +
			"leave input.header: false out, or run another scenario"
	case subject.Samples != nil && subject.Samples.HasKeys() && load.Keys.Hot > 0:
		return s.Name + " is about one key with most of the records, but the subject's samples have keys of their own: " +
			"leave their keys out, or run another scenario"
	}
	for _, name := range slices.Sorted(maps.Keys(load.RecordHeaders)) {
		if subject.Samples != nil && slices.Contains(subject.Samples.HeaderNames(), name) {
			return fmt.Sprintf("%s gives its records the header %s, which the subject's samples have, too: take it out of the "+
				"samples, or run another scenario", s.Name, name)
		}
	}
	return ""
}
