package web

// This file delivers the live state to the browsers.
//
// One goroutine gets the state from the session and turns it into a frame for each role (publish). A frame is complete:
// a client that misses some and gets a later one has missed only intermediate states. Therefore no client has a queue.
// Each has a flag for news, and takes the newest frame when its connection has room. Events are kept in a list of
// bounded length that every client reads at its own pace. A connection without room for longer than writeLimit is
// closed; its browser reconnects when it can and receives everything again.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// writeLimit is how long a client's connection may refuse data before it is closed.
	writeLimit = 5 * time.Second
	// clientLimit is the maximum number of connected browsers.
	clientLimit = 1024
	// keptEvents and keptPoints bound the history for later browsers: at two frames a second, ten minutes of curves.
	keptEvents, keptPoints = 500, 1200
)

// channel holds the data for one role's clients.
type channel struct {
	mu sync.Mutex
	// frame is the newest frame, as JSON; number counts the frames.
	frame  []byte
	number int
	// events are the last events, as JSON; dropped is the number of events before them.
	events  [][]byte
	dropped int
	points  [][]float64
	clients map[chan struct{}]struct{}
	closed  bool
	// limit is how long a client's connection may refuse data.
	limit time.Duration
}

func newChannel() *channel {
	return &channel{clients: map[chan struct{}]struct{}{}, limit: writeLimit}
}

// publish sets the newest frame and wakes the clients. It never waits for one.
func (c *channel) publish(frame []byte, point []float64, events [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frame = frame
	c.number++
	c.events = append(c.events, events...)
	if over := len(c.events) - keptEvents; over > 0 {
		c.events = append([][]byte(nil), c.events[over:]...)
		c.dropped += over
	}
	if point != nil {
		c.points = append(c.points, point)
	}
	if over := len(c.points) - keptPoints; over > 0 {
		c.points = append([][]float64(nil), c.points[over:]...)
	}
	c.wake()
}

func (c *channel) wake() {
	for client := range c.clients {
		select {
		case client <- struct{}{}:
		default: // already notified
		}
	}
}

// close ends every client's stream.
func (c *channel) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake()
}

// join adds a client. leave must be called. ok is false if there are too many clients.
func (c *channel) join() (client chan struct{}, leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.clients) >= clientLimit {
		return nil, nil, false
	}
	client = make(chan struct{}, 1)
	client <- struct{}{}
	c.clients[client] = struct{}{}
	return client, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.clients, client)
	}, true
}

// cursor is a client's position in the data.
type cursor struct {
	started      bool
	frame, event int
}

// news returns the data that the client has not received, as server-sent events, and whether the stream ends after it.
func (c *channel) news(at *cursor) (message []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	if !at.started {
		at.started = true
		past, err := json.Marshal(c.points)
		if err == nil {
			writeEvent(&out, "past", past)
		}
	}
	at.event = max(at.event, c.dropped)
	if fresh := c.events[min(at.event-c.dropped, len(c.events)):]; len(fresh) > 0 {
		writeEvent(&out, "events", append(append([]byte{'['}, bytes.Join(fresh, []byte{','})...), ']'))
		at.event += len(fresh)
	}
	if at.frame != c.number {
		at.frame = c.number
		writeEvent(&out, "frame", c.frame)
	}
	return out.Bytes(), c.closed
}

// writeEvent writes one server-sent event. The JSON has no line breaks, so it fits in one data line.
func writeEvent(out *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, data)
}

// stream serves the channel of the drill with the id to one browser until it disconnects, stops reading, or the server
// ends.
func (c *channel) stream(w http.ResponseWriter, r *http.Request, id string) {
	client, leave, ok := c.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many browsers look at this drill, or it has ended", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	// The server's request limit counts from the first byte of the request, but a stream has no end.
	if control.SetReadDeadline(time.Time{}) != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	opening := []byte("retry: 1000\n\nevent: drill\ndata: " + id + "\n\n")
	var at cursor
	for {
		select {
		case <-client:
		case <-r.Context().Done():
			return
		}
		message, last := c.news(&at)
		if control.SetWriteDeadline(time.Now().Add(c.limit)) != nil {
			return
		}
		if _, err := w.Write(append(opening, message...)); err != nil {
			return
		}
		if opening = nil; control.Flush() != nil || last {
			return
		}
	}
}

// every calls do at once, then at each interval until ctx ends, and one last time.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			do()
			return
		}
	}
}
