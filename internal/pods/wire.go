package pods

// This file has the protocol between the coordinator and the sidecars. Both kinds of connections begin as HTTP requests
// with the token and are upgraded: one for each sidecar, on which both sides write JSON values, and one for each
// connection of the consumer, which is then forwarded as it is.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// CoordinatorPort is the port of the coordinator's pod on which sidecars are served.
	CoordinatorPort = 18097
	// startedPort is that of the consumer's pods on which the sidecar answers whether the consumer may start.
	startedPort = 18098
	// pingEvery is how often each side writes to the other. A side that has read nothing for leaseFor takes the other
	// for gone.
	pingEvery, leaseFor = 2 * time.Second, 8 * time.Second
	// actLimit bounds an act in a pod, deleteLimit the deletion of one.
	actLimit, deleteLimit = 15 * time.Second, 2 * time.Minute
	// evictEvery is the interval at which an eviction is tried again that was forbidden, as kubectl drain does.
	evictEvery = 5 * time.Second
	// forbiddenNow is in the error of an eviction that a disruption budget forbids at that time.
	forbiddenNow = "(TooManyRequests)"
)

const (
	attachPath, tunnelPath     = "/attach", "/tunnel"
	deletedPath, interruptPath = "/deleted", "/interrupt"
	podHeader                  = "Dlqbench-Pod"
	versionHeader              = "Dlqbench-Version"
	protocol                   = "dlqbench"
)

// slot is the instance that a pod stands for.
type slot struct {
	Instance int `json:"instance"`
	// Ports are the ports of 127.0.0.1 to listen on in the pod, each with the one to forward to in the coordinator.
	Ports map[int]int `json:"ports"`
}

// message is written by either side. An empty one is a ping.
type message struct {
	Slot *slot `json:"slot,omitempty"`
	// ID numbers acts. The answer has the same, and Error if the act failed.
	ID    int    `json:"id,omitempty"`
	Act   string `json:"act,omitempty"`
	Error string `json:"error,omitempty"`
}

// control is one side of the connection between the coordinator and a sidecar.
type control struct {
	conn   net.Conn
	reader *json.Decoder
	mu     sync.Mutex
}

func newControl(conn net.Conn, from io.Reader) *control {
	return &control{conn: conn, reader: json.NewDecoder(from)}
}

func (c *control) send(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(leaseFor)); err != nil {
		return err
	}
	return json.NewEncoder(c.conn).Encode(m)
}

// receive calls do for each message but pings, and returns why there are no more.
func (c *control) receive(do func(message)) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); _ = c.conn.Close(); <-stopped }()
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(pingEvery)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				_ = c.send(message{}) // reading ends when the connection is broken
			}
		}
	}()
	for {
		if err := c.conn.SetReadDeadline(time.Now().Add(leaseFor)); err != nil {
			return err
		}
		var m message
		if err := c.reader.Decode(&m); err != nil {
			return err
		}
		if m != (message{}) {
			do(m)
		}
	}
}

// upgrade turns a request into a connection. The reader returns what the other side writes.
func upgrade(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	hijacker, can := w.(http.Hijacker)
	if !can {
		return nil, nil, errors.New("the connection can't be taken over")
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+
		"\r\n\r\n")
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, buffered.Reader, nil
}

// dial opens an upgraded connection to the coordinator.
func dial(ctx context.Context, address, path string, header http.Header) (net.Conn, *bufio.Reader, error) {
	dialer := net.Dialer{Timeout: leaseFor}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("reaching the coordinator: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err == nil {
		request.Header = header
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", protocol)
		_ = conn.SetDeadline(time.Now().Add(leaseFor))
		err = request.Write(conn)
	}
	var answer *http.Response
	reader := bufio.NewReader(conn)
	if err == nil {
		answer, err = http.ReadResponse(reader, request)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("asking the coordinator: %w", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		_ = errors.Join(answer.Body.Close(), conn.Close())
		return nil, nil, fmt.Errorf("the coordinator answered %d: %s", answer.StatusCode, strings.TrimSpace(string(said)))
	}
	return conn, reader, conn.SetDeadline(time.Time{})
}

// Deleted tells the coordinator in this pod that a pod was deleted, or why it could not be.
func Deleted(ctx context.Context, token, pod, failure string) error {
	return deletedAt(ctx, localAddress(CoordinatorPort), token, pod, failure)
}

func deletedAt(ctx context.Context, address, token, pod, failure string) error {
	return tell(ctx, address+deletedPath, token, url.Values{"pod": {pod}, "error": {failure}})
}

// Interrupt tells the coordinator in this pod to end the run early.
func Interrupt(ctx context.Context, token string) error {
	return tell(ctx, localAddress(CoordinatorPort)+interruptPath, token, nil)
}

func tell(ctx context.Context, address, token string, what url.Values) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, strings.NewReader(what.Encode()))
	if err != nil {
		return err
	}
	request.Header = bearer(token)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("telling the coordinator: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("telling the coordinator: it answered %s", answer.Status)
	}
	return nil
}

// join forwards between two connections until both directions have ended. An end is passed on as an end, and a reset as
// a reset.
func join(a, b net.Conn, fromA, fromB *bufio.Reader) {
	defer a.Close()
	defer b.Close()
	var both sync.WaitGroup
	forward := func(to, from net.Conn, buffered *bufio.Reader) {
		err := flush(to, buffered)
		if err == nil {
			_, err = io.Copy(to, from)
		}
		if err != nil {
			reset(a)
			reset(b)
			return
		}
		if half, can := to.(*net.TCPConn); can {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { forward(b, a, fromA) })
	both.Go(func() { forward(a, b, fromB) })
	both.Wait()
}

// flush writes what has been read already.
func flush(to net.Conn, buffered *bufio.Reader) error {
	if buffered == nil || buffered.Buffered() == 0 {
		return nil
	}
	data, err := buffered.Peek(buffered.Buffered())
	if err == nil {
		_, err = to.Write(data)
	}
	return err
}

func reset(conn net.Conn) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// bearer is the header with the token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
