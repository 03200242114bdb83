package run

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	client "github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
)

// toxiproxyServer starts a server and returns the address of its API.
func toxiproxyServer(t *testing.T) string {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	server := httptest.NewServer(api.Routes())
	t.Cleanup(func() {
		server.Close()
		_ = api.Collection.Clear()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}

func proxyNames(t *testing.T, server string) (names []string) {
	t.Helper()
	found, err := client.NewClient(server).Proxies()
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		names = append(names, name)
	}
	return names
}

// linkFault has one network fault, of which the toxiproxy server confirms nothing: the run measures it.
const linkFault = "faults=[{at: 100ms, for: 2s, network: {link: brokers, latency: 20ms}}]"

func TestRunThroughToxiproxy(t *testing.T) {
	t.Parallel()
	server := toxiproxyServer(t)
	options := small(t, "workload.rate=60/s", "workload.duration=4s", linkFault)
	options.Cluster.Toxiproxy = server
	during := 0
	options.Log = onLog("warm-up", func() { during = len(proxyNames(t, server)) })
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass || len(outcome.Verdict.Faults) != 1 {
		t.Errorf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	if during == 0 {
		t.Error("there were no proxies during the run")
	}
	if left := proxyNames(t, server); len(left) > 0 {
		t.Errorf("the run left %v", left)
	}
	if links := outcome.Verdict.Environment[environmentLinks]; links != "toxiproxy "+server {
		t.Errorf("the links are said to be %q", links)
	}
}

// A run whose proxy vanishes ends at once, is inconclusive and says why.
func TestRunWhoseProxyVanishes(t *testing.T) {
	t.Parallel()
	server := toxiproxyServer(t)
	options := small(t, "workload.duration=30s")
	options.Cluster.Toxiproxy = server
	options.Log = onLog("warm-up", func() {
		found, err := client.NewClient(server).Proxies()
		if err != nil {
			t.Error(err)
		}
		for name, proxy := range found {
			if strings.HasSuffix(name, "broker-1") {
				_ = proxy.Delete()
			}
		}
	})
	outcome, err := Run(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "broker-1 is gone: somebody deleted it") {
		t.Fatalf("the error is %v", err)
	}
	if outcome.Interrupted || outcome.Verdict == nil || outcome.Verdict.Verdict != assertions.Inconclusive ||
		!strings.Contains(strings.Join(outcome.Verdict.Reasons, "\n"), "broker-1 is gone") {
		t.Errorf("the verdict is %+v", outcome.Verdict)
	}
	if left := proxyNames(t, server); len(left) > 0 {
		t.Errorf("the run left %v", left)
	}
}

func TestRunWithoutItsToxiproxy(t *testing.T) {
	t.Parallel()
	options := small(t)
	options.Cluster.Toxiproxy = "http://127.0.0.1:1"
	_, err := Run(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "opening the links: using the toxiproxy server http://127.0.0.1:1") {
		t.Errorf("the error is %v", err)
	}
}

func TestToxiproxyFits(t *testing.T) {
	half := small(t, "faults=[{at: 100ms, for: 300ms, network: {link: broker 1, half_open: true}}]").Scenario
	err := ClusterOptions{Toxiproxy: network.ToxiproxyStart}.Fits(half)
	if err == nil || !strings.Contains(err.Error(), "fault 1 of small: toxiproxy cannot do half_open") {
		t.Errorf("it says %v", err)
	}
	if err := (ClusterOptions{}).Fits(half); err != nil {
		t.Errorf("links of dlqbench's own: %v", err)
	}
}

func TestCleanRemovesProxies(t *testing.T) {
	server, root := toxiproxyServer(t), t.TempDir()
	for _, name := range []string{"killed", "going"} {
		registry := dead
		if name == "going" {
			registry = ""
		}
		dir := runFolder(t, root, name, registry)
		header := fmt.Sprintf(`{"format": %d, "run_id": "%s-0f0f0f", "environment": {"links": "toxiproxy %s"}}`,
			history.FormatVersion, name, server)
		if err := os.WriteFile(filepath.Join(dir, dirHistory, "header.json"), []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.NewClient(server).CreateProxy(name+"-0f0f0f.broker-1", "127.0.0.1:0", "127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
	}
	did, err := Clean(t.Context(), root, false, ClusterOptions{})
	if err != nil || !strings.Contains(strings.Join(did, "\n"), "removed proxy killed-0f0f0f.broker-1 from toxiproxy") {
		t.Errorf("it did %v, %v", did, err)
	}
	if left := proxyNames(t, server); len(left) != 1 || left[0] != "going-0f0f0f.broker-1" {
		t.Errorf("left %v", left)
	}
}
