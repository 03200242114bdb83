package pgtap

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// The codes in the place of a protocol's version, and the limits of messages.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104
	// maxStartup is PostgreSQL's own limit.
	maxStartup = 10_000
	// maxAsked bounds the requests for encryption before a connection begins: libpq makes two.
	maxAsked = 4
	// maxDecoded bounds the messages that are decoded: they are larger than any record that a broker accepts by default.
	// Longer ones are forwarded piece by piece.
	maxDecoded = 16 << 20
	headLen    = 5 // of a message: its type, and its length with the four bytes of the length
	bufferSize = 32 << 10
)

// session is a connection of the subject's, and its own to the server. One goroutine reads each of them.
type session struct {
	tap    *Tap
	client *workload.Conn
	server duplex
	front  frontend

	mu sync.Mutex
	// idle says that an answer to a Sync or a Query has come, or that the session is over.
	idle sync.Cond
	back backend
	over bool
	// hold ends the wait of an attempt that is held, nil if none is. canceled says that the subject canceled it.
	hold     context.CancelFunc
	canceled bool
}

// close ends the session. It may be called several times.
func (s *session) close() {
	_ = s.client.Close()
	s.mu.Lock()
	if s.server != nil {
		_ = s.server.Close()
	}
	s.over = true
	s.idle.Broadcast()
	s.mu.Unlock()
}

// serve forwards messages until both sides have ended.
func (s *session) serve() {
	defer s.close()
	reader := bufio.NewReaderSize(s.client, bufferSize)
	startup, err := s.start(reader)
	if err != nil {
		s.noteUnless(err)
		return
	}
	if startup == nil { // it was a request to cancel
		return
	}
	conn, err := s.tap.dial()
	if err != nil {
		s.tap.note(s, fmt.Sprintf("the server can't be reached: %v", err))
		return
	}
	s.mu.Lock()
	s.server = conn
	over := s.over
	s.mu.Unlock()
	if over {
		_ = conn.Close()
		return
	}
	if _, err := conn.Write(startup); err != nil {
		return
	}
	if replicates(startup) {
		s.pass(reader)
		return
	}
	s.forward(reader)
}

// pass forwards what nothing is known of, in both directions.
func (s *session) pass(reader io.Reader) {
	var answers sync.WaitGroup
	answers.Go(func() { _, _ = io.Copy(s.client, s.server); s.close() })
	_, _ = io.Copy(s.server, reader)
	s.close()
	answers.Wait()
}

// forward forwards messages in both directions until both sides have ended.
func (s *session) forward(reader *bufio.Reader) {
	var answers sync.WaitGroup
	answers.Go(s.readServer)
	s.readClient(reader)
	answers.Wait()
	s.abandon() // one that began after the server had left
}

// noteUnless logs why a connection is closed, unless its client left.
func (s *session) noteUnless(err error) {
	if errors.Is(err, errMalformed) || errors.Is(err, errTLS) {
		s.tap.note(s, err.Error())
	}
}

var (
	errMalformed = errors.New("it does not speak PostgreSQL's protocol, and was closed")
	errTLS       = errors.New("it insists on TLS, which this address does not have, and was closed; connect with " +
		"sslmode=disable, as DLQBENCH_DATABASE_URL says")
)

// start reads what precedes messages, and returns the startup packet; nil for a request to cancel, which it forwards.
func (s *session) start(reader *bufio.Reader) ([]byte, error) {
	asked := false
	for range maxAsked {
		head, err := reader.Peek(8)
		if err != nil {
			if asked && len(head) == 0 {
				return nil, errTLS
			}
			return nil, err
		}
		length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		switch {
		case head[0] == 0x16: // a TLS handshake without asking for it
			return nil, errTLS
		case length < 8 || length > maxStartup:
			return nil, errMalformed
		}
		packet := make([]byte, length)
		if _, err := io.ReadFull(reader, packet); err != nil {
			return nil, err
		}
		switch code {
		case codeTLS, codeGSS:
			asked = asked || code == codeTLS
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		case codeCancel:
			s.tap.cancel(packet)
			return nil, nil
		default:
			return packet, nil
		}
	}
	return nil, errMalformed
}

// cancel forwards a request to cancel, unless what it means is held here.
func (t *Tap) cancel(packet []byte) {
	if t.release(packet[8:]) {
		return
	}
	conn, err := t.dial()
	if err != nil {
		return // as if the server had not understood: there is no answer
	}
	defer conn.Close()
	if _, err := conn.Write(packet); err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(dialLimit))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxStartup)) // the server closes it when it is done
}

// release ends the wait of the session that has the key, and reports whether it waited. Otherwise the server decides.
func (t *Tap) release(key []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.sessions {
		if s.release(key) {
			return true
		}
	}
	return false
}

func (s *session) release(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(key) == 0 || string(key) != string(s.back.key) {
		return false
	}
	if s.hold == nil {
		s.back.canceling = true
		return false
	}
	s.canceled = true
	s.hold()
	return true
}

// Wait implements workload.Caller. A request to cancel ends it, too.
func (s *session) Wait(ctx context.Context, limit time.Duration) workload.Waited {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.hold, s.canceled = cancel, false
	s.mu.Unlock()
	ended := s.client.Wait(ctx, limit)
	s.mu.Lock()
	s.hold = nil
	s.mu.Unlock()
	return ended
}

// Over implements workload.Caller.
func (s *session) Over() bool { return false }

// message is the head of a message.
type message struct {
	kind byte
	size int // with the head
}

// peek reads the head of the next message. The error is errMalformed if it can't be one.
func peek(reader *bufio.Reader) (message, error) {
	head, err := reader.Peek(headLen)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			return message{}, io.ErrUnexpectedEOF
		}
		return message{}, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < headLen-1 || length > 1<<31-2 {
		return message{}, errMalformed
	}
	return message{head[0], int(length) + 1}, nil
}

// read reads a whole message into the buffer, which grows as data comes.
func read(reader *bufio.Reader, m message, buffer []byte) ([]byte, error) {
	for buffer = buffer[:0]; len(buffer) < m.size; {
		from, step := len(buffer), min(m.size-len(buffer), bufferSize)
		buffer = append(buffer, make([]byte, step)...)
		if _, err := io.ReadFull(reader, buffer[from:]); err != nil {
			return buffer[:from], err
		}
	}
	return buffer, nil
}

// replicates reports whether a startup packet asks for replication.
func replicates(packet []byte) bool {
	fields := strings.Split(string(packet[8:]), "\x00") // names and values in turn
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "replication" {
			return fields[i+1] != "off" && fields[i+1] != "false" && fields[i+1] != "no" && fields[i+1] != "0"
		}
	}
	return false
}
