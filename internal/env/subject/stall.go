package subject

// The machine's noise as it affects the subject: how long its threads waited for a processor. A subject that was
// late because it could not run has broken no promise. The subject's own usage is read at the same time.

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// StallWindow is the interval at which run delays are read. A delay is known only when the thread runs again, so a
// KindStall of an instance with Aux = d at Time t reports a wait of d somewhere in [t−d−StallWindow, t].
const StallWindow = 100 * time.Millisecond

// stallNoted is the growth of one thread's run delay within a window from which it is recorded.
const stallNoted = 20 * time.Millisecond

// usageEvery is the number of windows after which the instances' processes are looked up again and their usage is
// recorded: reading all of /proc is expensive.
const usageEvery = 10

// sampler holds the processes of an instance as of the last lookup, and the run delays of their threads.
type sampler struct {
	process *process
	members []int
	delays  map[int]int64
}

// sampleProcesses records when a thread of an instance could not run: its run delay grew by more than 20 ms in 100
// ms (only on Linux). Once a second it records each instance's usage. It returns when ctx ends.
func (g *Group) sampleProcesses(ctx context.Context) {
	samplers := make([]sampler, len(g.slots))
	for window := 0; pause(ctx, StallWindow); window++ {
		var all map[int]status
		if window%usageEvery == 0 {
			all = allProcesses()
		}
		for instance := range samplers {
			p, s := g.process(instance), &samplers[instance]
			if !p.alive() || p.work() == 0 {
				continue
			}
			if s.process != p {
				*s = sampler{}
			}
			if all != nil {
				s.members = family(all, p.work())
				g.noteUsage(p, all, s.members)
			}
			g.sample(p, s)
		}
	}
}

func (g *Group) sample(p *process, s *sampler) {
	before, first := s.delays, s.process != p
	s.process, s.delays = p, make(map[int]int64, len(before))
	runDelays(p.work(), s.delays)
	for _, pid := range s.members {
		if pid != p.work() {
			runDelays(pid, s.delays)
		}
	}
	if first {
		return
	}
	if longest := longestDelay(before, s.delays); longest > int64(stallNoted) {
		event := p.event(history.KindStall, g.cfg.Clock.Now())
		event.Aux = longest
		p.heldUp.Add(longest)
		g.cfg.Sink.Record(event)
	}
}

// longestDelay returns the largest growth of one thread's run delay. Threads run side by side, so their delays do
// not add up. A thread that was not seen before is left out: its delay may be as old as the thread.
func longestDelay(before, after map[int]int64) (longest int64) {
	for thread, delay := range after {
		if earlier, known := before[thread]; known {
			longest = max(longest, delay-earlier)
		}
	}
	return longest
}
