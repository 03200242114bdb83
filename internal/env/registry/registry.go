// Package registry is the schema registry of a run, in this process: franz-go's srfake, which answers Confluent's REST
// API (docs.confluent.io, "Schema Registry API Reference"), and what Apicurio's deserializers ask for; or in front of a
// registry of the user's own.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// requestLimit is how long a client may take to send the head of a request.
const requestLimit = 10 * time.Second

// Schema is a schema that a registry is to have, as the next version of its subject.
type Schema struct {
	Subject string
	Schema  sr.Schema
}

// Registry is a running registry.
type Registry struct {
	// Known are the schemas that it was started with, with their ids and GUIDs.
	Known    []sr.SubjectSchema
	listener net.Listener
	server   *http.Server
	answers  answers    // in front of it
	own      *forwarder // nil if it is in this process
}

// Start serves a registry on loopback that has these schemas, with the ids 1, 2 and so on.
func Start(schemas ...Schema) (*Registry, error) {
	r, fake := &Registry{}, srfake.NewRegistry()
	versions := map[string]int{}
	for i, one := range schemas {
		versions[one.Subject]++
		fake.SeedSchema(one.Subject, versions[one.Subject], i+1, one.Schema)
		known, _ := fake.GetSchema(one.Subject, versions[one.Subject])
		r.Known = append(r.Known, known)
	}
	return r, r.serve(r.apicurio(fake.Handler()))
}

// serve answers requests on loopback, until Close.
func (r *Registry) serve(handler http.Handler) (err error) {
	r.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the schema registry: %w", err)
	}
	r.answers.next = handler
	r.server = &http.Server{Handler: &r.answers, ReadHeaderTimeout: requestLimit}
	go r.server.Serve(r.listener) //nolint:errcheck // it ends with Close
	return nil
}

// Address is its host and port.
func (r *Registry) Address() string { return r.listener.Addr().String() }

// Requests is the number of requests that have arrived, also those that a fault answers.
func (r *Registry) Requests() int64 { return r.answers.came.Load() }

// Close ends it, and its connections. It removes from a registry of the user's own what was added during the run.
func (r *Registry) Close(ctx context.Context) error {
	if r.own == nil {
		return r.server.Close()
	}
	ending, cancel := context.WithTimeout(ctx, requestLimit) // a registration that goes on would be left behind
	defer cancel()
	_ = r.server.Shutdown(ending)
	return errors.Join(r.server.Close(), r.own.close(ctx))
}
