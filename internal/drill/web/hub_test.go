package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// listener reads server-sent events.
type listener struct {
	t     testing.TB
	lines *bufio.Scanner
}

func listen(t testing.TB, url string) *listener {
	t.Helper()
	return listenWith(t, url, "")
}

func listenAs(t testing.TB, s *Server, role drill.Role) *listener {
	t.Helper()
	url, token, _ := strings.Cut(s.Link(role), "#")
	return listenWith(t, url+"events", token)
}

func listenWith(t testing.TB, url, token string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response := must.Get(client.Do(r))(t)
	t.Cleanup(func() { cancel(); response.Body.Close() })
	if response.StatusCode != http.StatusOK ||
		!strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s is answered %s %s", url, response.Status, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	return &listener{t, lines}
}

// next returns the next event, or "" at the end of the stream.
func (l *listener) next() (name, data string) {
	l.t.Helper()
	for l.lines.Scan() {
		line := l.lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && name != "":
			return name, data
		}
	}
	if err := l.lines.Err(); err != nil {
		l.t.Fatalf("the stream broke off: %v", err)
	}
	return "", ""
}

// stalled opens connections that request the stream and never read.
func stalled(t *testing.T, s *Server, count int) []net.Conn {
	t.Helper()
	connections := make([]net.Conn, count)
	for i := range connections {
		connection := must.Get(net.Dial("tcp", s.listener.Addr().String()))(t)
		t.Cleanup(func() { _ = connection.Close() })
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		must.Get(fmt.Fprintf(connection, "GET /injector/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))(t)
		connections[i] = connection
	}
	return connections
}

func (c *channel) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.clients)
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// 600 browsers stop reading. Other readers still get all news, the publisher never waits, memory stays bounded, the
// session is not queried more often, and the stalled browsers are eventually dropped.
func TestBrowsersThatStopReadingDisturbNobody(t *testing.T) {
	const crowd = 600
	f := newFake(t)
	server := must.Get(Listen(Options{Address: "127.0.0.1:0"}))(t)
	channel := server.channels[drill.RoleInjector]
	channel.limit = 2 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, f) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	reader := listen(t, server.Link(drill.RoleInjector)+"events")
	stalled(t, server, crowd)
	until(t, "all of them are there", func() bool { return channel.count() == crowd+1 && f.here.Load() == crowd+1 })
	asked := f.states.Load()
	began := time.Now()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var seen atomic.Int64 // frames of this test that the reader received
	go func() {
		for name, data := reader.next(); name != ""; name, data = reader.next() {
			if strings.HasPrefix(data, `{"filler":`) {
				seen.Add(1)
			}
		}
	}()
	filler := []byte(fmt.Sprintf(`{"filler":%q}`, strings.Repeat("x", 16<<10)))
	for frames := int64(1); channel.count() > 1; frames++ {
		channel.publish(filler, []float64{1}, [][]byte{[]byte(`{}`)})
		// The next frame is made when the reader has received one. The test waits for no other client.
		got := seen.Load()
		until(t, "who reads gets a new frame", func() bool {
			channel.publish(filler, nil, nil)
			return seen.Load() > got
		})
		if frames%100 == 0 {
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 256<<20 {
				t.Fatalf("the heap has grown by %d MiB", grown>>20)
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d of them are still there after a minute", channel.count()-1)
		}
	}
	if calls, most := f.states.Load()-asked, int64(len(roles()))*(2+int64(time.Since(began)/frameEvery)); calls > most {
		t.Errorf("the session was asked %d times, want at most %d", calls, most)
	}
	until(t, "they count as gone", func() bool { return f.here.Load() == 1 })
}

// A client that connects late or again receives the history.
func TestWhoComesBackIsToldTheState(t *testing.T) {
	c := newChannel()
	for i := range keptEvents + 10 {
		c.publish([]byte(fmt.Sprint(i)), []float64{float64(i)}, [][]byte{[]byte(fmt.Sprint(i))})
	}
	var at cursor
	message, _ := c.news(&at)
	text := string(message)
	if !strings.Contains(text, "event: frame\ndata: 509\n\n") ||
		!strings.Contains(text, "event: events\ndata: [10,11,") || !strings.Contains(text, "event: past\ndata: [[0],[1],") {
		t.Errorf("it is told %.300s …", text)
	}
	if message, _ := c.news(&at); len(message) > 0 {
		t.Errorf("with nothing new it is told %s", message)
	}
	c.publish([]byte("510"), nil, [][]byte{[]byte("510")})
	if message, _ := c.news(&at); string(message) != "event: events\ndata: [510]\n\nevent: frame\ndata: 510\n\n" {
		t.Errorf("of what is new it is told %s", message)
	}
	// A client that missed more than the kept events continues with the kept ones.
	for i := range keptEvents + 5 {
		c.publish([]byte("x"), nil, [][]byte{[]byte(fmt.Sprint(1000 + i))})
	}
	if message, _ := c.news(&at); !strings.HasPrefix(string(message), "event: events\ndata: [1005,1006,") {
		t.Errorf("after a long sleep it is told %.100s", message)
	}
}

func TestTheLogGoesOutOnce(t *testing.T) {
	f := newFake(t)
	p := &publisher{session: f, told: map[drill.Role]int{}}
	s := must.Get(Listen(Options{Address: "127.0.0.1:0"}))(t)
	defer s.Close()
	for range 3 {
		s.publish(p)
	}
	must.Do(t, f.Note(drill.Actor{Role: drill.RoleInjector}, "we wait"))
	s.publish(p)
	if got := len(s.channels[drill.RoleInjector].events); got != 2 {
		t.Errorf("%d events went out, want 2", got)
	}
	if frame := string(s.channels[drill.RoleInjector].frame); strings.Contains(frame, "we wait") ||
		!strings.Contains(frame, `"log":null`) {
		t.Errorf("the frame has the log, too: %s", frame)
	}
}

func TestTooManyBrowsersAreRefused(t *testing.T) {
	c := newChannel()
	for range clientLimit {
		if _, _, ok := c.join(); !ok {
			t.Fatal("refused too early")
		}
	}
	if _, _, ok := c.join(); ok {
		t.Error("one more than the limit was let in")
	}
}

// When the server ends, every browser gets the last state and then the end of the stream.
func TestTheEndIsTold(t *testing.T) {
	f := newFake(t)
	server := must.Get(Listen(Options{Address: "127.0.0.1:0"}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, f) }()
	reader := listen(t, server.Link(drill.RoleResponder)+"events")
	reader.next()
	must.Do(t, f.Stop(drill.Actor{Name: "Ada"}))
	cancel()
	last := ""
	for name, data := reader.next(); name != ""; name, data = reader.next() {
		last = data
	}
	if !strings.Contains(last, `"stage":"over"`) {
		t.Errorf("the last thing told is %.200s", last)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
