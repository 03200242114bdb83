package pods

// This file is the sidecar in a pod of the consumer.

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/subject"
)

// isInstance begins the line of a sidecar that has reached the coordinator.
const isInstance = "this pod is instance "

// Sidecar forwards the consumer's connections to the coordinator, and acts on the consumer.
type Sidecar struct {
	// Coordinator is its address. Token is what it wants to know, Pod the name of this pod, Version that of dlqbench.
	Coordinator, Token, Pod, Version string
	// Processes are those of the consumer; nil if the pod does not share its processes.
	Processes Processes
	// Say prints a line.
	Say func(string)

	// host is where the consumer's connections are accepted, startedAt where the startup probe is answered; "" for
	// 127.0.0.1 and startedPort.
	host, startedAt string
	started         atomic.Bool
}

// Processes are the consumer's processes in a pod.
type Processes interface {
	// Signal sends KILL, STOP or CONT to all. It returns when STOP or CONT has taken effect.
	Signal(name string) error
}

// attachEvery is the interval at which a sidecar without an instance asks for one.
const attachEvery = time.Second

// Run serves until ctx ends. Whenever the coordinator is gone, the consumer's processes continue.
func (s *Sidecar) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(s.startedAt, ":"+strconv.Itoa(startedPort)))
	if err != nil {
		return fmt.Errorf("answering whether the consumer may start: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: leaseFor, Handler: http.HandlerFunc(s.answer)}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()
	said := ""
	for ctx.Err() == nil {
		s.heal()
		err := s.attached(ctx)
		if text := fmt.Sprint(err); text != said && ctx.Err() == nil {
			said = text
			s.Say(text)
		}
		select {
		case <-ctx.Done():
		case <-time.After(attachEvery):
		}
	}
	s.heal()
	return nil
}

// answer tells the startup probe whether the consumer may start.
func (s *Sidecar) answer(w http.ResponseWriter, _ *http.Request) {
	if !s.started.Load() {
		http.Error(w, "the run has not come to this instance yet", http.StatusServiceUnavailable)
	}
}

// heal continues a consumer that was stopped by this sidecar, or by the one before it.
func (s *Sidecar) heal() {
	if s.Processes == nil {
		return
	}
	if err := s.Processes.Signal("CONT"); err != nil {
		s.Say("continuing the consumer: " + err.Error())
	}
}

// attached serves one connection to the coordinator to its end.
func (s *Sidecar) attached(ctx context.Context) error {
	header := bearer(s.Token)
	header.Set(podHeader, s.Pod)
	header.Set(versionHeader, s.Version)
	conn, reader, err := dial(ctx, s.Coordinator, attachPath, header)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	a := &attachment{Sidecar: s, control: newControl(conn, reader), open: make(chan struct{}), over: make(chan struct{}),
		conns: map[net.Conn]bool{}}
	defer a.end()
	err = a.receive(a.do)
	if a.failed != nil {
		return a.failed
	}
	return fmt.Errorf("the coordinator is gone: %w", err)
}

// attachment is the time for which a sidecar serves an instance.
type attachment struct {
	*Sidecar
	*control
	listeners []net.Listener
	serving   sync.WaitGroup
	failed    error
	over      chan struct{}

	mu sync.Mutex
	// open is closed while new connections are forwarded; others wait. It is replaced when that ends.
	open   chan struct{}
	isOpen bool
	conns  map[net.Conn]bool
}

func (a *attachment) do(m message) {
	if m.Slot != nil {
		if a.failed = a.listen(m.Slot); a.failed != nil {
			_ = a.conn.Close()
		}
		return
	}
	answer := message{ID: m.ID}
	if err := a.act(m.Act); err != nil {
		answer.Error = err.Error()
	}
	if m.ID != 0 {
		_ = a.send(answer) // reading ends when the connection is broken
	}
}

func (a *attachment) act(act string) error {
	if act == subject.ActStart {
		a.setOpen(true)
		a.started.Store(true)
		return nil
	}
	if a.Processes == nil {
		return errors.New("the pod does not share its processes with the sidecar")
	}
	if act == "KILL" {
		a.setOpen(false) // the process that Kubernetes starts next has to wait
	}
	return a.Processes.Signal(act)
}

func (a *attachment) setOpen(open bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if open == a.isOpen {
		return
	}
	if a.isOpen = open; open {
		close(a.open)
	} else {
		a.open = make(chan struct{})
	}
}

func (a *attachment) opened() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// listen opens the ports of an instance.
func (a *attachment) listen(at *slot) error {
	for port, to := range at.Ports {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4",
			net.JoinHostPort(cmp.Or(a.host, "127.0.0.1"), strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d of external can't be listened on in the pod: %w: write another port in subject.yaml",
				port, err)
		}
		a.listeners = append(a.listeners, listener)
		a.serving.Go(func() { a.accept(listener, to) })
	}
	a.Say(isInstance + strconv.Itoa(at.Instance))
	return nil
}

func (a *attachment) accept(listener net.Listener, to int) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if !a.keep(conn) {
			_ = conn.Close()
			return
		}
		a.serving.Go(func() {
			defer a.drop(conn)
			a.forward(conn, to)
		})
	}
}

// keep notes a connection, so that it ends with the attachment.
func (a *attachment) keep(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns == nil {
		return false
	}
	a.conns[conn] = true
	return true
}

func (a *attachment) drop(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, conn)
}

// forward forwards a connection when the instance is open.
func (a *attachment) forward(conn net.Conn, to int) {
	reader := bufio.NewReaderSize(conn, 64<<10)
	if !a.awaitOpen(conn, reader) {
		reset(conn)
		return
	}
	upstream, fromUpstream, err := dial(context.Background(), a.Coordinator, tunnelPath+"?port="+strconv.Itoa(to),
		bearer(a.Token))
	if err != nil {
		reset(conn) // the port is closed there
		return
	}
	if !a.keep(upstream) {
		reset(upstream)
		reset(conn)
		return
	}
	defer a.drop(upstream)
	join(conn, upstream, reader, fromUpstream)
}

// heldEvery is the interval at which a connection that waits is looked at: whether its process has given up.
const heldEvery = 100 * time.Millisecond

// awaitOpen waits until the instance is open. It returns false if the connection or the attachment ends before.
func (a *attachment) awaitOpen(conn net.Conn, reader *bufio.Reader) bool {
	for wanted := 1; ; {
		select {
		case <-a.over:
			return false
		case <-a.opened():
			return conn.SetReadDeadline(time.Time{}) == nil
		default:
		}
		if err := conn.SetReadDeadline(time.Now().Add(heldEvery)); err != nil {
			return false
		}
		_, err := reader.Peek(wanted)
		var timeout net.Error
		switch {
		case err == nil:
			wanted = min(reader.Buffered()+1, reader.Size())
			if wanted == reader.Buffered() { // no more can be held
				time.Sleep(heldEvery)
			}
		case !errors.As(err, &timeout) || !timeout.Timeout():
			return false
		}
	}
}

// end closes everything of the attachment.
func (a *attachment) end() {
	close(a.over)
	for _, one := range a.listeners {
		_ = one.Close()
	}
	a.mu.Lock()
	for conn := range a.conns {
		reset(conn)
	}
	a.conns = nil
	a.mu.Unlock()
	a.serving.Wait()
}
