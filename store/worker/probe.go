package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// These are the conditions of "Dead Letter Queue Lifecycle" for a conditional retry: shares from 0 to 1, both
// exclusive.
const (
	maxCPU    = 0.80
	maxMemory = 0.85
)

// Health is what a health probe answers: the fields of systemState, and what else the conditions ask for. A field that
// is missing is unknown, and its condition isn't met.
type Health struct {
	// CircuitBreaker is CLOSED, OPEN or HALF_OPEN.
	CircuitBreaker *string `json:"circuitBreaker"`
	// CPUUsage and MemoryUsage are shares from 0 to 1.
	CPUUsage    *float64 `json:"cpuUsage"`
	MemoryUsage *float64 `json:"memoryUsage"`
	// DBConnections is how many database connections are available.
	DBConnections *int `json:"dbConnectionsAvailable"`
}

// Unmet returns the unmet conditions of a conditional retry, or "".
func (h Health) Unmet() string {
	var unmet []string
	note := func(met bool, format string, args ...any) {
		if !met {
			unmet = append(unmet, fmt.Sprintf(format, args...))
		}
	}
	if h.CircuitBreaker == nil {
		note(false, "the state of the circuit breaker is unknown")
	} else {
		note(strings.EqualFold(*h.CircuitBreaker, "closed"), "the circuit breaker is %s", strings.ToUpper(*h.CircuitBreaker))
	}
	for _, usage := range []struct {
		of    *float64
		name  string
		limit float64
	}{{h.CPUUsage, "CPU", maxCPU}, {h.MemoryUsage, "memory", maxMemory}} {
		if usage.of == nil {
			note(false, "the %s usage is unknown", usage.name)
			continue
		}
		note(*usage.of >= 0 && *usage.of < usage.limit, "the %s usage is %.0f %%, not below %.0f %%", usage.name,
			100**usage.of, 100*usage.limit)
	}
	if h.DBConnections == nil {
		note(false, "the number of database connections is unknown")
	} else {
		note(*h.DBConnections > 0, "no database connection is available")
	}
	return strings.Join(unmet, ", ")
}

// Probe queries an HTTP endpoint for the health of the retries' dependencies.
type Probe struct {
	url    string
	client *http.Client
}

const (
	probeLimit = 3 * time.Second
	// maxProbe is the maximum size of the answer in bytes.
	maxProbe = 64 << 10
)

// NewProbe returns a probe that GETs the URL. Any answer except 200 with a Health in JSON counts as unhealthy.
func NewProbe(address string) (*Probe, error) {
	target, err := url.Parse(address)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, errors.New("the health probe needs an http:// or https:// URL that answers GET with JSON such as " +
			`{"circuitBreaker":"CLOSED","cpuUsage":0.4,"memoryUsage":0.5,"dbConnectionsAvailable":8}`)
	}
	// The client is separate and keeps no connections, so that none is left open and a restarted server is reached at
	// once.
	return &Probe{url: address,
		client: &http.Client{Timeout: probeLimit, Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

// Unmet queries the endpoint and returns the unmet conditions, or "".
func (p *Probe) Unmet(ctx context.Context) string {
	health, err := p.ask(ctx)
	if err != nil {
		return err.Error()
	}
	return health.Unmet()
}

func (p *Probe) ask(ctx context.Context) (health Health, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return health, fmt.Errorf("asking the health probe: %w", err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return health, fmt.Errorf("asking the health probe: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return health, fmt.Errorf("asking the health probe: it answered %s", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProbe)).Decode(&health); err != nil {
		return health, fmt.Errorf("reading the health probe's answer: %w", err)
	}
	return health, nil
}
