package scaffold

// The program's own code and settings, and what they show without being run.

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// source is a file of the program's code, or of its settings.
type source struct{ path, text string }

const (
	// sourceFiles and sourceSize bound what is read: a folder may hold anything.
	sourceFiles, sourceSize = 2000, 1 << 20
)

var (
	codeFile = regexp.MustCompile(
		`\.(?:go|py|js|mjs|cjs|ts|mts|cts|java|kt|scala|groovy|cs|fs|rs|rb|php|ex|exs)$`)
	settingsFile = regexp.MustCompile(`^application[^/]*\.(?:ya?ml|properties)$`)
	// testFile and foreignFolder match what is not the program: its tests, packages of others, and what builds make.
	testFile      = regexp.MustCompile(`^test_|_test\.\w+$|\.(?:test|spec)\.\w+$|[a-z](?:Tests?|IT|Spec)\.\w+$`)
	foreignFolder = regexp.MustCompile(`^(?:\..+|node_modules|vendor|site-packages|__pycache__|target|build|dist|` +
		`tests?|testdata|__tests__|docs)$`)
)

// foreign reports whether a folder holds no code of the program. Only at the top are examples not its own: Java has
// packages of that name.
func (r repository) foreign(folder string) bool {
	return foreignFolder.MatchString(path.Base(folder)) || folder == "examples" || folder == "example" ||
		r.has(path.Join(folder, "pyvenv.cfg"))
}

// sources are the files of the program, those first whose path sounds like a consumer's. What can't be read is left
// out: less is then guessed.
func (r repository) sources() []source {
	var found []source
	_ = fs.WalkDir(r, ".", func(name string, entry fs.DirEntry, _ error) error {
		base := path.Base(name)
		switch {
		case len(found) >= sourceFiles:
			return fs.SkipAll
		case entry == nil: // the top can't be read
		case entry.IsDir():
			if name != "." && r.foreign(name) {
				return fs.SkipDir
			}
		case testFile.MatchString(base) || !codeFile.MatchString(base) && !settingsFile.MatchString(base):
		default:
			if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && info.Size() <= sourceSize {
				found = append(found, source{name, r.read(name)})
			}
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b source) int { return sounds(b.path) - sounds(a.path) })
	return found
}

// oneOf returns the pattern's first group in each of the matches.
func oneOf(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(match[1:], ""))
	}
	return found
}
