//go:build !windows

package subject

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// serving returns a launch in which the test binary plays a role until its line shows that it is ready.
func serving(role string) Launch {
	return Launch{Command: []string{os.Args[0]}, Env: []string{roleVariable + "=" + role, quickExit},
		Ready: Ready{Log: readyLine}}
}

func TestServe(t *testing.T) {
	// A need that obeys has all the time that a busy machine takes; one that does not is killed soon.
	for role, grace := range map[string]time.Duration{"obedient": time.Minute, "stubborn": 100 * time.Millisecond} {
		g, _ := group(t, func(c *Config) { c.Grace = grace })
		lost := make(chan error, 1)
		must.Do(t, g.Serve(t.Context(), "cache", serving(role), func(err error) { lost <- err }))
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if groupAlive(g.needs[0].pid) {
			t.Errorf("the %s need is left", role)
		}
		select {
		case err := <-lost:
			t.Errorf("its orderly end was reported: %v", err)
		default:
		}
		output, err := os.ReadFile(g.cfg.LogDir + "/cache.log")
		if err != nil || role == "obedient" && !strings.HasSuffix(string(output), "orderly end\n") {
			t.Errorf("the output of the %s need is %q, %v", role, output, err)
		}
	}
}

func TestServeReportsALoss(t *testing.T) {
	g, _ := group(t, func(c *Config) { c.Grace = 100 * time.Millisecond })
	lost := make(chan error, 1)
	must.Do(t, g.Serve(t.Context(), "cache", serving("obedient"), func(err error) { lost <- err }))
	must.Do(t, g.needs[0].signal(syscall.SIGKILL))
	if err := <-lost; !strings.Contains(err.Error(), "cache ended with signal KILL while the run needed it") ||
		!strings.Contains(err.Error(), "up and running") {
		t.Errorf("the loss is reported as %v", err)
	}
}

// A need that runs once has done its work when it has ended with code 0, and its end is not a loss.
func TestServeOnce(t *testing.T) {
	g, _ := group(t, nil)
	once := Launch{Command: []string{"true"}, Ready: Ready{End: true}}
	must.Do(t, g.Serve(t.Context(), "tables", once, func(err error) { t.Errorf("its end is reported: %v", err) }))
	select {
	case <-g.needs[0].ended:
	default:
		t.Error("it still runs")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	endless := serving("obedient")
	endless.Ready = Ready{End: true, Timeout: time.Nanosecond}
	failing := serving("crashing")
	failing.Ready = Ready{End: true}
	for want, launch := range map[string]Launch{"it runs once, and did not end": endless, "exit code 3": failing} {
		g, _ := group(t, func(c *Config) { c.Grace = 100 * time.Millisecond })
		err := g.Serve(t.Context(), "tables", launch, func(error) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestServeFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	slow := serving("chatty") // never says that it is ready
	slow.Ready.Timeout = time.Nanosecond
	for _, test := range []struct {
		name   string
		ctx    context.Context
		launch Launch
		want   string
	}{
		{"it ends", t.Context(), serving("crashing"), "it ended with exit code 3 before it was ready; its last lines are:"},
		{"its time is over", t.Context(), slow, "it was not ready after 1ns (no line of its output matched"},
		{"an interruption", cancelled, serving("stubborn"), context.Canceled.Error()},
		{"no program", t.Context(), Launch{Command: []string{"no-such-program"}}, "there is no program"},
		{"a file outside", t.Context(), Launch{Command: []string{"true"}, Files: map[string]string{"../x": ""}}, "below"},
	} {
		g, _ := group(t, func(c *Config) { c.Grace = 100 * time.Millisecond })
		err := g.Serve(test.ctx, "cache", test.launch, func(error) {})
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), "starting cache, which") {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}
