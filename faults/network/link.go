package network

import "context"

// Link is a TCP path from the subject to an upstream, on which network faults act. A Relay is one of this process; a
// Toxiproxy makes others.
type Link interface {
	// Address returns the host and port to connect to.
	Address() string
	// Connections returns the current number of connections.
	Connections() int
	// Close ends the link and all its connections. It may be called again.
	Close() error
	breakable
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
	// Open starts a link on a port of 127.0.0.1; 0 lets the system pick one. upstream is a host and port, which need
	// not be reachable yet. name says where the link leads ("broker 1") and is unique in the run.
	Open(name, upstream string, port int) (Link, error)
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
func (Relays) Open(name, upstream string, port int) (Link, error) {
	return newRelay(name, port, dialTo(upstream))
}

// Failed implements Links.
func (Relays) Failed() <-chan error { return nil }

// Close implements Links.
func (Relays) Close() error { return nil }
