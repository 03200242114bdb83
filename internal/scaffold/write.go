package scaffold

// The files themselves.

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates/*.tmpl
var templates embed.FS

// File is one of the files to begin with; Path is relative to the repository.
type File struct {
	Path string
	Text []byte
}

// released matches versions that the repository of dlqbench has a tag for.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// Files are the files to begin with for a proposal; version is the program's own, which the workflow uses if it was
// released.
func Files(proposal Proposal, version string) ([]File, error) {
	if !released.MatchString(version) {
		version = "main"
	}
	proposal.Missing = proposal.missing()
	group := proposal.Variables.or(proposal.Framework).Group
	if group.Because != "" && proposal.Variables.Group.Name == "" { // the framework reads it
		proposal.Env = append(proposal.Env, Address{group, "{{.GroupID}}"})
	}
	if len(proposal.Called) > 0 && proposal.Called[0].Kind != "http" {
		proposal.Failures.Alike = false // they have no statuses of HTTP
	}
	proposal.Framework = proposal.orPlain()
	values := struct {
		Proposal
		Version string
		Suite   []chosen
		Require string
	}{proposal, version, proposal.suite(), proposal.required()}
	all, err := parsed()
	if err != nil {
		return nil, err
	}
	var files []File
	for _, one := range []struct{ path, from string }{
		{"dlqbench.yaml", "dlqbench.yaml.tmpl"}, {"subject.yaml", "subject.yaml.tmpl"},
		{".github/workflows/dlqbench.yml", "workflow.yml.tmpl"},
	} {
		var text strings.Builder
		if err := all.ExecuteTemplate(&text, one.from, values); err != nil {
			return nil, fmt.Errorf("filling in %s: %w", one.path, err)
		}
		files = append(files, File{Path: one.path, Text: []byte(text.String())})
	}
	return files, nil
}

// parsed are the templates of all files.
func parsed() (*template.Template, error) {
	all, err := template.New("files").Funcs(template.FuncMap{"list": list, "line": oneLine, "single": single}).
		ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("reading the files to begin with: %w", err)
	}
	return all, nil
}

// list writes a command as YAML has it in one line; JSON is YAML.
func list(words []string) (string, error) {
	var parts []string
	for _, word := range words {
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(word); err != nil {
			return "", err
		}
		parts = append(parts, strings.TrimSpace(text.String()))
	}
	return "[" + strings.Join(parts, ", ") + "]", nil
}

// Ignore adds to the .gitignore of the folder what dlqbench writes there, and returns what it has added. What is there
// is never changed.
func Ignore(dir string) (added []string, err error) {
	path := filepath.Join(dir, ".gitignore")
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(before)) {
		there[strings.Trim(strings.TrimSpace(line), "/")] = true
	}
	text := ""
	for _, folder := range []string{".dlqbench/", "gate/", "runs/"} {
		if !there[strings.Trim(folder, "/")] {
			added, text = append(added, folder), text+"/"+folder+"\n"
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	if len(before) > 0 && before[len(before)-1] != '\n' {
		text = "\n" + text
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("adding to %s: %w", path, err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("adding to %s: %w", path, err)
	}
	return added, nil
}

// Write writes the file below the folder; it reports false, and leaves it as it is, where there is one already, unless
// force is set.
func Write(dir string, file File, force bool) (written bool, err error) {
	path := filepath.Join(dir, filepath.FromSlash(file.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("making the folder of %s: %w", path, err)
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL // also where a link leads nowhere
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	target, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = target.Write(file.Text)
	if err = errors.Join(err, target.Close()); err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	return true, nil
}
