package browsertest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const page = `<!doctype html><title>a page</title><h1>Hello</h1><button>press</button><input><p></p>
<script>
document.querySelector("button").addEventListener("click", () => { document.querySelector("p").textContent = "pressed"; console.error("told"); });
setTimeout(() => (window.later = true), 100);
</script>`

func TestBrowserDrivesAPage(t *testing.T) {
	b := Open(t)
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	b.OpenFile(path)
	if got := b.Text("h1"); got != "Hello" {
		t.Errorf("the heading is %q", got)
	}
	b.Click("button")
	b.Until(`document.querySelector("p").textContent === "pressed" && window.later`)
	b.Type("input", "words")
	if got := Eval[string](b, `document.querySelector("input").value`); got != "words" {
		t.Errorf("typed %q", got)
	}
	b.Media("print", "dark")
	if !Eval[bool](b, `matchMedia("print").matches && matchMedia("(prefers-color-scheme: dark)").matches`) {
		t.Error("the medium was not changed")
	}
	b.Viewport(420, 800)
	if got := Eval[int](b, "innerWidth"); got != 420 {
		t.Errorf("the page is %d wide", got)
	}
	if got := b.Console(); !slices.Equal(got, []string{"error: told"}) {
		t.Errorf("the console says %q", got)
	}
	if got := b.Requests(); len(got) != 1 || !strings.HasPrefix(got[0], "file://") {
		t.Errorf("requests %q, want the page's alone", got)
	}
	picture := filepath.Join(t.TempDir(), "page.png")
	b.Screenshot(picture)
	if got, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(got), "\x89PNG") {
		t.Errorf("the picture is no PNG (%v)", err)
	}
}

// What a page asks for is seen, and what is not on the loopback interface is not reached.
func TestBrowserNotesRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(
			`<!doctype html><link rel="icon" href="data:,"><script>fetch("/more").then(() => (window.more = true)); ` +
				`fetch("http://name.example/x").catch(() => (window.refused = true));</script>`))
	}))
	defer server.Close()
	b := Open(t)
	b.Navigate(server.URL + "/")
	b.Until("window.more && window.refused")
	want := []string{server.URL + "/", server.URL + "/more", "http://name.example/x"}
	if got := b.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// A page is left while it still evaluates what Until asks: Chromium answers with an error, and the next page is asked.
func TestUntilOutlivesThePage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	b := Open(t)
	b.Navigate(server.URL + "/first")
	b.Until(`location.pathname === "/next" || (location.href = "/next", new Promise(() => {}))`)
	if got := Eval[string](b, "location.pathname"); got != "/next" {
		t.Errorf("the page is %s", got)
	}
}
