package subject

// Resource usage of an instance: memory and processor time of all its processes together. The first process is often
// only a wrapper (a shell, npm, uv, mvn), and the consumer is one of its descendants.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// status is the system's information about a process.
type status struct {
	state         byte
	parent, group int
	// start distinguishes the process from a later one with the same id.
	start string
	// cpu is the processor time used by the process and its ended children. rss is its resident memory in bytes; see
	// used.
	cpu time.Duration
	rss int64
}

func (s status) dead() bool { return s.state == 'Z' || s.state == 'X' }

// members returns the running processes of a group.
func members(group int) (found []int) {
	for pid, one := range allProcesses() {
		if one.group == group {
			found = append(found, pid)
		}
	}
	return found
}

// family returns the processes that do the work of the one with this id, by id: the process itself, those of its
// group, and the descendants of these, in whatever group they are now.
func family(all map[int]status, first int) []int {
	belongs := map[int]bool{}
	var of func(pid int) bool
	of = func(pid int) bool {
		if known, seen := belongs[pid]; seen {
			return known
		}
		belongs[pid] = false // all was not read at one moment, so the parents may form a cycle
		one, there := all[pid]
		belongs[pid] = there && (pid == first || one.group == first || of(one.parent))
		return belongs[pid]
	}
	var found []int
	for pid := range all {
		if of(pid) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// noteUsage records the total usage of an instance's processes.
func (g *Group) noteUsage(p *process, all map[int]status, members []int) {
	if len(members) == 0 {
		return
	}
	var cpu time.Duration
	var rss int64
	for _, pid := range members {
		spent, memory := used(pid, all[pid])
		cpu, rss = cpu+spent, rss+memory
	}
	event := p.event(history.KindSample, g.cfg.Clock.Now())
	event.Text, event.Aux = history.SampleInstanceCPU, int64(cpu)
	g.cfg.Sink.Record(event)
	event.Text, event.Aux = history.SampleInstanceRSS, rss
	g.cfg.Sink.Record(event)
}
