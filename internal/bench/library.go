package bench

// The shipped benches, and how a bench is found.

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlqbench/dlqbench/scenarios"
)

//go:embed library/*.yaml
var library embed.FS

// Names returns the names of the shipped benches, sorted.
func Names() []string {
	entries, err := fs.ReadDir(library, "library")
	if err != nil {
		return nil // the folder is part of the program: it can be read
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// Shipped returns the text of a shipped bench.
func Shipped(name string) (data []byte, ok bool) {
	data, err := library.ReadFile("library/" + name + ".yaml")
	return data, err == nil
}

// Find returns the bench that an argument means: a shipped one by its name, otherwise a file. The error suggests what may have been meant.
func Find(arg string) (name string, data []byte, err error) {
	if data, ok := Shipped(arg); ok {
		return arg, data, nil
	}
	data, err = os.ReadFile(arg)
	if err == nil {
		return arg, data, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(arg, `/\`) || filepath.Ext(arg) != "" {
		return "", nil, fmt.Errorf("reading the bench: %w", err)
	}
	if near := scenarios.Closest(arg, Names()); near != "" {
		return "", nil, fmt.Errorf("there is no bench %q: did you mean %s?", arg, near)
	}
	return "", nil, fmt.Errorf("there is no bench %q: name a file, or one of %s", arg, strings.Join(Names(), ", "))
}
