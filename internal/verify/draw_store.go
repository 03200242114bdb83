package verify

// This file draws the dead-letter store for the soundness proof: the mode of its service, and the faults that can hit
// it.

import (
	"fmt"
	"strings"
)

// storeMode is the mode of a dead-letter store's service.
type storeMode struct {
	engine, retry string
	workers       int
}

func (m *storeMode) String() string {
	return fmt.Sprintf("store: %s, %s, %d", m.engine, m.retry, m.workers)
}

func storeModes() []mode {
	var all []mode
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, retry := range []string{"call", "republish"} {
			for _, workers := range []int{1, 3} {
				all = append(all, mode{store: &storeMode{engine, retry, workers}})
			}
		}
	}
	return all
}

// service holds the drawn settings of the store's service.
type service struct {
	routers int
	// If probe is set, entries that died of an outage are retried when a health probe succeeds. If scheduled is set,
	// entries that died of a rate limit are retried at night.
	probe, scheduled, retention bool
}

func (d *drawing) storeSettings() {
	d.mode.ordering, d.mode.retry, d.mode.protocol = d.pick("none", "key"), d.pick("in-place", "in-place", "topics"),
		d.pick("classic", "consumer")
	d.mode.instances, d.brokers = 1+d.random.IntN(2), 1
	d.service = &service{routers: 1 + d.random.IntN(2)}
	switch d.random.IntN(6) {
	case 0, 1:
		d.service.probe = true
	case 2:
		d.service.scheduled = d.mode.store.retry == "call"
	case 3:
		d.service.retention = true
	}
}

// storeScenario writes the scenario of a consumer whose failures fill the store, together with the store's service.
func (d *drawing) storeScenario(faults string) string {
	text, outcomes, rate := d.pick("plain", "non-ascii", "long", "hostile"), "success: 75, exhausted: 20, permanent: 5",
		80+40*d.random.IntN(3)
	switch {
	case d.service.probe:
		text = "outage"
	case d.service.scheduled:
		outcomes, rate = "success: 90, exhausted: 10", 100
		faults += "  - {at: 100ms, for: 2500ms, downstream: {rate_limit: {rate: 40/s, retry_after: 1s}}}\n"
	}
	return fmt.Sprintf(`name: soundness
description: The correct consumer and a dead-letter store with its service, under faults drawn from the seed.
topics: {input: {partitions: 6}, dlq: {partitions: %d}}
subject:
  reference:
    instances: %d
    max_retries: %d
    retry_backoff_ms: 20
    max_retry_backoff_ms: 50
    retry_jitter_ms: 5
    ordering: %s
    retry: %s
    group_protocol: %s
workload:
  rate: %d/s
  duration: 4500ms
  warm_up: 300ms
  error_text: %s
  outcomes: {%s}
store:
%sexpect: {max_slip: 1s}
%sfaults:
%s`, 2+2*d.random.IntN(2), d.mode.instances, 2+d.random.IntN(2), d.mode.ordering, d.mode.retry, d.mode.protocol, rate,
		text, outcomes, d.storeSection(), d.storeReplay(), faults)
}

// storeSection writes the store's settings. A simulated minute is 50 ms, or less if a day must pass.
func (d *drawing) storeSection() string {
	m, s := d.mode.store, d.service
	scale, poll, lease, batch, concurrency := 1200, d.pick("1m", "2m"), d.pick("20m", "40m"), 10+20*d.random.IntN(3),
		1+6*d.random.IntN(3)
	if s.scheduled { // keep the night short
		scale, poll, lease, batch, concurrency = 36000, "12m", "600m", 50, 20
	}
	lines := []string{
		"engine: " + m.engine, "vocabulary: " + d.pick("lifecycle", "management"), fmt.Sprintf("workers: %d", m.workers),
		fmt.Sprintf("routers: %d", s.routers),
		"retry: " + m.retry, fmt.Sprintf("time_scale: %d", scale), "poll_interval: " + poll, "lease: " + lease,
		fmt.Sprintf("max_retries: %d", 1+d.random.IntN(4)),
		fmt.Sprintf("batch_size: %d", batch), fmt.Sprintf("concurrency: %d", concurrency), "late: 1s",
	}
	if m.retry == "call" {
		lines = append(lines, "outcomes: {"+d.pick("success: 60, transient: {weight: 30, failures: 1}, exhausted: 10",
			"success: 50, transient: {weight: 20, failures: 2}, exhausted: 20, permanent: 10",
			"success: 80, rate_limited: {weight: 10, failures: 1, retry_after: 1s}, reset: 10")+"}")
	}
	if s.probe {
		lines = append(lines, "probe: true")
	}
	if s.retention {
		lines = append(lines, "retention: {time_scale: 1000000}")
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// storeReplay replays by hand, in one situation of four, the entries that workers could not finish.
func (d *drawing) storeReplay() string {
	if d.random.IntN(4) > 0 || d.service.retention || d.service.scheduled {
		return ""
	}
	return "replay: {healed: 70%, rate: 100/s}\n"
}

// storeTemplates are the faults that hit the store and its service.
func storeTemplates() []template {
	return append(processTemplates(), databaseTemplates()...)
}

func processTemplates() []template {
	signal := func(signal, process, when string) template {
		return template{name: "subject.signal " + signal + " " + process, write: func(d *drawing) string {
			at, back := d.at(), fmt.Sprintf(", restart_after: %dms", 300+300*d.random.IntN(4))
			if when != "" && !d.service.scheduled { // there is something to wait for only with a nightly schedule
				at += ", when: " + when
			}
			if signal == "STOP" { // may exceed a lease
				at, back = at+fmt.Sprintf(", for: %dms", 500+500*d.random.IntN(4)), ""
			}
			return fmt.Sprintf("%s, subject: {process: %s, signal: %s%s}", at, d.process(process), signal, back)
		}}
	}
	republished := signal("KILL", "worker", "store-republished")
	republished.name = "subject.signal KILL republished worker"
	republished.possible = func(d *drawing) bool { return d.mode.store.retry == "republish" }
	clock := func(key string) template {
		return template{name: "store." + key, write: func(d *drawing) string {
			return fmt.Sprintf("at: %dms, for: 3s, store: {process: %s, %s: %s}", 300+100*d.random.IntN(5), d.process("worker"),
				key, d.pick("10m", "2s", "6h"))
		}}
	}
	return []template{
		signal("KILL", "worker", "store-locked"), signal("TERM", "worker", "store-locked"),
		signal("STOP", "worker", "store-locked"),
		signal("KILL", "router", ""), signal("TERM", "router", ""), signal("STOP", "router", ""), republished,
		clock("clock_ahead"), clock("clock_behind"),
		{name: "store.unhealthy", possible: func(d *drawing) bool { return d.service.probe }, write: func(d *drawing) string {
			return fmt.Sprintf("%s, store: {unhealthy: %s}", d.span(), d.pick("circuit-breaker", "cpu", "memory", "connections",
				"probe"))
		}},
		{name: "store.repeat_letters", write: func(d *drawing) string {
			return fmt.Sprintf("at: %dms, store: {repeat_letters: %s}", 1500+200*d.random.IntN(10), d.pick("50%", "100%"))
		}},
	}
}

// process draws one of the service's processes.
func (d *drawing) process(kind string) string {
	if kind == "router" {
		return fmt.Sprintf("router %d", d.random.IntN(d.service.routers))
	}
	return fmt.Sprintf("worker %d", d.random.IntN(d.mode.store.workers))
}

// databaseTemplates are the faults that hit the database, if it is a server.
func databaseTemplates() []template {
	server := func(d *drawing) bool { return d.mode.store.engine == "postgres" }
	link := func(name, what string) template {
		return template{name: "network." + name + " store", possible: server, write: func(d *drawing) string {
			return fmt.Sprintf("%s, network: {link: store, %s}", d.span(), what)
		}}
	}
	return []template{
		{name: "store.restart", possible: server, write: func(d *drawing) string {
			return d.at() + ", store: {restart: true}"
		}},
		{name: "store.crash", possible: server, write: func(d *drawing) string {
			return d.span() + ", store: {crash: true}"
		}},
		link("latency", "latency: 40ms, jitter: 30ms"), link("bandwidth", "bandwidth: 64KiB"),
		link("timeout", "timeout: true"),
		link("slicer", "slicer: {size: 100B, delay: 100us}"), link("limit_data", "limit_data: 4KiB"),
		link("half_open", "half_open: true"), link("down", "down: true"), link("reset", "reset: true"),
	}
}
