package pgtap

// What the subject sends.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// frontend is the state of what the subject sends; only the goroutine that reads it uses it.
type frontend struct {
	statements map[string]statement
	// skips: the server skips everything up to the next Sync.
	skips  bool
	buffer []byte
	out    *bufio.Writer
}

// maxStatements bounds the prepared statements that are remembered. Beyond it, those that were not used last are
// forgotten, and their next use is taken for one that writes.
const maxStatements = 10_000

// errOver says that an attempt ended the session.
var errOver = errors.New("the session is over")

// readClient forwards what the subject sends, and begins attempts.
func (s *session) readClient(reader *bufio.Reader) {
	s.front.statements, s.front.out = map[string]statement{}, bufio.NewWriterSize(s.server, bufferSize)
	for {
		err := s.forwardOne(reader)
		switch {
		case err == nil:
			continue
		case s.lost():
			err = s.loseCommit()
		}
		s.noteUnless(err)
		break
	}
	// The server still carries out what it has, and then sees that the subject left.
	_ = s.front.out.Flush()
	s.mu.Lock()
	s.back.left = true
	s.mu.Unlock()
	_ = s.server.CloseWrite()
	_ = s.client.Close()
}

func (s *session) forwardOne(reader *bufio.Reader) error {
	m, err := peek(reader)
	if err != nil {
		return err
	}
	out := s.front.out
	if !decodable(m.kind) || m.size > maxDecoded {
		if m.kind == 'S' || m.kind == 'Q' || m.kind == 'F' {
			s.expect(m.kind)
		}
		if _, err := io.CopyN(out, reader, int64(m.size)); err != nil {
			return err
		}
	} else {
		raw, err := read(reader, m, s.front.buffer)
		s.front.buffer = raw[:0]
		if err != nil {
			return err
		}
		if cap(s.front.buffer) > 1<<20 {
			s.front.buffer = nil
		}
		raw, err = s.look(m.kind, raw)
		if err != nil {
			return err
		}
		if m.kind == 'Q' {
			s.expect(m.kind)
		}
		if _, err := out.Write(raw); err != nil {
			return err
		}
	}
	if reader.Buffered() >= headLen {
		return nil // more is to come at once
	}
	return out.Flush()
}

// decodable reports whether a message may concern an attempt.
func decodable(kind byte) bool { return kind == 'Q' || kind == 'P' || kind == 'B' || kind == 'C' }

// look looks at a message and returns what is sent in its place. A message that can't be decoded is forwarded as it
// came: the server refuses it.
func (s *session) look(kind byte, raw []byte) ([]byte, error) {
	body := raw[headLen:]
	switch kind {
	case 'Q':
		text, _, _ := bytes.Cut(body, []byte{0})
		return s.statement(s.tap.described(text), body, raw, func(name string) pgproto3.FrontendMessage {
			return &pgproto3.Query{String: "EXECUTE \"" + name + "\""}
		})
	case 'P':
		name, rest, _ := bytes.Cut(body, []byte{0})
		text, _, _ := bytes.Cut(rest, []byte{0})
		if len(s.front.statements) >= maxStatements {
			clear(s.front.statements)
		}
		s.front.statements[string(name)] = s.tap.described(text)
	case 'C':
		if len(body) > 1 && body[0] == 'S' {
			name, _, _ := bytes.Cut(body[1:], []byte{0})
			delete(s.front.statements, string(name))
		}
	case 'B':
		portal, rest, _ := bytes.Cut(body, []byte{0})
		name, rest, found := bytes.Cut(rest, []byte{0})
		if !found {
			return raw, nil
		}
		used, known := s.front.statements[string(name)]
		if !known {
			used = statement{record: history.None, writes: true}
		}
		destination := string(portal)
		return s.statement(used, rest, raw, func(name string) pgproto3.FrontendMessage {
			s.front.skips = true
			return &pgproto3.Bind{DestinationPortal: destination, PreparedStatement: name}
		})
	}
	return raw, nil
}

// statement begins an attempt if the statement, with its parameters, has a record's id, and returns what is sent in the
// place of raw: raw itself, or what fails makes a name into a message that fails.
func (s *session) statement(used statement, data, raw []byte,
	fails func(name string) pgproto3.FrontendMessage) ([]byte, error) {
	if !used.writes || s.front.skips {
		return raw, nil
	}
	record := used.record
	if record == history.None {
		record = s.tap.find(data)
	}
	if record == history.None {
		if used.changes {
			s.tap.unseen.Add(1)
		}
		return raw, nil
	}
	if states := s.tap.cfg.Parameters; states != nil && !states.Match(data) {
		return raw, nil
	}
	if err := s.settle(); err != nil {
		return nil, err
	}
	if !s.mayBegin(record, used) {
		return raw, nil
	}
	answer, err := s.begin(record, used)
	if err != nil || answer == nil {
		return raw, err
	}
	s.mu.Lock()
	s.back.forced++
	name := fmt.Sprintf("%s-%d", forcedName, s.back.forced)
	answer.name = name
	s.back.answer = answer
	s.mu.Unlock()
	return fails(name).Encode(nil)
}

// forcedName begins the names of the statements that do not exist, which are executed in the place of those that are to
// fail. The server's error quotes it.
const forcedName = "dlqbench-planned"

// mayBegin reports whether a statement begins an attempt: none is open, and the transaction has not failed.
func (s *session) mayBegin(record int32, used statement) bool {
	s.mu.Lock()
	open, failed := s.back.attempt, s.back.failed || s.back.status == 'E'
	s.mu.Unlock()
	if open != nil && open.event.Record != record {
		s.tap.Several(int16(s.client.Instance()), open.event.Run, func() string { return used.told })
	}
	return open == nil && !failed
}

// begin begins an attempt, and returns what answers it in the server's place; nil, if the server does.
func (s *session) begin(record int32, used statement) (*planned, error) {
	event := s.client.Attempt(s.tap.cfg.Clock.Now())
	event.Text = used.told
	s.tap.Begin(&event, record, true)
	event.Text = ""
	ruling, ended := s.tap.Rule(s, &event)
	event.Outcome = ruling.Outcome
	if ended != workload.Elapsed {
		s.tap.End(&event, ended == workload.Gone)
		return nil, errOver
	}
	if s.wasCanceled() {
		return s.cancel(&event), nil
	}
	unanswered := ruling.Outcome == history.OutcomeTimeout || ruling.Outcome == history.OutcomeReset
	open := &attempt{event: event, ruling: ruling, lost: unanswered && s.tap.cfg.LoseCommits}
	if unanswered && !open.lost {
		return s.leave(open)
	}
	s.mu.Lock()
	s.back.attempt = open
	s.mu.Unlock()
	if ruling.Outcome == history.OutcomeSuccess || open.lost {
		return nil, nil
	}
	return s.tap.planned(ruling.Outcome), nil
}

// leave ends an attempt without an answer: after its wait, or at once with a reset. If the subject canceled its
// statement meanwhile, that is answered.
func (s *session) leave(open *attempt) (*planned, error) {
	if open.ruling.Outcome == history.OutcomeReset {
		s.tap.End(&open.event, false)
		_ = s.client.SetLinger(0) // without lingering, closing sends RST instead of FIN
		return nil, errOver
	}
	// The subject's statement was not sent; those before it in the transaction were.
	if err := s.front.out.Flush(); err != nil {
		return nil, err
	}
	ended := open.ruling.Hang(s)
	if s.wasCanceled() {
		return s.cancel(&open.event), nil
	}
	s.tap.End(&open.event, ended == workload.Gone)
	return nil, errOver
}

// cancel ends an attempt whose statement the subject canceled, and returns the server's answer to that.
func (s *session) cancel(event *history.Event) *planned {
	event.Outcome = history.OutcomeTimeout
	s.tap.End(event, true)
	return &planned{Error: Error{SQLState: "57014", Message: "canceling statement due to user request"}}
}

func (s *session) wasCanceled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.canceled
	s.canceled = false
	return was
}

// expect notes that the server will answer with ReadyForQuery.
func (s *session) expect(kind byte) {
	if kind == 'S' {
		s.front.skips = false
	}
	s.mu.Lock()
	s.back.pending = append(s.back.pending, kind)
	s.mu.Unlock()
}

// settle waits until the server has answered everything up to the last Sync or Query, so that what it answers next
// belongs to what is sent next.
func (s *session) settle() error {
	if err := s.front.out.Flush(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.back.pending) > 0 && !s.over {
		s.idle.Wait()
	}
	if s.over || s.back.losing {
		return errOver
	}
	return nil
}

// lost reports whether a commit is to stay unanswered.
func (s *session) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.losing
}

// loseCommit leaves the answer to a commit out that was carried out.
func (s *session) loseCommit() error {
	s.mu.Lock()
	open := s.back.attempt
	s.back.attempt = nil
	s.mu.Unlock()
	if open == nil {
		return errOver
	}
	open.event.Flags |= history.Withheld
	if open.ruling.Outcome == history.OutcomeReset {
		s.tap.End(&open.event, false)
		_ = s.client.SetLinger(0)
		return errOver
	}
	_ = s.client.SetReadDeadline(time.Time{})
	ended := open.ruling.Hang(s)
	s.tap.End(&open.event, ended == workload.Gone || s.wasCanceled())
	return errOver
}
