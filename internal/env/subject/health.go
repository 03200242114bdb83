package subject

// The health that an instance shows at a URL, as an orchestrator would look at it.

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
	// healthEvery is how often it is asked for.
	healthEvery = 250 * time.Millisecond
	// healthLimit is how long an answer may take, twice what Kubernetes waits by default.
	healthLimit = 2 * time.Second
	// unhealthyFor is for how long it must have been bad to count as what is restarted: three probes, a second apart.
	unhealthyFor = 3 * time.Second
)

// watchHealth asks until the process has ended, or was told to end, and records what changes. What never was healthy
// has not turned unhealthy, and does not ail until it is ready otherwise. A process that was stopped by a signal can't
// answer, and is not asked.
func (g *Group) watchHealth(p *process) {
	const notBad = time.Duration(-1)
	healthy, was, bad := false, false, notBad // now, ever, and since when it has been bad without a break
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
			continue // what it answers on its way out, or while it was stopped, is the signal's doing
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

// askHealth returns the status of the answer, 0 if there was none, and what was seen in words.
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
