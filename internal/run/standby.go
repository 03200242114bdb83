package run

// A member of a group may own no partition: with more members than partitions, it stands by.

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// standbyAfter is how long others must have owned every partition before a member without one counts as ready. By
	// the group protocol of KIP-848, an owner learns that it has to give one up from its next heartbeat: after 5 s by
	// default, and the other member after another 5 s.
	standbyAfter = 15 * time.Second
	// standbyPoll is the interval at which that is checked.
	standbyPoll = 250 * time.Millisecond
)

// ready returns a channel that is closed once the process asks for records of a partition assigned to it, or stands by
// in its group. Checking ends with ctx.
func (r *run) ready(ctx context.Context, instance int, process uint16) <-chan struct{} {
	if r.options.namesOnly {
		return r.options.Discovery.named(ctx)
	}
	ready, fetching := make(chan struct{}), r.tap.Fetching(instance, process)
	go func() {
		tick := time.NewTicker(standbyPoll)
		defer tick.Stop()
		for {
			select {
			case <-fetching:
				close(ready)
				return
			case <-tick.C:
				if r.live.partitions.standsBy(int16(instance), r.clock.Now()) {
					close(ready)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ready
}

// join notes the number of members in an instance.
func (p *partitions) join(event *history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[event.Instance] == 0 || event.N == 0 {
		p.changed = event.Time
	}
	p.members[event.Instance] = event.N
	if delete(p.left, event.Instance); event.N == 0 {
		p.left[event.Instance] = event.Time
	}
}

// leftAt returns when the last of the processes left its group that are out of it now; false if none is.
func (p *partitions) leftAt() (at time.Duration, out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, since := range p.left {
		at = max(at, since)
	}
	return at, len(p.left) > 0
}

// standsBy reports whether the instance has members in its group, and others have owned every partition for
// standbyAfter.
func (p *partitions) standsBy(instance int16, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[instance] == 0 || len(p.owner) == 0 || now-p.changed < standbyAfter {
		return false
	}
	for _, owner := range p.owner {
		if owner == history.None || owner == instance {
			return false
		}
	}
	return true
}
