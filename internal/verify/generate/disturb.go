package generate

// This file disturbs the consumer: kills, stops, restarts, rebalances, outages, stalls.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// disturb plans the disturbances and returns the time at which all of them are over.
func (s *simulation) disturb() time.Duration {
	end := s.now
	at := time.Duration(0)
	for range 1 + s.Intn(4) {
		over := s.disturbOnce(at)
		end = max(end, over)
		at = over + time.Duration(s.Intn(200))*ms
	}
	return end + 100*ms
}

// disturbOnce plans one disturbance at the given time and returns the time at which it is over.
func (s *simulation) disturbOnce(at time.Duration) time.Duration {
	p := s.processes[s.Intn(len(s.processes))]
	took := time.Duration(50+s.Intn(300)) * ms
	if len(s.others) > 0 && chance(s, 2) {
		s.disturbOther(at, took)
		return at + took
	}
	switch s.Intn(8) {
	case 0:
		s.at(at, func() { p.end("KILL", took) })
	case 1:
		s.at(at, func() { p.terminate(took) })
		took += 100 * ms
	case 2, 3:
		s.at(at, func() { s.move(p) })
		took = 0
	case 4:
		took += 300 * ms
		s.at(at, func() { p.freeze(took) })
		took += 50 * ms
	case 5:
		took += 200 * ms
		s.at(at, func() { s.stall(p, took) })
	case 6:
		fault := s.plan("network", "downstream", false)
		s.window(fault, at, took, func(on bool) { s.linkDown = on })
	case 7:
		if !s.contract().HasDLQ() || s.graph() != nil {
			return at
		}
		took *= 2
		if chance(s, 3) {
			took = 5 * time.Second // long enough for the silence to be judged
		}
		fault := s.plan("kafka", "dlq", true)
		s.window(fault, at, took, func(on bool) { s.dlqDown = on })
	}
	return at + took
}

func (s *simulation) plan(kind, target string, stopsDeadLetters bool) int64 {
	s.h.Header.Faults = append(s.h.Header.Faults, history.PlannedFault{
		Name: kind, Kind: kind, Target: target, What: kind + " fault on " + target, StopsDeadLetters: stopsDeadLetters,
	})
	return int64(len(s.h.Header.Faults) - 1)
}

// window keeps a fault active for a while.
func (s *simulation) window(fault int64, at, took time.Duration, turn func(on bool)) {
	mark := func(kind history.Kind) {
		e := s.event(kind)
		e.Op, e.Text = fault, "requests answered"
		if kind == history.KindFaultEffect {
			e.N = 1
		}
		s.put(e)
	}
	s.at(at, func() {
		turn(true)
		mark(history.KindFaultStart)
		mark(history.KindFaultEffect)
	})
	s.at(at+took, func() {
		turn(false)
		mark(history.KindFaultEnd)
	})
}

func (p *process) signal(name string) {
	p.instant()
	e := p.event(history.KindInstanceSignal)
	e.Text = name
	p.put(e)
	p.instant()
}

// end kills a process. Another process of the instance starts after a while.
func (p *process) end(signal string, down time.Duration) {
	if p.dead || p.stopping || p.now < p.frozen {
		return
	}
	p.signal(signal)
	e := p.event(history.KindInstanceExited)
	e.Code, e.Text, e.Flags = -1, signal, history.Expected
	p.put(e)
	p.leave(down)
}

// leave reassigns the partitions of a process that has ended.
func (p *process) leave(down time.Duration) {
	p.dead = true
	p.txn.expire()
	had := p.spots()
	for _, at := range had {
		a := p.owned[at]
		a.gone, a.lost = true, true
		if p.logs[at].owner == a {
			p.logs[at].owner = nil
		}
	}
	p.owned = map[spot]*assignment{}
	p.simulation.after(down, func() {
		p.run++
		p.start()
		for _, at := range had {
			p.share(at)
		}
	})
}

func (p *process) spots() []spot {
	var all []spot
	for at, a := range p.owned {
		if !a.gone {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, bySpot)
	return all
}

// share assigns an unowned partition to a live process.
func (s *simulation) share(at spot) {
	var able []*process
	for _, p := range s.readers(at) {
		if !p.dead && !p.stopping && s.now >= p.frozen {
			able = append(able, p)
		}
	}
	if len(able) == 0 || s.pending(at) {
		s.after(20*ms, func() { s.share(at) })
		return
	}
	s.give(able[s.Intn(len(able))], at)
}

// terminate asks a process to end, which it does gracefully.
func (p *process) terminate(down time.Duration) {
	if p.dead || p.stopping || p.now < p.frozen {
		return
	}
	p.signal("TERM")
	p.stopping = true
	p.after(30*ms, func() {
		for _, at := range p.spots() {
			a := p.owned[at]
			a.committing = false
			a.commitNow()
		}
	})
	p.after(60*ms, func() {
		had := p.spots()
		for _, at := range had {
			p.owned[at].take("leave")
		}
		e := p.event(history.KindInstanceExited)
		e.Flags = history.Expected
		p.put(e)
		p.leave(down)
		for _, at := range had {
			p.share(at)
		}
	})
}

// move revokes a partition from a process and assigns it to a live process, perhaps the same one.
func (s *simulation) move(p *process) {
	had := p.spots()
	if p.dead || p.stopping || s.now < p.frozen || len(had) == 0 {
		return
	}
	at := had[s.Intn(len(had))]
	p.owned[at].take("rebalance")
	s.after(time.Duration(s.Intn(3))*10*ms, func() { s.share(at) })
}

// freeze stops a process until its partitions have moved to others. When it continues, it works on what it holds until
// it learns what it has lost.
func (p *process) freeze(length time.Duration) {
	if p.dead || p.stopping || p.now < p.frozen {
		return
	}
	p.signal("STOP")
	p.frozen = p.now + length
	if length > transactionTimeout {
		p.simulation.after(transactionTimeout, p.txn.expire)
	}
	if had := p.spots(); len(had) > 0 && len(p.readers(had[0])) > 1 {
		for _, at := range had {
			p.simulation.after(200*ms+p.lag(), func() { p.expel(at) })
		}
	}
	p.at(p.frozen, func() {
		p.signal("CONT")
		p.after(p.lag(), p.learn)
	})
}

// expel reassigns a partition of a frozen process to another process.
func (p *process) expel(at spot) {
	a := p.owned[at]
	if a == nil || a.gone || p.now >= p.frozen {
		return
	}
	a.gone = true
	p.logs[at].owner = nil
	p.share(at)
}

// learn notifies a process of the partitions that it has lost.
func (p *process) learn() {
	var gone []*assignment
	for _, a := range p.owned {
		if a.gone {
			gone = append(gone, a)
		}
	}
	slices.SortFunc(gone, func(a, b *assignment) int { return bySpot(a.at, b.at) })
	for _, a := range gone {
		a.take("fenced")
	}
}

// stall stops the harness, or a process, for a while.
func (s *simulation) stall(p *process, length time.Duration) {
	e := s.event(history.KindStall)
	e.Aux = int64(length)
	if s.Intn(2) == 0 || p.dead || s.now < p.frozen {
		s.now += length
		e.Time = s.now
		s.put(e)
		return
	}
	p.frozen = s.now + length
	s.at(p.frozen, func() {
		e.Time, e.Instance, e.Run = s.now, p.instance, p.run
		s.put(e)
	})
}
