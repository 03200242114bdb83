// Command corpus judges stored runs again and compares the verdicts byte for byte with the accepted ones: verdict,
// anomalies, counts, examples. It guards against regressions when the checkers are redesigned. `make corpus-runs` fills
// a corpus; `make corpus` compares.
//
// Usage: corpus [-accept] FOLDER…
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

// accepted is the file in a run's folder that holds the accepted verdict. verdict.json cannot serve, because dlqbench
// check rewrites it.
const accepted = "accepted.json"

// historyDir is the subfolder that marks a folder as a run.
const historyDir = "history"

func main() {
	accept := flag.Bool("accept", false, "accept the verdicts of today in the place of comparing with them")
	flag.Parse()
	same, err := judgeAll(os.Stdout, flag.Args(), *accept)
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// judgeAll reports whether every run below the folders has its accepted verdict.
func judgeAll(out io.Writer, folders []string, accept bool) (bool, error) {
	dirs, err := runs(folders)
	if err != nil {
		return false, err
	}
	problems := make([]error, len(dirs))
	each(len(dirs), func(i int) { problems[i] = compare(dirs[i], accept) })
	differ := 0
	for i, problem := range problems {
		if problem != nil {
			differ++
			fmt.Fprintf(out, "%s: %v\n", dirs[i], problem)
		}
	}
	done := "judged as accepted"
	if accept {
		done = "accepted"
	}
	fmt.Fprintf(out, "%d of %d runs %s\n", len(dirs)-differ, len(dirs), done)
	return differ == 0, nil
}

// runs lists the folders that hold a history, sorted.
func runs(folders []string) ([]string, error) {
	var dirs []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == historyDir {
				dirs = append(dirs, filepath.Dir(path))
				return filepath.SkipDir
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("looking for stored runs: %w", err)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no stored run in %s: fill it with make corpus-runs", strings.Join(folders, ", "))
	}
	return dirs, nil
}

// compare judges one run. The error says how its verdict differs, or why the run could not be judged.
func compare(dir string, accept bool) error {
	judged, err := run.LoadRun(dir)
	if err != nil {
		return err
	}
	var now bytes.Buffer
	if err := reports.JSON(&now, judged); err != nil {
		return err
	}
	file := filepath.Join(dir, accepted)
	if accept {
		return os.WriteFile(file, now.Bytes(), 0o600)
	}
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no verdict was accepted for it: say -accept once, with a build that is trusted")
	}
	if err != nil || bytes.Equal(before, now.Bytes()) {
		return err
	}
	changed := filepath.Join(dir, "now.json")
	if err := os.WriteFile(changed, now.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing down how it is judged now: %w", err)
	}
	was, is := firstDifference(before, now.Bytes())
	return fmt.Errorf("judged otherwise; first:\n- %s\n+ %s\nall: git diff --no-index %s %s", was, is, file, changed)
}

// firstDifference returns the first line in which the texts differ, from each text.
func firstDifference(before, now []byte) (was, is string) {
	old, fresh := strings.Split(string(before), "\n"), strings.Split(string(now), "\n")
	for i := range min(len(old), len(fresh)) {
		if old[i] != fresh[i] {
			return strings.TrimSpace(old[i]), strings.TrimSpace(fresh[i])
		}
	}
	return fmt.Sprintf("%d lines", len(old)), fmt.Sprintf("%d lines", len(fresh))
}

// each calls do for 0 … n−1, using all processors.
func each(n int, do func(i int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.NumCPU() {
		group.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
