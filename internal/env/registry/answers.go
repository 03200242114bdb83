package registry

// Faults change what the registry answers. Any number of changes may be in force: all delays add up, and the first
// change that has an answer gives it.

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Error codes of Confluent's API. Each begins with the status that it goes with.
const (
	codeSchemaNotFound = 40403
	codeBackend        = 50001
)

// answers decides about requests before the registry sees them.
type answers struct {
	next http.Handler
	// came is the number of requests that arrived.
	came atomic.Int64
	mu   sync.Mutex
	// changes is never altered, only replaced.
	changes []*change
}

// change is one change by a fault: rule is set, or slow and seen are.
type change struct {
	rule func(byID, registers bool) (status int)
	slow time.Duration
	seen func()
	// ctx ends with the change; delayed requests are then answered.
	ctx context.Context
}

// Answer makes rule answer requests until end is called. It is called concurrently, with whether a request asks for a
// schema by its id or its GUID, and whether it registers one, and returns the status. 0 leaves the request to the rules
// that were added later, and then to the registry.
func (r *Registry) Answer(rule func(byID, registers bool) (status int)) (end func()) {
	return r.answers.change(&change{rule: rule})
}

// Slow delays the answer to every request until end is called. Requests that still wait are then answered at once. seen
// is called, concurrently, for each that waits.
func (r *Registry) Slow(by time.Duration, seen func()) (end func()) {
	return r.answers.change(&change{slow: by, seen: seen})
}

func (a *answers) change(c *change) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = append(slices.Clone(a.changes), c)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.changes = slices.DeleteFunc(slices.Clone(a.changes), func(one *change) bool { return one == c })
		cancel()
	}
}

func (a *answers) inForce() []*change {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changes
}

// ServeHTTP delays a request, and answers it in the registry's place if a change says so. The answer is decided after
// the delay, so a fault that began in the meantime applies.
func (a *answers) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	a.came.Add(1)
	for _, one := range a.inForce() {
		if one.slow > 0 {
			one.seen()
			one.wait(request.Context())
		}
	}
	byID, registers := asked(request)
	for _, one := range a.inForce() {
		if one.rule == nil {
			continue
		}
		if status := one.rule(byID, registers); status != 0 {
			refuse(w, status)
			return
		}
	}
	a.next.ServeHTTP(w, request)
}

// wait returns when the delay is over, the change has ended, or the client has left.
func (c *change) wait(ctx context.Context) {
	select {
	case <-time.After(c.slow):
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
}

// asked reports whether a request asks for a schema by its id, or registers one, in Confluent's API or in Apicurio's.
func asked(request *http.Request) (byID, registers bool) {
	parts := strings.Split(strings.Trim(path.Clean(request.URL.EscapedPath()), "/"), "/")
	for i, part := range parts[:max(len(parts)-1, 0)] {
		switch before := parts[max(i-1, 0)]; {
		case before == "schemas" && (part == "ids" || part == "guids"):
			byID = true
		case before == "ids" && (part == "globalIds" || part == "contentIds" || part == "contentHashes"):
			byID = true
		case before == "subjects" && i == len(parts)-2 && parts[len(parts)-1] == "versions":
			registers = request.Method == http.MethodPost
		}
	}
	return byID, registers
}

// refuse writes an error as the registry does.
func refuse(w http.ResponseWriter, status int) {
	code, text := codeBackend, "Error in the backend data store"
	switch status {
	case http.StatusNotFound:
		code, text = codeSchemaNotFound, "Schema not found"
	case http.StatusConflict:
		code, text = http.StatusConflict, "Schema being registered is incompatible with an earlier schema"
	}
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error_code": code, "message": text}) // the client may have left
}
