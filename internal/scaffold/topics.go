package scaffold

// Names that topics may have, as the code and the settings of a repository show.

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// topicNames bounds how many names are taken: each may become a topic.
const topicNames = 100

var (
	// aboutTopics matches lines that may have the name of a topic. quoted, unquoted and byDefault match what may be the
	// name. They match other words as well, which does no harm.
	aboutTopics = regexp.MustCompile(`(?i)topic|dl[qt]\b|dead[-_. ]?letter`)
	quoted      = regexp.MustCompile("[\"'`]([\\w.-]{2,249})[\"'`]")
	unquoted    = regexp.MustCompile(`[:=]\s*([\w.-]{2,249})\s*(?:#.*)?$`)
	byDefault   = regexp.MustCompile(`\$\{[\w.]+:-?([\w.-]{2,249})\}`)
	letter      = regexp.MustCompile(`[A-Za-z]`)
	// textFile matches settings of any name: programs read them from anywhere.
	textFile = regexp.MustCompile(`\.(?:ya?ml|toml|properties|json|env|conf|ini)$|^\.env$`)
)

// TopicNames returns names that topics of a program may have: texts in lines of its code and settings that are about
// topics or dead letters.
func TopicNames(files fs.FS) []string {
	var names []string
	repository{files, ""}.eachText(func(_, text string) (more bool) {
		names = append(names, topicsIn(text)...)
		return len(names) < topicNames
	})
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), topicNames)]
}

// eachText hands out the code and the settings of a program, whatever they are called, until take returns false.
func (r repository) eachText(take func(name, text string) (more bool)) {
	foreign := func(folder string) bool { return r.foreign(folder) || folder == "runs" || folder == "gate" }
	for name, entry := range r.files(foreign) {
		if base := path.Base(name); testFile.MatchString(base) || !codeFile.MatchString(base) && !textFile.MatchString(base) {
			continue
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && info.Size() <= sourceSize && !take(name, r.read(name)) {
			return
		}
	}
}

var (
	// brokersSet matches an address of Kafka in settings, and othersFile files that have one and are not the program's.
	brokersSet = regexp.MustCompile(`(?im)^\s*["']?[\w.-]*(?:bootstrap[-_.]?servers?|brokers?)["']?\s*[:=]\s*[\["']*` +
		`[\w.-]+:\d+`)
	othersFile = regexp.MustCompile(`^(?:docker-)?compose[\w.-]*$|^(?:subject|dlqbench)\.yaml$`)
)

// settingsNamed bounds the files that are named in a note.
const settingsNamed = 3

// brokerSettings are files of settings that have an address of Kafka.
func (r repository) brokerSettings() []string {
	var found []string
	r.eachText(func(name, text string) (more bool) {
		if !codeFile.MatchString(name) && !othersFile.MatchString(path.Base(name)) && brokersSet.MatchString(text) {
			found = append(found, name)
		}
		return len(found) < settingsNamed
	})
	return found
}

var (
	// composeFile matches files that start the programs of a development machine, image the image of one, and given
	// those that dlqbench has itself, or that nothing depends on.
	composeFile = regexp.MustCompile(`^(?:docker-)?compose[\w.-]*\.ya?ml$`)
	image       = regexp.MustCompile(`(?m)^\s*image:\s*["']?([\w./-]+)`)
	given       = regexp.MustCompile(`(?i)kafka|zookeeper|redpanda|registry|postgres|kowl|akhq|adminer|pgadmin|grafana|` +
		`prometheus|jaeger|zipkin|otel|-ui$|^(?:bash|busybox|alpine|debian|ubuntu|curl)$`)
	// atFirst matches a volume with statements that the official image of PostgreSQL runs at its first start.
	atFirst = regexp.MustCompile(`(?m)["'\s]\.?/?([\w./-]+):/docker-entrypoint-initdb\.d\b`)
)

// statementsAtFirst are the files or folders with statements that a file of Docker Compose at the top has PostgreSQL
// run, and that file.
func (r repository) statementsAtFirst() (statements []string, file string) {
	files, _ := fs.Glob(r, "*compose*") // the pattern is a good one
	for _, name := range files {
		if composeFile.MatchString(name) {
			for _, one := range oneOf(atFirst, r.read(name)) {
				statements, file = append(statements, path.Clean(one)), name
			}
		}
	}
	return statements, file
}

// beside are the programs that a file of Docker Compose at the top starts beside Kafka and PostgreSQL, and that file.
func (r repository) beside() (programs []string, file string) {
	files, _ := fs.Glob(r, "*compose*") // the pattern is a good one
	for _, name := range files {
		if !composeFile.MatchString(name) {
			continue
		}
		for _, one := range oneOf(image, r.read(name)) {
			if one = path.Base(one); !given.MatchString(one) && !slices.Contains(programs, one) {
				programs, file = append(programs, one), name
			}
		}
	}
	return programs, file
}

// topicsIn returns the names in a text.
func topicsIn(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if !aboutTopics.MatchString(line) {
			continue
		}
		for _, name := range slices.Concat(oneOf(quoted, line), oneOf(byDefault, line), oneOf(unquoted, line)) {
			if letter.MatchString(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
