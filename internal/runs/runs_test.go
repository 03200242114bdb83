package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored writes a run directory with a verdict of the reports' golden files, and changes keys of it.
func stored(t *testing.T, root, name, verdict string, change map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "reports", "testdata", verdict+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	must.Do(t, json.Unmarshal(data, &all))
	maps.Copy(all, change)
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, name, reports.VerdictFile), string(data))
	write(t, filepath.Join(root, name, reports.HTMLFile),
		`<!doctype html><title>the report</title><link rel="icon" href="data:,"><h1>`+name+"</h1>")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

func at(minute int) string {
	return time.Date(2026, 3, 14, 15, minute, 0, 0, time.UTC).Format(time.RFC3339)
}

func TestList(t *testing.T) {
	root := t.TempDir()
	if runs, err := List(filepath.Join(root, "none"), time.Now()); err != nil || len(runs) != 0 {
		t.Errorf("a folder that does not exist: %v, %v", runs, err)
	}
	stored(t, root, "a", "pass", map[string]any{"started": at(1)})
	stored(t, root, "b", "fail", map[string]any{"started": at(3), "run_id": "b"})
	stored(t, root, "c", "missed", map[string]any{"started": at(2), "run_id": "c"})
	write(t, filepath.Join(root, "half", reports.VerdictFile), "{")
	write(t, filepath.Join(root, "old", reports.VerdictFile), `{"schema": 1, "run_id": "x", "scenario": "s"}`)
	write(t, filepath.Join(root, "now", "history", "segment"), "")
	write(t, filepath.Join(root, "killed", "history", "segment"), "")
	write(t, filepath.Join(root, "other", "notes.txt"), "")
	past := time.Now().Add(-time.Hour)
	for _, path := range []string{"killed/history/segment", "killed/history"} {
		must.Do(t, os.Chtimes(filepath.Join(root, path), past, past))
	}
	must.Do(t, os.Symlink("b", filepath.Join(root, "latest")))
	runs := must.Get(List(root, time.Now()))(t)
	states := map[string]string{}
	var order []string
	for _, run := range runs {
		states[run.Name] = run.State
		if run.Scenario != "" {
			order = append(order, run.Name)
		}
		if run.Why == "" {
			t.Errorf("%s does not say why it is %s", run.Name, run.State)
		}
	}
	want := map[string]string{"a": "pass", "b": "fail", "c": "missed", "half": reports.RunBroken, "old": reports.RunBroken,
		"now": reports.RunInProgress, "killed": reports.RunBroken}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("the states are %v, want %v", states, want)
	}
	if got := strings.Join(order, ""); got != "bca" {
		t.Errorf("the order is %s, want the newest first", got)
	}
}

// A thousand runs are listed, and the page of them stays small enough to be opened.
func TestListsAThousand(t *testing.T) {
	root := t.TempDir()
	stored(t, root, "run", "pass", map[string]any{"invariants": []any{}})
	verdict := must.Get(os.ReadFile(filepath.Join(root, "run", reports.VerdictFile)))(t)
	for i := range 999 {
		write(t, filepath.Join(root, fmt.Sprintf("run-%04d", i), reports.VerdictFile), string(verdict))
	}
	runs, err := List(root, time.Now())
	if err != nil || len(runs) != 1000 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	var page strings.Builder
	if err := reports.RunsHTML(&page, runs, root); err != nil || page.Len() > 2<<20 {
		t.Errorf("the page has %d bytes (%v)", page.Len(), err)
	}
}

// serve serves a folder until the test ends.
func serve(t *testing.T, root string) *Server {
	t.Helper()
	server := must.Get(Listen("127.0.0.1:0", root))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestServesThisMachineOnly(t *testing.T) {
	if server, err := Listen("0.0.0.0:0", t.TempDir()); err == nil {
		_ = server.listener.Close()
		t.Error("an address that others reach was taken")
	}
	parent := t.TempDir()
	write(t, filepath.Join(parent, "secret", reports.HTMLFile), "secret")
	root := filepath.Join(parent, "runs")
	stored(t, root, "a", "pass", nil)
	stored(t, root, "b", "pass", map[string]any{"run_id": "b"})
	stored(t, root, "f", "fail", nil)
	must.Do(t, os.Symlink("../../secret/report.html", filepath.Join(root, "f", "link.html")))
	server := serve(t, root)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, one := range []struct {
		path, host string
		code       int
		policy     string
	}{
		{"", "", http.StatusOK, pagePolicy}, {"report/a/", "", http.StatusOK, reportPolicy},
		{"compare?before=a&after=b", "", http.StatusOK, pagePolicy},
		{"compare?before=a&after=f", "", http.StatusConflict, ""},
		{"compare?before=a&after=none", "", http.StatusNotFound, ""}, {"report/none/", "", http.StatusNotFound, ""},
		{"report/..%2Fsecret/", "", http.StatusNotFound, ""}, {"report/%2E%2E/", "", http.StatusNotFound, ""},
		{"report/a/verdict.json", "", http.StatusNotFound, ""},
		{"", "evil.example", http.StatusMisdirectedRequest, ""}, {"", "localhost", http.StatusOK, pagePolicy},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.Link()+one.path, nil))(t)
		request.Host = one.host
		answer := must.Get(client.Do(request))(t)
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != one.code || strings.Contains(string(body), "secret") && one.code == http.StatusOK {
			t.Errorf("%q of %q: %s: %.200s", one.path, one.host, answer.Status, body)
		}
		if got := answer.Header.Get("Content-Security-Policy"); one.policy != "" && got != one.policy {
			t.Errorf("%q has the policy %q", one.path, got)
		}
	}
}

// A reader opens the page, chooses two runs, reads their comparison, and opens a report.
func TestBrowserComparesTwoRuns(t *testing.T) {
	b := browsertest.Open(t)
	root := t.TempDir()
	stored(t, root, "older", "pass", map[string]any{"started": at(1)})
	stored(t, root, "newer", "pass", map[string]any{"started": at(2), "run_id": "newer"})
	server := serve(t, root)
	b.Navigate(server.Link())
	b.Until(`document.querySelectorAll("#all tbody input").length === 2`)
	browsertest.Eval[bool](b, `(document.querySelectorAll("#all tbody input").forEach((x) => x.click()), true)`)
	b.Click(".filters button")
	b.Until(`location.pathname === "/compare" && document.readyState === "complete"`)
	if got := browsertest.Eval[string](b, "location.search"); got != "?before=older&after=newer" {
		t.Errorf("it compares %s", got)
	}
	b.Until(`document.body.textContent.includes("invariants stand as before")`)
	b.Navigate(server.Link())
	b.Click(`#all tbody a[href="report/newer/"]`)
	b.Until(`document.querySelector("h1")?.textContent === "newer"`)
	if console := b.Console(); len(console) > 0 {
		t.Errorf("the pages write to the console: %q", console)
	}
}
