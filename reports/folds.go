package reports

// This file makes parts of a CI log foldable.

import (
	"fmt"
	"io"
	"time"
)

// Folds is how the log of a CI system folds.
type Folds string

// The ways in which logs fold. A log without folds has no progress, either.
const (
	NoFolds Folds = ""
	// GitHubFolds are groups, which GitHub Actions shows folded.
	GitHubFolds Folds = "github"
	// GitLabFolds are sections, which GitLab shows folded if they say so at their start.
	GitLabFolds Folds = "gitlab"
	// JenkinsFolds are lines that the plugin "Collapsing Console Sections" recognises by two patterns. Jenkins itself
	// folds nothing.
	JenkinsFolds Folds = "jenkins"
)

// FoldsOf returns how the log of the CI job with this environment folds.
func FoldsOf(getenv func(string) string) Folds {
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		return GitHubFolds
	case getenv("GITLAB_CI") == "true":
		return GitLabFolds
	case getenv("JENKINS_URL") != "":
		return JenkinsFolds
	}
	return NoFolds
}

// Begin writes the start of a fold. The id, of letters, digits, dots, dashes and underscores, distinguishes the fold
// from the others of a job; the title is what a folded log shows of it.
func (f Folds) Begin(w io.Writer, id, title string, now time.Time) {
	switch f {
	case GitHubFolds:
		fmt.Fprintf(w, "::group::%s\n", escapeData(name(title)))
	case GitLabFolds:
		fmt.Fprintf(w, "\x1b[0Ksection_start:%d:%s[collapsed=true]\r\x1b[0K%s\n", now.Unix(), id, name(title))
	case JenkinsFolds:
		fmt.Fprintf(w, "[dlqbench] begin %s\n", name(title))
	}
}

// End writes the end of the fold.
func (f Folds) End(w io.Writer, id, title string, now time.Time) {
	switch f {
	case GitHubFolds:
		fmt.Fprintln(w, "::endgroup::")
	case GitLabFolds:
		fmt.Fprintf(w, "\x1b[0Ksection_end:%d:%s\r\x1b[0K\n", now.Unix(), id)
	case JenkinsFolds:
		fmt.Fprintf(w, "[dlqbench] end %s\n", name(title))
	}
}
