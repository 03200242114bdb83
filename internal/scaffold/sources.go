package scaffold

// The program's own code and settings, and what they show without being run.

import (
	"io/fs"
	"iter"
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
	dotenvFile   = regexp.MustCompile(`\.env$|^\.?env\.(?:example|sample|template|dist|local|dev\w*|prod\w*)$`)
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

// files are all files with their paths, in order, but those in foreign folders.
func (r repository) files(foreign func(folder string) bool) iter.Seq2[string, fs.DirEntry] {
	return func(yield func(string, fs.DirEntry) bool) {
		_ = fs.WalkDir(r, ".", func(name string, entry fs.DirEntry, _ error) error {
			switch {
			case entry == nil: // the top can't be read
			case entry.IsDir():
				if name != "." && foreign(name) {
					return fs.SkipDir
				}
			case !yield(name, entry):
				return fs.SkipAll
			}
			return nil
		})
	}
}

// sources are the files of the program, those first whose path sounds like a consumer's. A file that the command names
// is one of them, whatever it is called: the settings of a program that takes their path (-c pipeline.yaml), or a
// script that starts it. What can't be read is left out: less is then guessed.
func (r repository) sources(command []string) []source {
	var found []source
	named := make([]string, 0, len(command))
	for _, word := range command {
		named = append(named, path.Clean(word[strings.LastIndex(word, "=")+1:]))
	}
	own := slices.ContainsFunc(named, textFile.MatchString) // it is told which settings are its own
	for name, entry := range r.files(r.foreign) {
		if len(found) >= sourceFiles {
			break
		}
		base := path.Base(name)
		if !slices.Contains(named, name) && (own || !configFile(name)) && (testFile.MatchString(base) ||
			!codeFile.MatchString(base) && !settingsFile.MatchString(base) && !dotenvFile.MatchString(base) &&
				!dotnetFile.MatchString(base)) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && info.Size() <= sourceSize {
			found = append(found, source{name, r.read(name)})
		}
	}
	slices.SortStableFunc(found, func(a, b source) int { return sounds(b.path) - sounds(a.path) })
	return found
}

// sources are the files of the program, without those of other programs in the repository, and its own folder first. If
// Kafka's address is only in those of others, it is theirs as well.
func (p *Proposal) sources(r repository, command []string) []source {
	all := r.sources(command)
	if command != nil {
		p.named(r, command)
	}
	if p.Folder == "" {
		return all
	}
	inside := func(folder string) func(source) bool {
		return func(s source) bool { return folder != "." && strings.HasPrefix(s.path, folder+"/") }
	}
	own := slices.DeleteFunc(slices.Clone(all), func(s source) bool {
		return !inside(p.Folder)(s) && slices.ContainsFunc(p.Others, func(other string) bool {
			return !strings.HasPrefix(p.Folder+"/", other+"/") && inside(other)(s)
		})
	})
	slices.SortStableFunc(own, func(a, b source) int {
		switch first, second := inside(p.Folder)(a), inside(p.Folder)(b); {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	if variables(own).Bootstrap.Name == "" {
		return all
	}
	return own
}

// named finds the folder of the program in a command. One that names no program of the repository leaves open which it
// is.
func (p *Proposal) named(r repository, command []string) {
	programs := append([]string{p.Folder}, p.Others...)
	p.Folder = ""
	for _, word := range command {
		for _, name := range []string{word, strings.ReplaceAll(word, ".", "/") + ".py"} {
			at := slices.IndexFunc(programs, func(folder string) bool {
				return folder != "" && (path.Dir(path.Clean(name)) == folder && r.has(path.Clean(name)) ||
					strings.HasSuffix(folder, "/"+path.Dir(name)) && r.has(path.Join(folder, path.Base(name))))
			})
			if at >= 0 {
				p.Folder, p.Others = programs[at], slices.Delete(slices.Clone(programs), at, at+1)
				return
			}
		}
	}
}

// configFile reports whether a file may hold the settings of the program: it is where those are looked for, whatever
// it is called.
func configFile(name string) bool {
	folder, base := path.Dir(name), path.Base(name)
	return slices.Contains([]string{".", "config", "conf"}, folder) && textFile.MatchString(base) &&
		!othersFile.MatchString(base)
}

var (
	// business matches a business failure's own status, by number or by the name that a library gives it; statuses
	// matches the others that tell failures apart. Their numbers are often delays or sizes, so they count in comparisons.
	business = regexp.MustCompile(`\b422\b|(?i:unprocessable)`)
	statuses = regexp.MustCompile(`(?:[=!<>]=|[<>]|\b(?:case|when|in\s*[\[({]|of\s*\())\s*(?:400|500)\b` +
		`|(?i:\b[45]xx|is[45]xx|client_?error|server_?error|bad_?request)`)
	// deadLetters matches what writes them, or names their topic.
	deadLetters = regexp.MustCompile(`(?i)dead[-_. ]?letter|\bdl[qt]|dl[qt]\b|_dl[qt]|poison_?queue|RetryableTopic`)
)

// Failures are what the code shows of how it handles them.
type Failures struct {
	// DeadLettered: it writes dead letters, and nothing in it is about business failures, so they take the way of the
	// others.
	DeadLettered bool
	// Alike: besides, nothing in it tells one failure from another.
	Alike bool
	// Because says what showed that, or why nothing is known.
	Because string
}

// failures looks for what tells failures apart. A number that means something else leaves more open, and promises no
// more.
func failures(sources []source) Failures {
	code, letters, apart := false, "", false
	for _, one := range sources {
		if letters == "" && deadLetters.MatchString(one.text) {
			letters = one.path
		}
		if !codeFile.MatchString(one.path) {
			continue
		}
		if found := business.FindString(one.text); found != "" {
			return Failures{Because: one.path + " has " + found + ", and what follows is not read"}
		}
		code, apart = true, apart || statuses.MatchString(one.text)
	}
	switch {
	case !code:
		return Failures{Because: "no code was found"}
	case letters == "":
		return Failures{Because: "no dead letters were found in the code"}
	}
	return Failures{DeadLettered: true, Alike: !apart, Because: letters + " has dead letters, and no code has 422"}
}

// oneOf returns the pattern's first group in each of the matches.
func oneOf(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.Join(match[1:], ""))
	}
	return found
}
