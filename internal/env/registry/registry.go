// Package registry is the schema registry of a run, in this process: franz-go's srfake, which answers Confluent's REST
// API (docs.confluent.io, "Schema Registry API Reference").
package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// requestLimit is how long a client may take to send the head of a request.
const requestLimit = 10 * time.Second

// Registry is a running registry.
type Registry struct {
	listener net.Listener
	server   *http.Server
}

// Start serves a registry on loopback that has one schema, with the id, as version 1 of the subject.
func Start(subject string, id int, schema sr.Schema) (*Registry, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the schema registry: %w", err)
	}
	fake := srfake.NewRegistry()
	fake.SeedSchema(subject, 1, id, schema)
	r := &Registry{listener, &http.Server{Handler: fake.Handler(), ReadHeaderTimeout: requestLimit}}
	go r.server.Serve(listener) //nolint:errcheck // it ends with Close
	return r, nil
}

// Address is its host and port.
func (r *Registry) Address() string { return r.listener.Addr().String() }

// Close ends it, and its connections.
func (r *Registry) Close() error { return r.server.Close() }
