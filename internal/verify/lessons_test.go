package verify

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Every lesson names a bug and a scenario that exist, and fits on a screen.
func TestLessons(t *testing.T) {
	for _, lesson := range planted.Lessons() {
		bug, err := planted.Named(lesson.Bug)
		if err != nil {
			t.Error(err)
			continue
		}
		if kind := bug.Kind(); kind != "consume" && kind != "replay" {
			t.Errorf("%s: dlqbench demo cannot run a bug of the %s", lesson.Bug, kind)
		}
		if _, shipped := scenarios.Shipped(lesson.Scenario); !shipped {
			t.Errorf("%s: there is no scenario %s", lesson.Bug, lesson.Scenario)
		}
		for _, code := range []string{lesson.Mistake, lesson.Right} {
			lines := strings.Split(code, "\n")
			widest := slices.MaxFunc(lines, func(a, b string) int { return len(a) - len(b) })
			if code == "" || len(lines) > 5 || len(widest) > 78 {
				t.Errorf("%s: the code has %d lines, and this one has %d columns: %s", lesson.Bug, len(lines), len(widest),
					widest)
			}
		}
		if n := len(lesson.Bug) + len(lesson.Title); lesson.Title == "" || n > 76 {
			t.Errorf("%s: its line in the list has %d columns", lesson.Bug, n)
		}
		if lesson.Trace == "" {
			t.Errorf("%s: nothing says how it is seen", lesson.Bug)
		}
	}
}

// A demonstration must not fail to show its bug: the proof has found it in that scenario with each seed.
func TestLessonsAreProven(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/data/completeness.json"))(t)
	var measured struct {
		Bugs []struct {
			Bug, Scenario string
			Shown, Not    []int
			Seconds       float64
		}
	}
	must.Do(t, json.Unmarshal(data, &measured))
	for _, lesson := range planted.Lessons() {
		shown, not, seconds := 0, 0, 0.0
		for _, one := range measured.Bugs {
			if one.Bug == lesson.Bug && one.Scenario == lesson.Scenario {
				shown, not, seconds = shown+len(one.Shown), not+len(one.Not), one.Seconds
			}
		}
		if shown == 0 || not > 0 || seconds > 15 {
			t.Errorf("%s in %s: shown in %d runs, not in %d, %.1f s each", lesson.Bug, lesson.Scenario, shown, not, seconds)
		}
	}
}
