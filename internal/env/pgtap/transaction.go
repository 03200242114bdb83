package pgtap

// The attempts of a transaction, when they are decided, and when they end. Without Config.Batch, a transaction is an
// attempt at one record, which is decided at the first statement with its id: the subject's statement then fails, as it
// would by itself. With it, the statements before the end are carried out, since a transaction that fails early does
// not show which other records it was for. So what is planned for any of its records strikes its end:
//
//   - COMMIT of a transaction that the subject began.
//   - A statement, or a text of several, that is carried out alone.
//   - Statements up to a Sync, which are held back until then: the one with the record that is to fail.
//
// Behind a savepoint, the subject can tell because of which record a statement fails. So that is decided there.

import (
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// transaction is what has begun on a connection and has not ended. It is guarded by the session's mutex.
type transaction struct {
	attempts []attempt
	// records are those that the attempts are at.
	records map[int32]bool
	// batch is its number in the history, 0 without Config.Batch.
	batch int64
	// ruling is how it is answered, once that is decided. lost: its commit is to stay unanswered.
	ruling workload.Ruling
	lost   bool
	// undone: the subject rolled back.
	undone bool
}

// attempt is an attempt that has begun.
type attempt struct {
	event history.Event
	// decided: it succeeds, if the transaction does.
	decided bool
}

// undecided returns the attempts that are not decided, from one on.
func (t *transaction) undecided(from int) (all []history.Event) {
	for _, one := range t.attempts[from:] {
		if !one.decided {
			all = append(all, one.event)
		}
	}
	return all
}

// decided notes that the attempts which undecided returned are decided.
func (t *transaction) decided(from int, events []history.Event) {
	for i := range t.attempts[from:] {
		if one := &t.attempts[from+i]; !one.decided {
			one.event, one.decided, events = events[0], true, events[1:]
		}
	}
}

// join begins the attempts at the records that have none in the open transaction.
func (s *session) join(records []int32, used statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back.open == nil {
		s.back.open = &transaction{records: map[int32]bool{}}
		if s.tap.cfg.Batch {
			s.back.open.batch = s.tap.BeginBatch()
		}
	}
	open, began := s.back.open, s.tap.cfg.Clock.Now()
	for _, record := range records {
		if open.records[record] {
			continue
		}
		open.records[record] = true
		event := s.attempt(open.batch)
		event.Time, event.Text = began, used.told
		s.tap.Begin(&event, record, true)
		event.Text = ""
		open.attempts = append(open.attempts, attempt{event: event})
	}
}

// attempt is an attempt of the subject's that has not begun, in a batch if that is not 0.
func (s *session) attempt(batch int64) history.Event {
	event := s.client.Attempt(s.tap.cfg.Clock.Now())
	if batch != 0 {
		event.Flags, event.ProducerID, event.ProducerEpoch = history.InTransaction, batch, 0
	}
	return event
}

// decide decides the attempts of the open transaction that are not decided, or only those since the last savepoint. It
// returns what answers in the server's place, and because of which record; nil if the server answers.
func (s *session) decide(all bool) (*planned, int32, error) {
	open, from, events := s.takeUndecided(all)
	if len(events) == 0 {
		return nil, history.None, nil
	}
	ruling, of, ended := s.rule(events)
	record := events[of].Record
	open.decided(from, events)
	switch unanswered := ruling.Outcome == history.OutcomeTimeout || ruling.Outcome == history.OutcomeReset; {
	case ended != workload.Elapsed:
		s.finish(open, ruling.Outcome, ended == workload.Gone)
		return nil, record, errOver
	case s.wasCanceled():
		return s.cancel(open), record, nil
	case unanswered && s.tap.cfg.LoseCommits:
		open.lost, open.ruling = true, ruling
		s.put(open)
		return nil, record, nil
	case unanswered:
		answer, err := s.leave(open, ruling)
		return answer, record, err
	}
	s.put(open)
	if ruling.Outcome == history.OutcomeSuccess {
		return nil, record, nil
	}
	return s.tap.planned(ruling.Outcome), record, nil
}

// rule waits for the planned time, and returns the answer to attempts and because of which it is given.
func (s *session) rule(events []history.Event) (ruling workload.Ruling, of int, ended workload.Waited) {
	if s.tap.cfg.Batch {
		return s.tap.RuleTogether(s, events)
	}
	ruling, ended = s.tap.Rule(s, &events[0])
	return ruling, 0, ended
}

// takeUndecided takes the open transaction, if attempts in it are not decided, and returns them and where they begin.
func (s *session) takeUndecided(all bool) (open *transaction, from int, events []history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open = s.back.open; open == nil {
		return nil, 0, nil
	}
	if !all {
		from = s.back.sinceSavepoint()
	}
	if events = open.undecided(from); len(events) > 0 {
		s.back.open = nil
	}
	return open, from, events
}

// take takes the open transaction away, so that nothing else ends it; put puts it back.
func (s *session) take() *transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.back.open
	s.back.open = nil
	return open
}

func (s *session) put(open *transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.open = open
}

// leave ends a transaction without an answer: after its wait, or at once with a reset. If the subject canceled its
// statement meanwhile, that is answered.
func (s *session) leave(open *transaction, ruling workload.Ruling) (*planned, error) {
	if ruling.Outcome == history.OutcomeReset {
		s.finish(open, ruling.Outcome, false)
		_ = s.client.SetLinger(0) // without lingering, closing sends RST instead of FIN
		return nil, errOver
	}
	// The subject's statement was not sent; those before it in the transaction were.
	if err := s.front.out.Flush(); err != nil {
		return nil, err
	}
	ended := ruling.Hang(s)
	if s.wasCanceled() {
		return s.cancel(open), nil
	}
	s.finish(open, ruling.Outcome, ended == workload.Gone)
	return nil, errOver
}

// cancel ends a transaction whose statement the subject canceled, and returns the server's answer to that.
func (s *session) cancel(open *transaction) *planned {
	s.finish(open, history.OutcomeTimeout, true)
	return &planned{Error: Error{SQLState: canceled, Message: "canceling statement due to user request"}}
}

// end ends the open transaction, if there is one. One whose subject has left got no answer, whatever the server did.
// The caller holds the mutex.
func (s *session) end(outcome history.Outcome, gone bool) {
	open := s.back.open
	s.back.open = nil
	if s.back.left {
		outcome, gone = history.OutcomeTimeout, true
	}
	s.finish(open, outcome, gone)
}

// fail ends what a refused statement takes back: everything since the last savepoint, or without one, the transaction.
// The caller holds the mutex.
func (s *session) fail(outcome history.Outcome, gone bool) {
	if len(s.back.savepoints) == 0 || s.back.left {
		s.end(outcome, gone)
		return
	}
	s.takeBack(outcome, gone)
}

// takeBack ends the attempts since the last savepoint. The caller holds the mutex.
func (s *session) takeBack(outcome history.Outcome, gone bool) {
	open := s.back.open
	if open == nil {
		return
	}
	since := s.back.sinceSavepoint()
	s.conclude(open.attempts[since:], outcome, gone)
	for _, one := range open.attempts[since:] {
		delete(open.records, one.event.Record)
	}
	open.attempts = open.attempts[:since]
}

// finish ends a transaction that is not open any more.
func (s *session) finish(open *transaction, outcome history.Outcome, gone bool) {
	if open == nil {
		return
	}
	s.conclude(open.attempts, outcome, gone)
	if open.batch != 0 {
		of := s.attempt(open.batch)
		s.tap.EndBatch(&of, outcome == history.OutcomeSuccess)
	}
}

func (s *session) conclude(attempts []attempt, outcome history.Outcome, gone bool) {
	for i := range attempts {
		event := &attempts[i].event
		event.Outcome = outcome
		s.tap.End(event, gone)
	}
}
