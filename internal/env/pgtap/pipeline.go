package pgtap

// What the subject's messages do to transactions, as far as it decides when attempts are decided (Config.Batch).

import (
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/dlqbench/dlqbench/history"
)

// pipeline is what was sent since the last Sync or Query.
type pipeline struct {
	// inside: a transaction was begun. Whether it was ended, too, is not known before that is answered.
	inside bool
	// holds: a transaction that ends with the next Sync is held back until then. held is what it has, and binds where in
	// it the first statement of each record is.
	holds bool
	held  []byte
	binds map[int32]span
	// copies is the COPY that rows are sent for, nil for none, and tail the end of what was sent.
	copies *statement
	tail   []byte
	// undoes: after the next Sync or Query, the tap ends the transaction, whose COMMIT was made to fail.
	undoes bool
}

// span is a part of what is held.
type span struct{ from, to int }

// undo is what is pending for the tap's own ROLLBACK.
const undo = 'R'

// follow notes what a statement does to transactions. It returns whether attempts are decided at it, and whether all of
// the transaction's are. The caller has settled the session.
func (s *session) follow(used statement, records []int32, raw []byte) (decides, all bool) {
	f, c := &s.front, used.control
	inside := s.inside()
	if c.copies {
		f.copies, f.tail = &used, f.tail[:0]
		return false, false
	}
	after := !c.commits && (inside || c.begins)
	whole := raw[0] == 'Q'
	f.inside = f.inside || c.begins && !whole
	switch {
	case len(records) == 0:
		return c.commits, true
	case !after && whole:
		return true, true
	case !after:
		f.hold(records, len(raw))
		return false, true
	}
	return s.saved(), false
}

// inside reports whether the subject has begun a transaction that is open.
func (s *session) inside() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.front.inside || s.back.status == 'T'
}

// savepoint notes what a statement does to savepoints. Whoever rolls back to one takes the attempts behind it back.
func (s *session) savepoint(c control) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.back
	if c.restores && len(b.savepoints) > 0 {
		s.takeBack(history.OutcomeTimeout, true)
	}
	switch {
	case c.saves:
		begun := 0
		if b.open != nil {
			begun = len(b.open.attempts)
		}
		b.savepoints = append(b.savepoints, begun)
	case c.releases:
		b.savepoints = b.savepoints[:max(len(b.savepoints)-1, 0)]
	case c.commits:
		b.savepoints = nil
	}
}

func (s *session) saved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.back.savepoints) > 0
}

// hold holds back a message of this size, and all that follow it up to the next Sync.
func (p *pipeline) hold(records []int32, size int) {
	if p.binds == nil {
		p.binds = map[int32]span{}
	}
	p.holds = true
	for _, record := range records {
		if _, before := p.binds[record]; !before {
			p.binds[record] = span{len(p.held), len(p.held) + size}
		}
	}
}

// reaches releases what is held if the next message ends it. At a Sync, which ends the transaction, its attempts are
// decided; anything else but the messages of further statements is about answers that the subject awaits first.
func (s *session) reaches(m message) error {
	f := &s.front
	switch m.kind {
	case 'S':
		if !s.tap.cfg.Batch || s.inside() {
			break
		}
		answer, record, err := s.decide(true)
		if err != nil {
			return err
		}
		if answer != nil {
			failing, err := (&pgproto3.Bind{PreparedStatement: s.force(answer)}).Encode(nil)
			if err != nil {
				return err
			}
			at, held := f.binds[record]
			if !held {
				at = span{len(f.held), len(f.held)}
			}
			f.held = append(append(f.held[:at.from:at.from], failing...), f.held[at.to:]...)
		}
	case 'P', 'B', 'D', 'E', 'C':
		if len(f.held)+m.size <= maxHeld {
			return nil
		}
	}
	_, err := f.out.Write(f.held)
	f.holds, f.held = false, nil
	clear(f.binds)
	return err
}

// copied begins attempts at the records whose ids are in the rows of a COPY. An id may be in two messages.
func (s *session) copied(rows []byte) {
	const longest = 64
	f := &s.front
	f.tail = append(f.tail, rows...)
	if records := s.tap.ids(f.tail); len(records) > 0 && s.mayBegin(records, *f.copies) {
		s.join(records, *f.copies)
	}
	f.tail = f.tail[:copy(f.tail, f.tail[max(0, len(f.tail)-longest):])]
}

// copyDone decides the attempts of a COPY that is a transaction of its own. It returns what is sent in the place of the
// COPY's end.
func (s *session) copyDone(raw []byte) ([]byte, error) {
	f := &s.front
	f.copies = nil
	if s.inside() {
		return raw, nil
	}
	answer, _, err := s.decide(true)
	if err != nil || answer == nil {
		return raw, err
	}
	return (&pgproto3.CopyFail{Message: s.force(answer)}).Encode(nil)
}

// undo ends the transaction whose COMMIT was made to fail, as the failed COMMIT of a server does.
func (s *session) undo() error {
	s.front.undoes = false
	rollback, err := (&pgproto3.Query{String: "ROLLBACK"}).Encode(nil)
	if err != nil {
		return err
	}
	s.expect(undo)
	_, err = s.front.out.Write(rollback)
	return err
}
