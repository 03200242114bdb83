package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// JudgeRun judges the history in a run directory and writes every report beside it. If only the writing fails, it
// returns the result together with the error.
func JudgeRun(dir string) (reports.Run, error) {
	judged, err := LoadRun(dir)
	if err != nil {
		return judged, err
	}
	if err := reports.WriteAll(dir, judged); err != nil {
		return judged, environment("writing the reports", err)
	}
	hdr := filepath.Join(dir, dirHDR)
	err = os.MkdirAll(hdr, 0o755)
	if err == nil {
		err = measure.WriteHDR(hdr, judged.Measurements)
	}
	return judged, environment("writing the HDR logs", err)
}

// ErrNoRun is the error for a folder that holds no run or does not exist.
var ErrNoRun = errors.New("has no history: give a run directory, such as runs/latest")

// LoadRun judges the history in a run directory and writes nothing.
func LoadRun(dir string) (reports.Run, error) {
	recorded := filepath.Join(dir, dirHistory)
	if _, err := os.Stat(recorded); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return reports.Run{}, environment("opening the run", fmt.Errorf("%s %w", dir, ErrNoRun))
	}
	reader, err := history.OpenPartial(recorded)
	if errors.Is(err, fs.ErrNotExist) {
		return reports.Run{}, environment("opening the run", fmt.Errorf("the history in %s has no beginning: %w", dir, err))
	}
	if err != nil {
		return reports.Run{}, environment("opening the run", err)
	}
	judged := reports.Run{Header: reader.Header(), Dir: shortest(dir)}
	if judged.Verdict, judged.Measurements, err = judge(reader); err != nil {
		return reports.Run{}, environment("judging the run", err)
	}
	failure := judged.Header.Failure
	if failure != "" && !slices.ContainsFunc(judged.Verdict.Phases, func(p measure.Phase) bool {
		return p.Name == history.PhaseWarmup
	}) {
		return reports.Run{}, fmt.Errorf("%s: %s", NothingJudged, failure)
	}
	addLogs(dir, judged.Verdict)
	return judged, nil
}

// NothingJudged is said of a run that failed before its load began, when it ends and whenever it is asked for again.
const NothingJudged = "NOT RUN, nothing was judged"

// judge judges a history. If segments are damaged, it first judges the part before the damage, like the history of a
// run that was killed there: violations in that part are proven. If there are none, it judges everything readable,
// with gaps; that proves less but covers all of it.
func judge(reader *history.Reader) (*assertions.Verdict, *measure.Measurements, error) {
	damage := reader.Damaged()
	if len(damage) == 0 {
		return assertions.Judge(reader)
	}
	verdict, measurements, err := assertions.Judge(killedAtDamage{reader.Prefix()})
	if err != nil || verdict.Verdict != assertions.Fail {
		return assertions.Judge(reader)
	}
	verdict.Reasons = append(verdict.Reasons, "what was recorded before this was judged: "+
		strings.ReplaceAll(errors.Join(damage...).Error(), "\n", "; "))
	return verdict, measurements, nil
}

// killedAtDamage is the part of a damaged history before the damage. That part is complete but does not reach the
// run's end.
type killedAtDamage struct{ prefix *history.Reader }

func (k killedAtDamage) Header() history.Header                   { return k.prefix.Header() }
func (k killedAtDamage) Sealed() bool                             { return false }
func (k killedAtDamage) Each(fn func(*history.Event) error) error { return k.prefix.Each(fn) }

// shortest resolves a link such as runs/latest, so that a report names its run even after the link has moved on.
func shortest(dir string) string {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir
	}
	wd, err := os.Getwd()
	if err != nil {
		return target
	}
	if relative, err := filepath.Rel(wd, target); err == nil && len(relative) < len(target) {
		return relative
	}
	return target
}
