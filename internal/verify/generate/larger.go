package generate

// Larger histories, for what shows only in numbers: whether records go on while others back off, and whether waits are
// jittered.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// largerSize is how many records a larger history has; every largerFails-th fails once, unless all of them do.
const (
	largerSize  = 230
	largerFails = 12
)

// manner is how the consumer of a larger history treats those who wait.
type manner int

const (
	lets manner = iota
	blocks
	sometimes
)

// Larger makes a larger history. Shows is what it shows, none if it is correct; known is false where that is not known.
func Larger(c Choices) (h *History, shows []Promise, known bool) {
	s := &simulation{Choices: c, h: &History{Calm: true}, logs: map[spot]*topicLog{}, calm: true}
	kind := c.Intn(8)
	s.h.Header = s.drawHeader()
	s.largerHeader(kind < 3)
	if kind >= 5 {
		s.h.Header.Contract().Backoff.Late, s.h.Header.Contract().Backoff.Usual = time.Second, 20*ms
	}
	switch kind {
	case 1:
		s.manner, shows = blocks, []Promise{{"isolation", "head-of-line-blocked"}}
	case 2:
		s.manner = sometimes
	case 4:
		s.steady, shows = true, []Promise{{"backoff", "no-jitter"}}
	case 5:
		s.tardy = 2 // a pause hits one wait or another
	case 6:
		s.tardy, shows = 8, []Promise{{"backoff", "backoff-late"}}
	case 7:
		s.tardy = 5
	}
	s.setUp()
	s.phase(history.PhaseWarmup)
	s.later(1500 * ms)
	s.phase(history.PhaseSteady)
	s.sendLarger(kind < 3)
	s.runUntil(s.now + 500*ms)
	s.phase(history.PhaseHeal)
	s.later(5 * ms)
	s.phase(history.PhaseDrain)
	s.drain()
	s.phase(history.PhaseAudit)
	s.stopAll()
	s.audit(inputTopic, dlqTopic, retryTopic)
	s.auditOffsets()
	s.phase(history.PhaseSeal)
	return s.h, shows, s.manner != sometimes && s.tardy != 5
}

// delay is by how much a tardy consumer waits longer after the k-th attempt than is usual.
func (s *simulation) delay(b history.Backoff, k int) time.Duration {
	if s.tardy == 0 || s.Intn(10) >= s.tardy {
		return 0
	}
	return b.Jitter + max(b.Usual, b.Wait(k)/2) + time.Duration(1+s.Intn(50))*ms
}

// largerHeader: few fail and the others are promised to go on, or all fail and the waits are promised to be jittered.
func (s *simulation) largerHeader(isolated bool) {
	h := &s.h.Header
	h.Records, h.Replay = largerSize, false
	c := h.Contract()
	c.MaxAttempts, c.Retry, c.Counter, c.SkipsTombstones, c.Ordering = 2+s.Intn(2), history.RetryInPlace,
		history.CounterMemory, false, history.OrderingNone
	c.Backoff = history.Backoff{Initial: 100 * ms, Multiplier: 1, Jitter: 20 * ms, Late: 50 * ms}
	if isolated {
		h.Instances, h.Consumers[0].Instances = 1, 1
		c.Isolation = pick(s, 0.5, 0.8)
	}
}

func (s *simulation) sendLarger(isolated bool) {
	at := s.now
	for number := range int32(largerSize) {
		r := &planned{number: number, partition: int32(s.Intn(partitions)), key: history.None,
			outcome: history.OutcomeSuccess, failures: 1}
		if !isolated || number%largerFails == largerFails-1 {
			r.outcome = history.OutcomeTransient
		}
		s.records = append(s.records, r)
		least, most := 0, 5
		switch since := number % largerFails; {
		case isolated && since < 8:
			least, most = 3, 6 // those that follow one that fails come while it backs off
		case isolated:
			least, most = 20, 70
		}
		at += time.Duration(least+s.Intn(most-least)) * ms
		s.at(at, func() { s.sendOne(r) })
	}
	s.runUntil(at)
}

// sleep has the process hold up those who wait, if that is its manner, for as long as the record backs off.
func (w *work) sleep() {
	p := w.process
	if p.manner == blocks || p.manner == sometimes && p.Intn(2) == 0 {
		w.asleep = true
		p.sleeping++
	}
}

func (w *work) awake() {
	if w.asleep {
		w.asleep = false
		w.process.sleeping--
	}
}
