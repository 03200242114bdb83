package scenarios

// The shipped scenarios, and how documents that are part of the program are found.

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// Names returns the names of the shipped scenarios, sorted.
func Names() []string { return shipped().Names() }

// Shipped returns the text of a shipped scenario.
func Shipped(name string) (data []byte, ok bool) { return shipped().Shipped(name) }

// Find returns the scenario that an argument means: a shipped one by its name, otherwise a file. The error suggests
// what may have been meant.
func Find(arg string) (name string, data []byte, err error) { return shipped().Find(arg) }

func shipped() Library { return Library{What: "scenario", Files: library} }

// Library holds documents that are part of the program: library/NAME.yaml in Files.
type Library struct {
	What  string // what a document is, for messages: scenario
	Files embed.FS
}

// Names returns the names of the documents, sorted.
func (l Library) Names() []string {
	entries, err := fs.ReadDir(l.Files, "library")
	if err != nil {
		return nil // the folder is part of the program: it can be read
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// Shipped returns the text of the document with that name.
func (l Library) Shipped(name string) (data []byte, ok bool) {
	data, err := l.Files.ReadFile("library/" + name + ".yaml")
	return data, err == nil
}

// Find returns the document that an argument means: a shipped one by its name, otherwise a file. The error suggests
// what may have been meant.
func (l Library) Find(arg string) (name string, data []byte, err error) {
	if data, ok := l.Shipped(arg); ok {
		return arg, data, nil
	}
	isPath := strings.ContainsAny(arg, `/\`) || filepath.Ext(arg) != ""
	data, err = os.ReadFile(arg)
	switch {
	case err == nil:
		return arg, data, nil
	case !errors.Is(err, fs.ErrNotExist) || isPath:
		return "", nil, fmt.Errorf("reading the %s %s: %w", l.What, arg, cause(err))
	}
	if near := Closest(arg, l.Names()); near != "" {
		return "", nil, fmt.Errorf("there is no %s %q: did you mean %s?", l.What, arg, near)
	}
	const mostNamed = 12
	known := "one of " + strings.Join(l.Names(), ", ")
	if len(l.Names()) > mostNamed {
		known = "one that dlqbench list prints"
	}
	return "", nil, fmt.Errorf("there is no %s %q: name a file, or %s", l.What, arg, known)
}

// cause is the reason of a file's error without the path, which the message has already.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
