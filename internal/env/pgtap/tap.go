package pgtap

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// dialLimit bounds the time for connecting to the server.
const dialLimit = 10 * time.Second

// Config configures a tap.
type Config struct {
	workload.AttemptsConfig
	// URL is that of the server's database.
	URL string
	// Statements limits the statements that can begin an attempt to those whose text matches; nil stands for all that do
	// not read.
	Statements *regexp.Regexp
	// Parameters limits them to those with parameters, or a text, that match; nil stands for any.
	Parameters *regexp.Regexp
	// Errors are the errors that stand for outcomes.
	Errors map[history.Outcome]Error
	// Batch: a transaction is an attempt at each record whose id its statements have.
	Batch bool
	// LoseCommits: the outcomes timeout and reset leave the commit unanswered instead of the statement.
	LoseCommits bool
	Log         zerolog.Logger
}

// Error is an error of PostgreSQL. Message "" stands for the usual text of the outcome.
type Error struct{ SQLState, Message, Constraint string }

// Tap is a tap before a PostgreSQL server. It is safe for concurrent use.
type Tap struct {
	*workload.Attempts
	cfg       Config
	server    *pgconn.Config
	listeners []net.Listener // of each instance
	closing   atomic.Bool
	serving   sync.WaitGroup
	unseen    atomic.Int64 // statements that write without an id

	mu       sync.Mutex
	sessions map[*session]struct{}
}

// New returns a tap that already listens on one port of 127.0.0.1 per instance. Close ends it.
func New(cfg Config) (*Tap, error) {
	server, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errors.New("reading the URL of the database: it is not postgres://USER:PASSWORD@HOST:PORT/NAME")
	}
	t := &Tap{Attempts: workload.NewAttempts(cfg.AttemptsConfig), cfg: cfg, server: server,
		listeners: make([]net.Listener, cfg.Instances), sessions: map[*session]struct{}{}}
	for i := range t.listeners {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening the database's port for instance %d: %w", i, err), t.Close())
		}
		t.listeners[i] = listener
		t.serving.Go(func() { t.accept(cfg.First+i, listener) })
	}
	return t, nil
}

// Reach connects to the database once, so that one that can't be reached is told before anything depends on it.
func Reach(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	conn, err := pgconn.Connect(ctx, address)
	if err != nil {
		// The error names user and host, not the password; and it names an address once with TLS and once without.
		causes := slices.Compact(strings.Split(err.Error(), "\n\t"))
		return fmt.Errorf("connecting to the database: %s", strings.Join(causes, " "))
	}
	return conn.Close(ctx)
}

// Addr returns the host:port at which an instance finds the database.
func (t *Tap) Addr(instance int) string { return t.listeners[instance-t.cfg.First].Addr().String() }

// Unseen returns the number of statements that write and have no record's id, if no statement had one; else 0.
func (t *Tap) Unseen() int64 {
	if t.Answered() > 0 {
		return 0
	}
	return t.unseen.Load()
}

// Close closes the ports and every connection, and waits until their attempts have ended.
func (t *Tap) Close() error {
	t.closing.Store(true)
	for _, listener := range t.listeners {
		if listener != nil {
			listener.Close()
		}
	}
	t.mu.Lock()
	for s := range t.sessions {
		s.close()
	}
	t.mu.Unlock()
	t.serving.Wait()
	return nil
}

func (t *Tap) accept(instance int, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case t.closing.Load():
			if err == nil {
				conn.Close()
			}
			return
		case err != nil:
			// Most likely there are no file descriptors left. The subject's next connection may get one.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s := &session{tap: t, client: workload.NewConn(conn.(*net.TCPConn), int16(instance), t.Process(instance))}
		s.idle.L = &s.mu
		if t.track(s) {
			t.serving.Go(func() { s.serve(); t.forget(s) })
		}
	}
}

// track notes a session. If the tap is closing, it closes the session and returns false.
func (t *Tap) track(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing.Load() {
		s.close()
		return false
	}
	t.sessions[s] = struct{}{}
	return true
}

func (t *Tap) forget(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, s)
}

// note logs that a connection was closed or not observed.
func (t *Tap) note(s *session, what string) {
	t.cfg.Log.Warn().Int("instance", s.client.Instance()).Msg("a connection to the database: " + what)
}

// duplex is a connection to the server, plain or with TLS.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// dial connects to the server, with TLS as its URL says.
func (t *Tap) dial() (duplex, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	address := net.JoinHostPort(t.server.Host, strconv.Itoa(int(t.server.Port)))
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := raw.(*net.TCPConn)
	if t.server.TLSConfig == nil {
		return conn, nil
	}
	secured, err := t.secure(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secured, nil
}

// secure asks the server for TLS (SSLRequest).
func (t *Tap) secure(ctx context.Context, conn *net.TCPConn) (duplex, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	request := binary.BigEndian.AppendUint32(nil, 8)
	answer := make([]byte, 1)
	if _, err := conn.Write(binary.BigEndian.AppendUint32(request, codeTLS)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	var secured duplex = conn
	switch {
	case answer[0] == 'S':
		over := tls.Client(conn, t.server.TLSConfig)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		secured = over
	case !t.plainAllowed():
		return nil, errors.New("the server has no TLS, which its URL asks for")
	}
	return secured, secured.SetDeadline(time.Time{})
}

// plainAllowed reports whether the server's URL allows a connection without TLS (sslmode=prefer).
func (t *Tap) plainAllowed() bool {
	return slices.ContainsFunc(t.server.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}
