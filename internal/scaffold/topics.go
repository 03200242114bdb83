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
	// aboutTopics matches a line with the name of a topic, likely and quoted what it may be. A number or a single word of
	// configuration is a name, too, and does no harm.
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
	r := repository{files, ""}
	var names []string
	_ = fs.WalkDir(r, ".", func(name string, entry fs.DirEntry, _ error) error {
		base := path.Base(name)
		switch {
		case len(names) >= topicNames:
			return fs.SkipAll
		case entry == nil:
		case entry.IsDir():
			if name != "." && (r.foreign(name) || name == "runs" || name == "gate") {
				return fs.SkipDir
			}
		case testFile.MatchString(base) || !codeFile.MatchString(base) && !textFile.MatchString(base):
		default:
			if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && info.Size() <= sourceSize {
				names = append(names, topicsIn(r.read(name))...)
			}
		}
		return nil
	})
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), topicNames)]
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
