package network

import (
	"context"
	"fmt"
	"net"

	"github.com/dlqbench/dlqbench/internal/env/memconn"
)

// Upstream is where a link leads.
type Upstream struct {
	// Address is its host and port, which need not be reachable yet.
	Address string
	// Inside, if set, connects to an upstream of this process without a socket.
	Inside func(context.Context) (*memconn.Conn, error)
}

// Connect connects a client of this process.
func (u Upstream) Connect(ctx context.Context) (net.Conn, error) { return u.dial(ctx) }

// Link is a TCP path from the subject to an upstream, on which network faults act. A Relay is one of this process; a
// Toxiproxy makes others. Straight is a path without faults.
type Link interface {
	reachable
	// Connections returns the current number of connections.
	Connections() int
	// Close ends the link and all its connections. It may be called again.
	Close() error
	breakable
}

// reachable is the part of a Link that its clients use.
type reachable interface {
	// Address returns the host and port to connect to.
	Address() string
	// Connect connects a client of this process, without a socket if there is a way.
	Connect(context.Context) (net.Conn, error)
}

// breakable is the part of a Link that the Injector uses.
type breakable interface {
	// inject puts a fault in force and returns when it is. After an error, it is not in force.
	inject(ctx context.Context, f *fault) error
	// lift ends a fault and returns when the link carries data as before.
	lift(ctx context.Context, f *fault) error
}

// Links makes the links of a run.
type Links interface {
	// Open starts a link on a port of 127.0.0.1; 0 lets the system pick one. name says where the link leads ("broker
	// 1") and is unique in the run.
	Open(name string, upstream Upstream, port int) (Link, error)
	// Failed receives an error when links no longer do what the run believes they do, so that its history would
	// explain nothing. It is nil if that cannot happen.
	Failed() <-chan error
	// Close ends what the links have in common. Each link is closed before.
	Close() error
}

// Relays are links of this process.
type Relays struct{}

var _ Links = Relays{}

// Open implements Links.
func (Relays) Open(name string, upstream Upstream, port int) (Link, error) {
	return newRelay(name, port, dialTo(upstream))
}

// Failed implements Links.
func (Relays) Failed() <-chan error { return nil }

// Close implements Links.
func (Relays) Close() error { return nil }

// Straight is the Link of a path on which no fault can act. Its address is that of the upstream, so data on it is not
// copied through another pair of sockets.
type Straight struct{ Upstream }

var _ Link = Straight{}

// Address implements Link.
func (s Straight) Address() string { return s.Upstream.Address }

// Connections implements Link. Connections to the upstream are not seen.
func (Straight) Connections() int { return 0 }

// Close implements Link. The connections belong to the upstream.
func (Straight) Close() error { return nil }

func (s Straight) inject(_ context.Context, f *fault) error {
	return fmt.Errorf("breaking the path to %s (%s): the run was set up without a link there, as its plan has no network "+
		"fault on it", s.Address(), f.spec.Link)
}

func (Straight) lift(context.Context, *fault) error { return nil }
