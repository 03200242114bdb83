package pgtap

// What the server answers.

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/dlqbench/dlqbench/history"
)

// backend is the state of what the server answers, guarded by the session's mutex.
type backend struct {
	// pending are the messages that the server answers with ReadyForQuery and has not: Sync, Query and FunctionCall.
	pending []byte
	// status is that of the transaction: I for none, T, or E for one that failed. failed: an error came, and nothing is
	// carried out until the next ReadyForQuery.
	status byte
	failed bool
	key    []byte // for a request to cancel
	// open is what has begun and not ended, nil for nothing.
	open *transaction
	// savepoints are those of the transaction: how many attempts had begun before each.
	savepoints []int
	// answer is what replaces the error of a statement that was made to fail; forced counts them.
	answer *planned
	forced int
	// undoing: what the server answers to the tap's own ROLLBACK is not forwarded, but for the state that it leads to.
	undoing bool
	// losing: a commit was carried out, and is not answered. left: the subject has left. canceling: it has asked the
	// server to cancel what it carries out.
	losing, left, canceling bool
}

// sinceSavepoint returns where in the open transaction the attempts behind the last savepoint begin.
func (b *backend) sinceSavepoint() int {
	if len(b.savepoints) == 0 {
		return 0
	}
	return min(b.savepoints[len(b.savepoints)-1], len(b.open.attempts))
}

// canceled is the SQLSTATE of a statement that was canceled.
const canceled = "57014"

// planned is an error in the place of the server's, which quotes name.
type planned struct {
	Error
	name    string
	outcome history.Outcome
}

// maxHeld bounds what is held back until it is known whether a commit is lost.
const maxHeld = 16 << 20

// readServer forwards what the server answers, and ends attempts.
func (s *session) readServer() {
	reader := bufio.NewReaderSize(s.server, bufferSize)
	out := &answers{client: s.client}
	var buffer []byte
	for {
		m, err := peek(reader)
		if err != nil {
			s.noteUnless(err)
			break
		}
		if !telling(m.kind) || m.size > maxDecoded {
			err = out.copy(reader, m.size)
		} else {
			if buffer, err = read(reader, m, buffer); err != nil {
				break
			}
			out.write(s.answered(m.kind, buffer, out))
		}
		if err != nil {
			break
		}
		if s.lost() {
			_ = s.client.SetReadDeadline(time.Unix(1, 0)) // the reader of the subject's messages goes on with it
			break
		}
		if reader.Buffered() < headLen {
			out.flush()
		}
	}
	out.flush()
	if s.lost() {
		return
	}
	s.abandon()
	s.close()
}

// telling reports whether a message tells how an attempt goes on.
func telling(kind byte) bool { return bytes.IndexByte([]byte("ECZGK"), kind) >= 0 }

// answered looks at a message and returns what is forwarded in its place.
func (s *session) answered(kind byte, raw []byte, out *answers) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, b := raw[headLen:], &s.back
	switch kind {
	case 'K':
		b.key = slices.Clone(body)
	case 'G':
		// The server ignores what it gets until the copy is over (COPY_IN), so a Sync before it is not answered.
		for len(b.pending) > 0 && b.pending[0] == 'S' {
			b.pending = b.pending[1:]
		}
	case 'C':
		if b.undoing {
			return nil
		}
		s.completed(string(bytes.TrimRight(body, "\x00")))
	case 'E':
		raw = s.refused(raw)
	case 'Z':
		if len(b.pending) > 1 && b.pending[1] == undo {
			b.pending, b.undoing = b.pending[1:], true
			return nil
		}
		s.ready(body)
	}
	out.hold = b.losing || b.open != nil && b.open.lost && kind != 'Z' && len(out.held) < maxHeld
	return raw
}

// completed: a statement was carried out.
func (s *session) completed(tag string) {
	open := s.back.open
	switch {
	case open == nil:
	case tag == "ROLLBACK":
		open.undone = true
	case tag == "COMMIT":
		open.undone = false
		if !open.lost {
			s.end(history.OutcomeSuccess, false)
		}
	}
}

// ready: everything up to a Sync or a Query is answered.
func (s *session) ready(body []byte) {
	b := &s.back
	b.failed, b.undoing, b.canceling = false, false, false
	if len(body) > 0 {
		b.status = body[0]
	}
	if b.status == 'I' {
		b.savepoints = nil
	}
	if len(b.pending) > 0 { // there is none when a connection begins
		b.pending = b.pending[1:]
	}
	if open := b.open; open != nil {
		switch {
		case b.status == 'T':
			open.undone = false // only to a savepoint
		case open.undone:
			s.end(history.OutcomeTimeout, true)
		case b.status == 'I' && open.lost:
			b.losing = true
		case b.status == 'I':
			s.end(history.OutcomeSuccess, false)
		}
	}
	s.idle.Broadcast()
}

// refused: a statement failed. It returns the error that is forwarded.
func (s *session) refused(raw []byte) []byte {
	b := &s.back
	b.failed = true
	var said pgproto3.ErrorResponse
	if said.Decode(raw[headLen:]) != nil {
		s.end(history.OutcomePermanent, false)
		return raw
	}
	answer := b.answer
	b.answer = nil
	if answer == nil || !strings.Contains(said.Message, answer.name) {
		outcome, gone := s.tap.outcomeOf(said.Code), b.canceling && said.Code == canceled
		if gone { // it stopped waiting before it asked, and may not even read the answer
			outcome = history.OutcomeTimeout
		}
		s.fail(outcome, gone)
		return raw
	}
	s.fail(answer.outcome, false)
	if encoded, err := answer.response().Encode(nil); err == nil {
		return encoded
	}
	return raw
}

// abandon ends an attempt that neither side carries on: the subject left, or the server.
func (s *session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(history.OutcomeReset, false)
}

// outcomeOf returns the outcome that an error of the server's own stands for. One that the answers name has their
// outcome. A duplicate is left to the subject: a record that comes again may have been processed.
func (t *Tap) outcomeOf(state string) history.Outcome {
	for outcome, one := range t.cfg.Errors {
		if one.SQLState == state {
			return outcome
		}
	}
	if state == "23505" {
		return history.OutcomeLogical
	}
	for _, class := range []string{"08", "40", "53", "55", "57", "58", "XX"} {
		if strings.HasPrefix(state, class) {
			return history.OutcomeTransient
		}
	}
	return history.OutcomePermanent
}

// planned returns the error that stands for an outcome.
func (t *Tap) planned(outcome history.Outcome) *planned {
	one := t.cfg.Errors[outcome]
	one.Message = strings.ReplaceAll(t.FailureText(outcome, one.Message), "\x00", "")
	return &planned{Error: one, outcome: outcome}
}

func (p *planned) response() *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: p.SQLState, Message: p.Message,
		ConstraintName: p.Constraint}
}

// answers is what is written to the subject. A subject that has left keeps nobody from reading what the server still
// answers.
type answers struct {
	client io.Writer
	out    []byte
	held   []byte
	// hold: what comes is held back.
	hold bool
	gone bool
}

// write writes a message when flush is called next.
func (a *answers) write(raw []byte) {
	if a.hold {
		a.held = append(a.held, raw...)
		return
	}
	a.out = append(append(a.out, a.held...), raw...)
	a.held = a.held[:0]
	if len(a.out) >= bufferSize {
		a.flush()
	}
}

// copy writes a message of any size.
func (a *answers) copy(reader *bufio.Reader, size int) error {
	for size > 0 {
		step := min(size, bufferSize)
		piece, err := reader.Peek(min(step, max(reader.Buffered(), 1)))
		if err != nil {
			return err
		}
		a.write(piece)
		size -= len(piece)
		_, _ = reader.Discard(len(piece)) // they are there
	}
	return nil
}

func (a *answers) flush() {
	if len(a.out) > 0 && !a.gone {
		_, err := a.client.Write(a.out)
		a.gone = err != nil
	}
	a.out = a.out[:0]
	if cap(a.out) > 1<<20 {
		a.out = nil
	}
}
