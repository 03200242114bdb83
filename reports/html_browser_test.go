//go:build browser

package reports

// The report in a real browser. It is not part of the default tests because it needs Chromium; asked for, it fails without one:
//
//	go test -tags browser ./reports

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browse opens a file and returns the page as it is after its scripts have run, and what was written to the console.
func browse(t *testing.T, document string) (dom, console string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test needs Chromium: %v", err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", (&url.URL{Scheme: "file", Path: path}).String())
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		t.Fatalf("running Chromium: %v\n%s", err, errs.String())
	}
	for line := range strings.SplitSeq(errs.String(), "\n") {
		if strings.Contains(line, "CONSOLE") {
			console += line + "\n"
		}
	}
	return out.String(), console
}

func TestBrowserDrawsEveryFixtureQuietly(t *testing.T) {
	runs := fixtures()
	runs["hostile"] = injected(`</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">` + hostile)
	for name, run := range runs {
		dom, console := browse(t, render(t, run, HTML))
		if console != "" {
			t.Errorf("%s writes to the console:\n%s", name, console)
		}
		want := 5
		if run.Measurements == nil {
			want = 0
		}
		if got := strings.Count(dom, "<canvas"); got != want {
			t.Errorf("%s has %d charts, want %d", name, got, want)
		}
		if strings.Contains(dom, "<title>owned") || strings.Contains(dom, "<img") {
			t.Errorf("%s: hostile content came alive", name)
		}
	}
}

// The other side of the test above: what the policy must stop is seen to be stopped, so a silent console means something.
func TestBrowserPolicyStopsScripts(t *testing.T) {
	document := strings.Replace(render(t, passRun(), HTML), "</main>",
		`<script>document.title="owned"</script><img src="x" onerror="document.title='owned'"></main>`, 1)
	dom, console := browse(t, document)
	if strings.Contains(dom, "<title>owned") {
		t.Error("the policy let a script run")
	}
	if !strings.Contains(console, "Content Security Policy") {
		t.Errorf("the console does not tell that something was stopped: %q", console)
	}
}
