//go:build !windows

package subject

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// TestHealthIsWatchedWhileTheProcessRuns checks that a process that never was healthy has not turned unhealthy, and
// that each later change is reported once.
func TestHealthIsWatchedWhileTheProcessRuns(t *testing.T) {
	var status, asked atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Health = server.URL
			return launch, err
		}
	}, "obedient")
	g.up(t, 0)
	seen := func() (seen []string) {
		for _, event := range sink.of(history.KindSubjectHealth) {
			seen = append(seen, fmt.Sprint(event.N, " ", event.Text))
		}
		return seen
	}
	wait.Until(t, "a first answer", func() bool { return asked.Load() > 1 })
	for n, next := range []int64{http.StatusOK, http.StatusInternalServerError, http.StatusNoContent} {
		status.Store(next)
		wait.Until(t, "a change of health", func() bool { return len(seen()) > n })
	}
	select {
	case <-g.Unhealthy(0):
		t.Error("it counts as unhealthy though it was so for a moment only")
	default:
	}
	must.Get(g.Stop(t.Context(), 0))(t)
	server.Close() // it would refuse connections now
	if got := fmt.Sprint(seen()); got !=
		"[1 it answers 200 OK 0 it answers 500 Internal Server Error 1 it answers 204 No Content]" {
		t.Errorf("seen was %v", got)
	}
	logs := sink.of(history.KindSubjectLog)
	if len(logs) != 1 || logs[0].N == 0 || logs[0].Aux != 0 {
		t.Errorf("of the log is told %+v", logs)
	}
}

// TestUnhealthyInstance checks that a ready instance whose health stays bad is reported, and that its end gives this
// reason. An instance that is not ready and never was healthy counts as starting.
func TestUnhealthyInstance(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Health = server.URL
			return launch, err
		}
	}, "obedient", "obedient")
	must.Do(t, g.Start(t.Context(), 1))
	began := time.Now()
	g.up(t, 0)
	<-g.Unhealthy(0)
	if took := time.Since(began); took < unhealthyFor {
		t.Errorf("it counts as unhealthy after %s", took)
	}
	select {
	case <-g.Unhealthy(1):
		t.Error("the other counts as unhealthy though it is starting")
	default:
	}
	if exit, err := g.StopUnhealthy(t.Context(), 0); err != nil || !exit.Expected {
		t.Errorf("its end is %+v, %v", exit, err)
	}
	if signals := sink.of(history.KindInstanceSignal); len(signals) != 1 || signals[0].N != 1 ||
		signals[0].Text != "TERM" {
		t.Errorf("it was sent %+v", signals)
	}
}
