package tap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// Upstream is one broker as the tap reaches it.
type Upstream struct {
	// NodeID is the broker's id in Kafka's metadata.
	NodeID int32
	// Dial connects to it, over its link.
	Dial func(context.Context) (net.Conn, error)
	// TLS, if set, configures the tap's connection to the broker through the link; the subject speaks plaintext to the
	// tap. Its ServerName must be the broker's own host, which differs from the link's address.
	TLS *tls.Config
}

// Config configures a tap. Clock, Sink, NextOp, IDs and TopicIDs are required.
type Config struct {
	Clock history.Clock
	Sink  history.Sink
	// NextOp returns a new Event.Op on each call; it is safe for concurrent use.
	NextOp func() int64
	IDs    *history.IDs
	// Topics are the run's topics; the index of one is its Event.Topic. Requests for other topics are passed on
	// unobserved.
	Topics    []history.Topic
	Upstreams []Upstream
	// Group is the run's consumer group. Of others, only what they do with retry topics that it does not read is
	// recorded (see readers); "" observes all.
	Group string
	// KeepMetadata records the metadata of offset commits (history.KindCommitRequest), for contracts that give it a
	// meaning.
	KeepMetadata bool
	// TopicIDs returns the ids of topics, as far as they have any. It is called, by one caller at a time, when the
	// subject uses an id that no answer has revealed to the tap, which has no credentials to ask brokers itself.
	TopicIDs func(ctx context.Context, names []string) (map[string][16]byte, error)
	Log      zerolog.Logger
	// Interceptor acts on requests; nil lets all pass.
	Interceptor Interceptor
}

// ErrClosed is returned by Open after Close.
var ErrClosed = errors.New("the tap is closed")

// Tap proxies the connections of all subject instances.
type Tap struct {
	Config
	apis    *apis
	topics  *topics
	readers *readers
	frames  frames
	inflate *kafkaio.Inflater
	clamped sync.Once // APIs that brokers offer and the tap does not read have been reported

	tasks sync.WaitGroup // accept loops and connections; added to only under mu while open

	mu        sync.Mutex
	closed    bool
	done      chan struct{} // closed with the tap
	instances map[int]*instance
}

// instance is one subject instance: its listeners, its processes so far and their open connections.
type instance struct {
	number    int
	listeners map[int32]net.Listener // by node id; complete before the first connection is accepted
	current   *process
	processes map[uint16]*process
	conns     map[*conn]struct{}
}

// New returns a tap without listeners.
func New(config Config) *Tap {
	return &Tap{
		Config: config, apis: newAPIs(), topics: newTopics(config.Topics),
		readers: newReaders(config.Group, config.Topics), inflate: &kafkaio.Inflater{Limit: maxInflated},
		instances: map[int]*instance{}, done: make(chan struct{}),
	}
}

// Open starts one listener per broker for the instance on 127.0.0.1. It returns their addresses, comma-joined, as
// the instance's bootstrap.servers. It fails if the instance is open already or no port is available.
func (t *Tap) Open(number int) (bootstrap string, err error) { return t.OpenAt(number, 0) }

// OpenAt is Open with consecutive ports, in the order of the brokers; port is the first, and 0 takes any free ones.
func (t *Tap) OpenAt(number, port int) (bootstrap string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return "", fmt.Errorf("opening the tap of instance %d: %w", number, ErrClosed)
	}
	in := t.instance(number)
	if in.listeners != nil {
		return "", fmt.Errorf("opening the tap of instance %d: it is open already", number)
	}
	listeners := map[int32]net.Listener{}
	var addresses []string
	for i, upstream := range t.Upstreams {
		at := 0
		if port > 0 {
			at = port + i
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(at)))
		if err != nil {
			closeAll(listeners)
			return "", fmt.Errorf("opening the tap of instance %d for broker %d: %w", number, upstream.NodeID, err)
		}
		listeners[upstream.NodeID] = listener
		addresses = append(addresses, listener.Addr().String())
	}
	in.listeners = listeners
	t.tasks.Go(func() { t.expireMembers(in) })
	for _, upstream := range t.Upstreams {
		t.tasks.Go(func() { t.accept(in, upstream, listeners[upstream.NodeID]) })
	}
	return strings.Join(addresses, ","), nil
}

// BeginRun says that process number run of the instance is about to start. All later observations are attributed to
// it, and connections of earlier processes are dropped. It must be called when the earlier process is gone and
// before the new one starts; otherwise a connection is attributed to the wrong process.
func (t *Tap) BeginRun(number int, run uint16) {
	t.mu.Lock()
	in := t.instance(number)
	in.current = t.process(in, run)
	var old []*conn
	for c := range in.conns {
		if c.process != in.current {
			old = append(old, c)
		}
	}
	t.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Fetching returns a channel that is closed once that process has asked for the records of a partition assigned to
// it; without a group protocol, of any partition of an input or retry topic.
func (t *Tap) Fetching(number int, run uint16) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.process(t.instance(number), run).fetching
}

// Connected reports whether the current process of the instance has any connection.
func (t *Tap) Connected(number int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.instance(number)
	for c := range in.conns {
		if c.process == in.current {
			return true
		}
	}
	return false
}

// Cut closes the instance's listeners and connections. For Kafka, the instance is then gone.
func (t *Tap) Cut(number int) {
	t.mu.Lock()
	in := t.instance(number)
	closeAll(in.listeners)
	open := slices.Collect(maps.Keys(in.conns))
	t.mu.Unlock()
	for _, c := range open {
		c.close()
	}
}

// Close closes every listener and connection and returns when all goroutines have ended.
func (t *Tap) Close() error {
	t.mu.Lock()
	if !t.closed {
		close(t.done)
	}
	t.closed = true
	var open []*conn
	for _, in := range t.instances {
		closeAll(in.listeners)
		for c := range in.conns {
			open = append(open, c)
		}
	}
	t.mu.Unlock()
	for _, c := range open {
		c.close()
	}
	t.tasks.Wait()
	return nil
}

// expireMembers checks every second which members of the instance's current process have fallen silent.
func (t *Tap) expireMembers(in *instance) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			current, waits := t.present(in)
			current.expire(t.Clock.Now(), waits)
		case <-t.done:
			return
		}
	}
}

// present returns the instance's current process, and whether it waits for an answer to a group request.
func (t *Tap) present(in *instance) (current *process, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range in.conns {
		waits = waits || c.process == in.current && c.awaitsGroup()
	}
	return in.current, waits
}

func (t *Tap) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// instance returns the state of the instance; mu is held.
func (t *Tap) instance(number int) *instance {
	in := t.instances[number]
	if in == nil {
		in = &instance{number: number, processes: map[uint16]*process{}, conns: map[*conn]struct{}{}}
		t.instances[number] = in
		in.current = t.process(in, 0)
	}
	return in
}

// process returns the state of one process of the instance; mu is held.
func (t *Tap) process(in *instance, run uint16) *process {
	p := in.processes[run]
	if p == nil {
		p = newProcess(t, in.number, run)
		in.processes[run] = p
	}
	return p
}

// accept hands the listener's connections to separate goroutines until the listener is closed.
func (t *Tap) accept(in *instance, upstream Upstream, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Log.Warn().Err(err).Int("instance", in.number).Msg("accepting a connection of the subject failed")
			continue
		}
		c := newConn(t, upstream, in, client)
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			_ = client.Close()
			return
		}
		c.process = in.current
		in.conns[c] = struct{}{}
		t.tasks.Go(c.serve)
		t.mu.Unlock()
	}
}

// forget removes an ended connection.
func (t *Tap) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(c.instance.conns, c)
}

func closeAll(listeners map[int32]net.Listener) {
	for _, listener := range listeners {
		_ = listener.Close()
	}
}
