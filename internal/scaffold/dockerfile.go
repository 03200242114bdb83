package scaffold

// How a Dockerfile starts the consumer.

import (
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// dockerfile matches the names of Dockerfiles, and notToRun those for tests and for work on the code.
	dockerfile = regexp.MustCompile(`^Dockerfile(?:\.\w[\w-]*)?$|^[\w-]+\.Dockerfile$`)
	notToRun   = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:tests?|dev|local|lint|ci|build)(?:[^a-z]|$)`)
	// instruction matches those that say what is started, and where.
	instruction = regexp.MustCompile(`(?i)^(ENTRYPOINT|CMD|WORKDIR)\s+(.+)$`)
	// ofShell matches what only a shell understands.
	ofShell = regexp.MustCompile("[$&|;<>*?\"'`()]")
)

// start is how a Dockerfile starts a program: the words, and the folder in the image in which they are run.
type start struct {
	file, folder string
	words        []string
}

// dockerStarts are those of the Dockerfiles at the top and up to two folders below, the likeliest to be a consumer's
// first.
func (r repository) dockerStarts() (all []start) {
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		files, _ := fs.Glob(r, pattern) // the patterns are good ones
		for _, file := range files {
			folder, base := path.Dir(file), path.Base(file)
			if !dockerfile.MatchString(base) || notToRun.MatchString(strings.TrimPrefix(base, "Dockerfile")) ||
				folder != "." && folder != "build" && r.foreign(folder) {
				continue
			}
			if one := (source{file, r.read(file)}).start(); len(one.words) > 0 {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b start) int { return r.likelierFile(a.file, b.file) })
	return append(r.composeStarts(), all...)
}

var (
	// ownCommand matches a command of a service in a file of Docker Compose, and item one of the words in a list below.
	ownCommand = regexp.MustCompile(`^\s*command:\s*(.*)$`)
	item       = regexp.MustCompile(`^\s*-\s+["']?(.*?)["']?\s*$`)
)

// composeStarts are the commands in files of Docker Compose at the top that sound like a consumer's.
func (r repository) composeStarts() (all []start) {
	files, _ := fs.Glob(r, "*compose*") // the pattern is a good one
	for _, file := range files {
		if !composeFile.MatchString(file) {
			continue
		}
		lines := strings.Split(r.read(file), "\n")
		for i, line := range lines {
			found := ownCommand.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			words := commandAt(found[1], lines[i+1:])
			text := strings.Join(words, " ")
			if sounds(text) > 0 && !strings.HasPrefix(text, "kafka-") && !strings.Contains(text, "$") { // Kafka's own tools
				all = append(all, start{file: file, folder: "/", words: words})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b start) int {
		return sounds(strings.Join(b.words, " ")) - sounds(strings.Join(a.words, " "))
	})
	return all
}

// commandAt are the words of a command of Docker Compose: a line, a list in it, or the list in the lines below.
func commandAt(line string, below []string) (words []string) {
	if line = strings.TrimSpace(line); line != "" {
		return wordsOf(line)
	}
	for _, one := range below {
		found := item.FindStringSubmatch(one)
		if found == nil {
			break
		}
		words = append(words, found[1])
	}
	if len(words) == 3 && words[1] == "-c" {
		return wordsOf(words[2])
	}
	return words
}

// start is that of a Dockerfile, without words if it has none, or one that only a shell understands.
func (s source) start() start {
	of := start{file: s.path, folder: "/"}
	var entrypoint, command []string
	for line := range strings.Lines(strings.ReplaceAll(s.text, "\\\n", " ")) {
		found := instruction.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		switch rest := strings.TrimSpace(found[2]); strings.ToUpper(found[1]) {
		case "ENTRYPOINT":
			entrypoint, command = wordsOf(rest), nil
		case "CMD":
			command = wordsOf(rest)
		default:
			of.folder = path.Join(of.folder, rest)
			if path.IsAbs(rest) {
				of.folder = path.Clean(rest)
			}
		}
	}
	if len(entrypoint) > 0 && strings.HasSuffix(entrypoint[0], ".sh") { // it usually ends with exec "$@"
		entrypoint = nil
	}
	of.words = slices.Concat(entrypoint, command)
	if len(of.words) > 0 && slices.Contains([]string{"tini", "dumb-init"}, path.Base(of.words[0])) {
		of.words = of.words[1+max(0, slices.Index(of.words, "--")):]
	}
	for len(of.words) > 2 && slices.Contains([]string{"poetry run", "uv run"}, strings.Join(of.words[:2], " ")) {
		of.words = of.words[2:]
	}
	return of
}

// wordsOf are the words of an instruction, as a list of JSON or as a line for a shell.
func wordsOf(rest string) (all []string) {
	if json.Unmarshal([]byte(rest), &all) == nil {
		if len(all) != 3 || all[1] != "-c" {
			return all
		}
		rest = all[2] // sh -c
	}
	rest = strings.TrimPrefix(strings.TrimSpace(rest), "exec ")
	if ofShell.MatchString(rest) {
		return nil
	}
	return strings.Fields(rest)
}

// here makes arguments of those in an image that hold on this machine, too: several instances listen at ports of their
// own, and on this machine alone.
func here(words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case joined && flag == "--port":
			words[i] = flag + "={{.Port}}"
		case joined && flag == "--host":
			words[i] = flag + "=127.0.0.1"
		case i+1 < len(words) && (word == "--port" || word == "-p"):
			words[i+1] = "{{.Port}}"
		case i+1 < len(words) && word == "--host":
			words[i+1] = "127.0.0.1"
		case word == "--bind" || word == "-b":
			words[min(i+1, len(words)-1)] = "127.0.0.1:{{.Port}}"
		case joined && flag == "--bind" && value != "":
			words[i] = flag + "=127.0.0.1:{{.Port}}"
		}
	}
	return words
}

// locate finds a file of an image in the repository: where it is in the image, or else below the one folder that has
// it, the Dockerfile's own before others. root is the folder that stands for the one in the image.
func (r repository) locate(name string, of start) (root, file string, found bool) {
	name = strings.TrimPrefix(path.Clean(name), strings.TrimSuffix(of.folder, "/")+"/")
	var roots []string
	for file := range r.files(r.foreign) {
		if file == name {
			roots = append(roots, ".")
		} else if root, found := strings.CutSuffix(file, "/"+name); found {
			roots = append(roots, root)
		}
	}
	for _, one := range []string{path.Dir(of.file), "."} {
		if slices.Contains(roots, one) {
			roots = []string{one}
		}
	}
	if len(roots) != 1 {
		return "", "", false
	}
	return roots[0], path.Join(roots[0], name), true
}
