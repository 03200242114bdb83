package scenarios

// The shipped scenarios.

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

// Shipped returns the text of a shipped scenario.
func Shipped(name string) (data []byte, ok bool) {
	data, err := library.ReadFile("library/" + name + ".yaml")
	return data, err == nil
}

// Find returns the scenario that an argument means: a shipped one by its name, otherwise a file. The error suggests what may
// have been meant.
func Find(arg string) (name string, data []byte, err error) {
	if data, ok := Shipped(arg); ok {
		return arg, data, nil
	}
	isPath := strings.ContainsAny(arg, `/\`) || filepath.Ext(arg) != ""
	data, err = os.ReadFile(arg)
	switch {
	case err == nil:
		return arg, data, nil
	case !errors.Is(err, fs.ErrNotExist) || isPath:
		return "", nil, fmt.Errorf("reading the scenario %s: %w", arg, cause(err))
	}
	if near := Closest(arg, Names()); near != "" {
		return "", nil, fmt.Errorf("there is no scenario %q: did you mean %s?", arg, near)
	}
	return "", nil, fmt.Errorf("there is no scenario %q: name a file, or one of %s", arg, strings.Join(Names(), ", "))
}

// cause is the reason of a file's error without the path, which the message has already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
