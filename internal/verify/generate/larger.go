package generate

// This file makes larger histories, for properties that show only in large numbers: whether records continue while
// others back off, and whether waits are jittered.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// largerSize is the number of records of a larger history. Every largerFails-th record fails once, unless all do.
const (
	largerSize  = 230
	largerFails = 12
)

// manner is how the consumer of a larger history treats waiting records.
type manner int

const (
	lets manner = iota
	blocks
	sometimes
)

// Larger makes a larger history. Shows lists its anomalies, none if it is correct; known is false if they are not
// known.
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
		s.tardy = 2 // a pause lengthens a wait here and there
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

// delay is the time by which a tardy consumer exceeds the usual wait after the k-th attempt.
func (s *simulation) delay(b history.Backoff, k int) time.Duration {
	if s.tardy == 0 || s.Intn(10) >= s.tardy {
		return 0
	}
	return b.Jitter + max(b.Usual, b.Wait(k)/2) + time.Duration(1+s.Intn(50))*ms
}

// largerHeader promises that other records continue, with few failures, or that waits are jittered, with all records
// failing.
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
			least, most = 3, 6 // records after a failing one arrive while it backs off
		case isolated:
			least, most = 20, 70
		}
		at += time.Duration(least+s.Intn(most-least)) * ms
		s.at(at, func() { s.sendOne(r) })
	}
	s.runUntil(at)
}

// sleep makes the process block waiting records for as long as the record backs off, if its manner requires it.
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
