package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// servesMetrics waits until the program's metrics have all of these lines.
func servesMetrics(p *program, lines ...string) {
	p.Helper()
	at, page := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`), ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		address := at.FindStringSubmatch(p.log())
		if address == nil {
			continue
		}
		page = scrape(address[1])
		missing := 0
		for _, line := range lines {
			if !strings.Contains(page, "\n"+line+"\n") {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
	p.Fatalf("not all of %q are served:\n%s\n%s", lines, page, p.log())
}

// Routers and workers serve their metrics, and workers report the entries that they give up.
func TestRoutersAndWorkersAreObserved(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	var mu sync.Mutex
	var posted []string
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		mu.Lock()
		defer mu.Unlock()
		posted = append(posted, string(body))
	}))
	t.Cleanup(webhook.Close)
	dir := t.TempDir()
	if code, out := dlqbench(t, dir, "dlq", "migrate", "--store", "sqlite:letters.db"); code != exitPass {
		t.Fatal(out)
	}
	common := []string{"--store", "sqlite:letters.db", "--bootstrap", k.address, "--time-scale", "60000", "--metrics-addr",
		"127.0.0.1:0"}
	router := start(t, dir, append([]string{"dlq", "router", "--dlq-topic", "orders.dlq"}, common...)...)
	servesMetrics(router, "dlq_ingested_total 10")
	router.signal(syscall.SIGINT)
	router.wantExit(exitPass, soon)

	// Five entries died of a time-out and are written back. The other five have an error type without a strategy.
	worker := start(t, dir, append([]string{"dlq", "worker", "--lease", "1000h", "--webhook", webhook.URL}, common...)...)
	servesMetrics(worker, `dlq_resolved_total{resolution="automatic_retry"} 5`,
		"dlq_replays_total{result=\"succeeded\",strategy=\"immediate_retry\"} 5", "dlq_time_in_dlq_seconds_count 5")
	worker.signal(syscall.SIGINT)
	worker.wantExit(exitPass, soon)
	mu.Lock()
	defer mu.Unlock()
	if len(posted) != 5 {
		t.Fatalf("%d notifications, want 5: %s", len(posted), posted)
	}
	for _, one := range posted {
		if !strings.Contains(one, `"why":"manual"`) || !strings.Contains(one, `"errorMessage":"refused"`) {
			t.Errorf("notification %s", one)
		}
	}
}
