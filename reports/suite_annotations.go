package reports

// Annotations are workflow commands of GitHub Actions that show a gate's findings at their place in the repository
// (https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands).

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// The levels of an annotation, worst first.
const (
	annotationError   = "error"
	annotationWarning = "warning"
	annotationNotice  = "notice"
)

// annotation is one workflow command.
type annotation struct {
	level, title, message string
	place                 SuitePlace
}

// Annotations writes a workflow command for each violated invariant, at the line of the contract that promises it, for
// each run that does not pass for other reasons, and for each waiver that needs attention, errors first: GitHub shows
// ten of each level. Paths inside the repository are written relative to root, its folder.
// Other paths are unchanged.
func Annotations(w io.Writer, suite Suite, root string) error {
	all := each(suite.findings(), suiteFinding.annotation)
	for _, run := range suite.Runs {
		if one, worth := annotationOf(run); worth {
			all = append(all, one)
		}
	}
	for _, waiver := range suite.Waivers {
		if remark := waiver.Remark(); remark != "" {
			all = append(all, annotation{annotationWarning, "waiver", remark, waiver.Where})
		}
	}
	for _, one := range suite.unmet() {
		level := annotationError
		if one.Elsewhere {
			level = annotationWarning
		}
		all = append(all, annotation{level, "required: " + one.Invariant, one.Remark(), one.Where})
	}
	levels := []string{annotationError, annotationWarning, annotationNotice}
	slices.SortStableFunc(all, func(a, b annotation) int {
		return slices.Index(levels, a.level) - slices.Index(levels, b.level)
	})
	for _, one := range all {
		if err := one.write(w, root); err != nil {
			return err
		}
	}
	return nil
}

// Annotate writes an error at a place in the repository.
func Annotate(w io.Writer, place SuitePlace, title, message, root string) error {
	return annotation{annotationError, title, message, place}.write(w, root)
}

// annotation returns the annotation of a violated invariant. Waived violations are notices.
func (f suiteFinding) annotation() annotation {
	level, word := annotationError, StandingFail
	if f.waived {
		level, word = annotationNotice, StandingWaived
	}
	var lines []string
	for i, run := range f.runs {
		lines = append(lines, run.Label+": "+f.words[i])
	}
	if f.cause != "" {
		lines = append(lines, "Likely cause: "+f.cause)
	}
	return annotation{level, f.invariant + ": " + string(word) + " in " + f.labels(), strings.Join(lines, "\n"), f.where}
}

// annotationOf returns the annotation of a run, for its reasons besides violations. A run that prevents the gate from
// passing is an error, others have a lower level.
func annotationOf(run SuiteRun) (one annotation, worth bool) {
	level, reasons := annotationError, run.otherReasons()
	violated := run.Standing == StandingFail || run.Standing == StandingWaived
	switch {
	case run.Standing == StandingPass, violated && len(reasons) == 0:
		return annotation{}, false
	case run.Standing == StandingNotRun && !run.Missing:
		level = annotationWarning
	}
	message := cmp.Or(strings.Join(reasons, "\n"), suiteWord(run.Standing))
	return annotation{level, fmt.Sprintf("%s: %s", run.Label, strings.ToLower(suiteWord(run.Standing))), message,
		run.Where}, true
}

func (a annotation) write(w io.Writer, root string) error {
	message := each(strings.Split(a.message, "\n"), text)
	place := ""
	if a.place.File != "" {
		place = "file=" + escapeProperty(visible(inRepository(a.place.File, root), 4096))
	}
	if place != "" && a.place.Line > 0 {
		place += fmt.Sprintf(",line=%d,col=%d", a.place.Line, max(a.place.Column, 1))
	}
	title := "title=" + escapeProperty("dlqbench: "+name(a.title))
	if place != "" {
		title = "," + title
	}
	_, err := fmt.Fprintf(w, "::%s %s%s::%s\n", a.level, place, title, escapeData(strings.Join(message, "\n")))
	return err
}

// inRepository returns the path of a file from the root of its repository.
func inRepository(file, root string) string {
	if root == "" {
		return filepath.ToSlash(file)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return filepath.ToSlash(file)
	}
	relative, err := filepath.Rel(root, absolute)
	if err != nil || !filepath.IsLocal(relative) {
		return filepath.ToSlash(file)
	}
	return filepath.ToSlash(relative)
}

// escapeData escapes the text after the second pair of colons, escapeProperty the text before it, in the form that
// the runner of GitHub Actions decodes.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
