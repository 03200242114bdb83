package run

// The health probe that workers of the dead-letter store query before conditional retries. Each worker has its own
// listener, so that the address identifies the worker. The answer follows the plan: healthy, unless a fault says
// otherwise.
//
// The sequence matters for judging: a worker locks its batch, queries the probe, reads the answer, and tries the
// entries. The answer is stamped before it is written, so that an attempt that follows it has a later stamp. A
// worker takes a lost answer for ill health and then tries nothing.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	faultstore "github.com/dlqbench/dlqbench/faults/store"
	"github.com/dlqbench/dlqbench/history"
)

// healthProbe answers the workers' queries.
type healthProbe struct {
	clock   history.Clock
	sink    history.Sink
	servers []*http.Server
	urls    []string // by worker
	serving sync.WaitGroup

	mu sync.Mutex
	// ill are the faults in force, by their own number. The fault that began last determines the answer.
	ill  []*illness
	errs []error
}

// illness is a fault in force.
type illness struct {
	how      string
	answered func()
}

// probeIdle bounds how long a worker may take to send its query.
const probeIdle = 10 * time.Second

// openProbe opens a probe for each worker.
func (r *run) openProbe() error {
	if !r.scenario.Store.Probe {
		return nil
	}
	probe := &healthProbe{clock: r.clock, sink: r.live}
	r.store.probe = probe
	for n := range r.scenario.Store.Workers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("opening the health probe of worker %d: %w", n, err)
		}
		server := &http.Server{ReadTimeout: probeIdle, WriteTimeout: probeIdle,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { probe.answer(w, n) })}
		probe.servers, probe.urls = append(probe.servers, server),
			append(probe.urls, "http://"+listener.Addr().String()+"/health")
		probe.serving.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				probe.failed(err)
			}
		})
	}
	return nil
}

func (p *healthProbe) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, fmt.Errorf("serving the health probe: %w", err))
}

// close ends the servers and their connections.
func (p *healthProbe) close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for _, server := range p.servers {
		errs = append(errs, server.Close())
	}
	p.serving.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(append(errs, p.errs...)...)
}

// answer sends the worker the current health. The lock is held for the stamp as well, so that the order of queries
// and faults is settled.
func (p *healthProbe) answer(w http.ResponseWriter, number int) {
	p.mu.Lock()
	how := ""
	if n := len(p.ill); n > 0 {
		how = p.ill[n-1].how
		p.ill[n-1].answered()
	}
	status, answer, unmet := healthOf(how)
	event := history.New(history.KindStoreProbe, p.clock.Now())
	event.Instance, event.Text, event.N = history.Worker(number), unmet, 0
	if unmet == "" {
		event.N = 1
	}
	p.sink.Record(event)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // a worker that has closed the connection does not need it
}

// health is what a probe answers with, as docs/dead-letter-store-workers.md describes it.
type health struct {
	CircuitBreaker string  `json:"circuitBreaker"`
	CPUUsage       float64 `json:"cpuUsage"`
	MemoryUsage    float64 `json:"memoryUsage"`
	DBConnections  int     `json:"dbConnectionsAvailable"`
}

// healthOf returns the probe's answer while a fault makes it unhealthy: one condition is not met, by as little as
// possible.
func healthOf(how string) (status int, answer health, unmet string) {
	status = http.StatusOK
	answer = health{CircuitBreaker: "CLOSED", CPUUsage: 0.40, MemoryUsage: 0.50, DBConnections: 8}
	switch how {
	case faultstore.UnhealthyBreaker:
		answer.CircuitBreaker, unmet = "OPEN", "the circuit breaker is OPEN"
	case faultstore.UnhealthyCPU:
		answer.CPUUsage, unmet = 0.80, "the CPU usage is 80 %, not below 80 %"
	case faultstore.UnhealthyMemory:
		answer.MemoryUsage, unmet = 0.85, "the memory usage is 85 %, not below 85 %"
	case faultstore.UnhealthyConnections:
		answer.DBConnections, unmet = 0, "no database connection is available"
	case faultstore.UnhealthyProbe:
		status, unmet = http.StatusServiceUnavailable, "the probe answers Service Unavailable"
	}
	return status, answer, unmet
}

// Unhealthy implements faultstore.Health.
func (p *healthProbe) Unhealthy(_ context.Context, how string, answered func()) (end func(), err error) {
	one := &illness{how: how, answered: answered}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ill = append(p.ill, one)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ill = slices.DeleteFunc(p.ill, func(other *illness) bool { return other == one })
	}, nil
}
