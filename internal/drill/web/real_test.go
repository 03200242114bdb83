package web

// This file tests a drill end to end: the program, a real consumer, the injector's browser, the responder's beside it,
// and many clients that do not read.

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

// printed collects what the program writes.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(data)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// startDrill builds the program and starts a drill with a responder. It returns the two links, the folder of its runs,
// its output, and a function that ends it and returns the exit code.
func startDrill(t *testing.T) (injector, responder, runs string, out *printed, end func() int) {
	t.Helper()
	dir := t.TempDir()
	program := must.Get(programtest.Build())(t)
	runs, out = filepath.Join(dir, "runs"), &printed{}
	command := exec.Command(program, "drill", filepath.Join("testdata", "orders-on-call.yaml"), "--addr", "127.0.0.1:0",
		"--responder", "--linger", "3m", "--out", runs)
	command.Stdout, command.Stderr = out, out
	must.Do(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	end = sync.OnceValue(func() int {
		_ = command.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			_ = command.Process.Kill()
			<-ended
			t.Error("an interrupt did not end the drill within two minutes")
		}
		return command.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Logf("dlqbench wrote:\n%s", out)
		}
	})
	link := regexp.MustCompile(`http://[^ \n]+/(injector/#\w+|responder/)\n`)
	until(t, "the links are printed", func() bool { return len(link.FindAllString(out.String(), -1)) == 2 })
	links := link.FindAllString(out.String(), -1)
	return strings.TrimSpace(links[0]), strings.TrimSpace(links[1]), runs, out, end
}

// crowd opens clients that request the stream and stop reading.
func crowd(t *testing.T, link string, count int) {
	t.Helper()
	address := strings.Split(link, "/")[2]
	for range count {
		connection := must.Get(net.Dial("tcp", address))(t)
		t.Cleanup(func() { _ = connection.Close() })
		must.Get(fmt.Fprintf(connection, "GET /responder/events HTTP/1.1\r\nHost: %s\r\n\r\n", address))(t)
	}
}

func TestAWholeDrillOfARealConsumerInABrowser(t *testing.T) {
	ada, bob := browsertest.Open(t), browsertest.Open(t)
	injector, responder, runs, out, end := startDrill(t)
	opened(ada, injector)
	opened(bob, responder)
	crowd(t, responder, 500)
	stream := listen(t, responder+"events")

	ada.Type("#by", "Ada")
	ada.Until("document.querySelector(\"#fault\").value === \"downstream.outage\" && " +
		"document.querySelectorAll('.node[data-part^=\"broker \"]').length === 2")
	ada.Click("#break button.danger")
	ada.Until(`document.querySelectorAll('.node.hit[data-part="downstream"]').length === 1`)
	ada.Until(`document.querySelectorAll(".node.dlq .figure")[0].textContent !== "0"`)

	bob.Until(`document.querySelectorAll('.node[data-part="downstream"]').length === 1`)
	if got := bob.Count(".mark, .node.hit, #broken li"); got != 0 {
		t.Errorf("the responder sees %d marks of what was broken", got)
	}
	bob.Type("#by", "Bob")
	bob.Type("#notice-text", "nothing succeeds any more")
	bob.Click("#notice button")
	bob.Type("#note-text", "I heal <b>everything</b>")
	bob.Press("\r")
	bob.Until(`document.querySelector("#log [data-action=note] .text")?.textContent === "Bob: I heal <b>everything</b>"`)
	ada.Until(`document.querySelector("#broken").textContent.includes("noticed after")`)
	bob.Click("#heal-all button")
	ada.Until(
		"document.querySelectorAll(\"#broken li\").length === 0 && document.querySelectorAll(\".node.hit\").length === 0")
	discreet(t, stream, bob)

	ada.Click("#stop")
	ada.Click("#sure-yes")
	for _, b := range []*browsertest.Browser{ada, bob} {
		b.Until(`!document.querySelector("#over").hidden`)
		if got := b.Text("#over"); !strings.Contains(got, "stopped by Ada") ||
			!strings.Contains(got, "1 of 1") || !strings.Contains(got, "downstream-outage") {
			t.Errorf("the end is told as %q", got)
		}
		if console := b.Console(); len(console) > 0 {
			t.Errorf("the page writes to the console: %q", console)
		}
	}
	base := strings.SplitAfter(responder, "/responder/")[0]
	for file, want := range map[string]string{"debrief.html": "nothing succeeds any more",
		"report.html": "orders-on-call"} {
		bob.Navigate(base + "files/" + file)
		bob.Until(fmt.Sprintf("document.body.textContent.includes(%q)", want))
		if console := bob.Console(); len(console) > 0 || bob.Count("b > *") < 0 {
			t.Errorf("%s writes to the console: %q", file, console)
		}
	}
	if code := end(); code != 0 && code != 4 {
		t.Errorf("the drill ended with %d", code)
	}
	if strings.Contains(out.String(), "panic") {
		t.Error("something panicked")
	}
	if recorded, err := filepath.Glob(filepath.Join(runs, "*", "recorded.yaml")); err != nil || len(recorded) == 0 {
		t.Errorf("nothing was recorded: %v", err)
	} else if text, err := os.ReadFile(recorded[0]); err != nil || !strings.Contains(string(text), "outage: true") {
		t.Errorf("what was recorded is %s (%v)", text, err)
	}
}

// discreet checks that nothing a responder has received so far reveals a fault.
func discreet(t *testing.T, stream *listener, bob *browsertest.Browser) {
	t.Helper()
	var seen strings.Builder
	for healed := false; !healed; {
		name, data := stream.next()
		seen.WriteString(data)
		healed = name == "events" && strings.Contains(data, `"action":"heal-all"`)
	}
	seen.WriteString(browsertest.Eval[string](bob, "document.documentElement.outerHTML"))
	for _, word := range []string{"outage", "orders-on-call", "answered 503", "somebody breaks", `"action":"fault"`} {
		if at := strings.Index(seen.String(), word); at >= 0 {
			text := seen.String()
			t.Errorf("the responder gets %q in …%s…", word, text[max(0, at-120):min(len(text), at+120)])
		}
	}
}
