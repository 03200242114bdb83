package pgtap

// What the subject sends.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
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
	pipeline
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
	if err := s.reaches(m); err != nil {
		return err
	}
	if s.front.holds || s.decodable(m.kind) && m.size <= maxDecoded {
		err = s.forwardRead(reader, m)
	} else {
		if m.kind == 'S' || m.kind == 'Q' || m.kind == 'F' {
			s.expect(m.kind)
		}
		_, err = io.CopyN(s.front.out, reader, int64(m.size))
	}
	if err == nil && s.front.undoes && (m.kind == 'S' || m.kind == 'Q') {
		err = s.undo()
	}
	if err != nil || reader.Buffered() >= headLen {
		return err // more is to come at once
	}
	return s.front.out.Flush()
}

// forwardRead reads a message, and forwards it or what is sent in its place.
func (s *session) forwardRead(reader *bufio.Reader, m message) error {
	raw, err := read(reader, m, s.front.buffer)
	s.front.buffer = raw[:0]
	if err != nil {
		return err
	}
	if cap(s.front.buffer) > 1<<20 {
		s.front.buffer = nil
	}
	if raw, err = s.look(m.kind, raw); err != nil {
		return err
	}
	if s.front.holds {
		s.front.held = append(s.front.held, raw...)
		return nil
	}
	if m.kind == 'Q' {
		s.expect(m.kind)
	}
	_, err = s.front.out.Write(raw)
	return err
}

// decodable reports whether a message may concern an attempt.
func (s *session) decodable(kind byte) bool {
	return bytes.IndexByte([]byte("QPBC"), kind) >= 0 || s.front.copies != nil && (kind == 'd' || kind == 'c')
}

// look looks at a message and returns what is sent in its place. A message that can't be decoded is forwarded as it
// came: the server refuses it.
func (s *session) look(kind byte, raw []byte) ([]byte, error) {
	body := raw[headLen:]
	switch kind {
	case 'Q':
		text, _, _ := bytes.Cut(body, []byte{0})
		return s.statement(s.tap.described(text), text, raw, func(name string) pgproto3.FrontendMessage {
			return &pgproto3.Query{String: "EXECUTE \"" + name + "\""}
		})
	case 'P':
		name, rest, _ := bytes.Cut(body, []byte{0})
		text, _, _ := bytes.Cut(rest, []byte{0})
		if len(s.front.statements) >= maxStatements {
			clear(s.front.statements)
		}
		s.front.statements[string(name)] = s.tap.described(text)
	case 'd':
		s.copied(body)
	case 'c':
		return s.copyDone(raw)
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
			used = statement{writes: true}
		}
		destination := string(portal)
		return s.statement(used, rest, raw, func(name string) pgproto3.FrontendMessage {
			return &pgproto3.Bind{DestinationPortal: destination, PreparedStatement: name}
		})
	}
	return raw, nil
}

// statement begins attempts at the records whose ids are in the text of a statement, or in data, which is bound to it.
// It returns what is sent in the place of raw: raw itself, or what fails makes a name into, a message that fails.
func (s *session) statement(used statement, data, raw []byte,
	fails func(name string) pgproto3.FrontendMessage) ([]byte, error) {
	if s.front.skips {
		return raw, nil
	}
	records := s.recordsOf(used, data, raw[0] == 'B')
	if len(records) == 0 && used.control == (control{}) {
		return raw, nil
	}
	if !s.front.holds {
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	s.savepoint(used.control)
	if !s.mayBegin(records, used) {
		return raw, nil
	}
	decides, all := true, true
	if s.tap.cfg.Batch {
		decides, all = s.follow(used, records, raw)
	}
	if len(records) > 0 {
		s.join(records, used)
	}
	if !decides {
		return raw, nil
	}
	answer, _, err := s.decide(all)
	if err != nil || answer == nil {
		return raw, err
	}
	s.front.skips = raw[0] == 'B'
	s.front.undoes = s.tap.cfg.Batch && len(records) == 0
	return fails(s.force(answer)).Encode(nil)
}

// recordsOf returns the records whose ids a statement has that can begin attempts: without Config.Batch, the first.
func (s *session) recordsOf(used statement, data []byte, bound bool) []int32 {
	if !used.writes {
		return nil
	}
	records := used.records
	if bound && (s.tap.cfg.Batch || len(records) == 0) {
		records = slices.Concat(records, s.tap.ids(data))
	}
	if len(records) == 0 && used.changes {
		s.tap.unseen.Add(1)
	}
	if states := s.tap.cfg.Parameters; states != nil && !states.Match(data) {
		return nil
	}
	return records
}

// force returns the name of a statement that does not exist, whose error becomes the answer.
func (s *session) force(answer *planned) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.forced++
	answer.name = fmt.Sprintf("%s-%d", forcedName, s.back.forced)
	s.back.answer = answer
	return answer.name
}

// forcedName begins the names of the statements that do not exist, which are executed in the place of those that are to
// fail. The server's error quotes it.
const forcedName = "dlqbench-planned"

// mayBegin reports whether a statement can begin attempts: the transaction has not failed, and is open for others.
func (s *session) mayBegin(records []int32, used statement) bool {
	s.mu.Lock()
	open, failed := s.back.open, s.back.failed || s.back.status == 'E'
	s.mu.Unlock()
	if open == nil || s.tap.cfg.Batch {
		return !failed
	}
	if first := open.attempts[0].event; first.Record != records[0] {
		s.tap.Several(int16(s.client.Instance()), first.Run, func() string { return used.told })
	}
	return false
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
		s.front.skips, s.front.inside = false, false
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
	open := s.take()
	if open == nil {
		return errOver
	}
	for i := range open.attempts {
		open.attempts[i].event.Flags |= history.Withheld
	}
	if open.ruling.Outcome == history.OutcomeReset {
		s.finish(open, open.ruling.Outcome, false)
		_ = s.client.SetLinger(0)
		return errOver
	}
	_ = s.client.SetReadDeadline(time.Time{})
	ended := open.ruling.Hang(s)
	s.finish(open, open.ruling.Outcome, ended == workload.Gone || s.wasCanceled())
	return errOver
}
