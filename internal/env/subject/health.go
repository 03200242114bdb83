package subject

// The health that an instance reports at a URL, observed as by an orchestrator.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// healthEvery is the interval between health checks.
	healthEvery = 250 * time.Millisecond
	// healthLimit is how long an answer may take: twice Kubernetes's default.
	healthLimit = 2 * time.Second
	// unhealthyFor is how long the health must be bad for an instance to count as unhealthy: three probes, a second
	// apart.
	unhealthyFor = 3 * time.Second
)

// watchHealth checks the health until the process has ended or was told to end, and records changes. A process that
// never was healthy has not turned unhealthy; it cannot count as unhealthy until it is ready otherwise. A process
// that was stopped by a signal cannot answer and is not checked.
func (g *Group) watchHealth(p *process) {
	const notBad = time.Duration(-1)
	healthy, was, bad := false, false, notBad // now, ever, and since when it has been bad without interruption
	var ail sync.Once
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.child.ended:
			return
		}
		if p.paused.Load() {
			bad = notBad
			continue
		}
		asked := g.cfg.Clock.Now()
		status, saw := askHealth(context.Background(), p.launch.Health)
		if p.child.asked.Load() || p.paused.Load() {
			continue // while it ends or is stopped, its answer is the signal's doing
		}
		if now := status/100 == 2; now != healthy {
			healthy, was, bad = now, true, notBad
			g.noteHealth(p, asked, now, status, saw)
		}
		switch {
		case healthy || !was && !p.isReady.Load():
		case bad == notBad:
			bad = asked
		case asked-bad >= unhealthyFor:
			ail.Do(func() { close(p.ailing) })
		}
	}
}

func (g *Group) noteHealth(p *process, asked time.Duration, healthy bool, status int, saw string) {
	event := p.event(history.KindSubjectHealth, asked)
	event.N, event.Code, event.Text = 0, int16(status), saw
	if healthy {
		event.N = 1
	}
	g.cfg.Sink.Record(event)
}

// askHealth returns the status of the answer, 0 if there was none, and a description of the result.
func askHealth(ctx context.Context, url string) (status int, saw string) {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	status, err := statusOf(ctx, url)
	switch {
	case err == nil:
		return status, fmt.Sprintf("it answers %d %s", status, http.StatusText(status))
	case errors.Is(err, context.DeadlineExceeded):
		return 0, fmt.Sprintf("no answer within %v", healthLimit)
	}
	return 0, "it refuses connections"
}
