// Package browsertest drives a headless Chromium for the tests of the pages that this project makes: it opens them,
// clicks and types as a reader would, and keeps what they wrote to the console and asked the network for. It must not
// know what any page shows.
//
// A test that needs a browser calls Open first, which skips it, with the reason, where there is no Chromium. Nothing
// here can hang: every step has a deadline, so has the browser as a whole, and its processes are a group of their own
// that is killed and waited for when the test ends. It resolves no name but those of the loopback interface.
package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// lifetime bounds a browser; stepLimit one thing that is asked of it.
	lifetime  = 6 * time.Minute
	stepLimit = 40 * time.Second
	// outputLimit is how much of what Chromium itself writes is told when it does not start, in bytes.
	outputLimit = 4 << 10
)

// Browser is a Chromium with one tab. Its methods end the test when they fail; they are not safe for concurrent use,
// except Console and Requests.
type Browser struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	console  []string
	requests []string
}

// Find returns the path of a Chromium or Chrome, and "" where there is none.
func Find() string {
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell", "headless-shell",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Open starts a browser with an empty page of 1200 × 900 pixels that prefers light colours. The test is skipped with
// -short, unless DLQBENCH_BROWSER is set, and where there is no browser. The browser ends with the test.
func Open(t testing.TB) *Browser {
	t.Helper()
	if testing.Short() && os.Getenv("DLQBENCH_BROWSER") == "" {
		t.Skip("SKIPPED: -short, and this test drives a page in a real browser: make test-browser")
	}
	path := Find()
	if path == "" {
		t.Skip("SKIPPED: this test drives a page in a real browser, and there is no Chromium or Chrome here: install " +
			"Debian's chromium, or Google Chrome")
	}
	ctx, stop := context.WithTimeout(context.Background(), lifetime)
	b, output := &Browser{t: t}, &tail{}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(1200, 900), chromedp.DisableGPU, chromedp.CombinedOutput(output),
		chromedp.ModifyCmdFunc(ownGroup),
		chromedp.Env("TMPDIR="+scratch(t)),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-proxy-server", true),
		// A link scrolls the page smoothly, and a click goes to where its target was: it must not be on its way.
		chromedp.Flag("force-prefers-reduced-motion", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
	)
	ctx, free := chromedp.NewExecAllocator(ctx, options...)
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	b.ctx = ctx
	t.Cleanup(func() {
		stop() // kills the whole group, which the other two wait for
		closeTab()
		free()
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatalf("starting %s: %v\n%s", path, err, output)
	}
	b.Viewport(1200, 900)
	b.Media("", "light")
	return b
}

// scratch is a folder for a browser that is killed and so leaves its lock there. The path of a test's own folder may be
// too long for the lock's socket.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hear notes what the page writes and asks for. It is called before the answer to a command that came after it, so that
// what a page wrote before an Eval is there after it.
func (b *Browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		// What is in the page itself, and what it makes, is no request to anybody.
		scheme, _, _ := strings.Cut(event.Request.URL, ":")
		if scheme != "data" && scheme != "blob" && scheme != "about" {
			b.requests = append(b.requests, event.Request.URL)
		}
	case *runtime.EventConsoleAPICalled:
		words := []string{string(event.Type) + ":"}
		for _, one := range event.Args {
			words = append(words, wording(one))
		}
		b.console = append(b.console, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		told := "exception: " + event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			told += " " + wording(thrown)
		}
		b.console = append(b.console, told)
	case *log.EventEntryAdded:
		b.console = append(b.console, string(event.Entry.Level)+": "+event.Entry.Text)
	}
}

// wording is a value as the console shows it, more or less.
func wording(value *runtime.RemoteObject) string {
	var words string
	switch {
	case json.Unmarshal(value.Value, &words) == nil:
		return words
	case len(value.Value) > 0:
		return string(value.Value)
	}
	return value.Description
}

// Console returns what the page has written to the console since Navigate: "error: …", "exception: …", "log: …", also
// what its content security policy stopped.
func (b *Browser) Console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.console...)
}

// Requests returns the URLs that were asked for since Navigate, the page itself first.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.requests...)
}

// Do carries out what the other methods have no word for. It has a deadline.
func (b *Browser) Do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("in the browser, %s: %v\nconsole: %q", what, err, b.Console())
	}
}

// ask is Do for an action that returns something.
func ask[T any](b *Browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	answer, err := try(b, action)
	if err != nil {
		b.t.Fatalf("in the browser, %s: %v\nconsole: %q", what, err, b.Console())
	}
	return answer
}

// try is ask for an action that may fail.
func try[T any](b *Browser, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, stepLimit)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// Navigate opens an address and waits until the page has loaded. What was noted of an earlier page is forgotten.
func (b *Browser) Navigate(address string) {
	b.t.Helper()
	b.mu.Lock()
	b.console, b.requests = nil, nil
	b.mu.Unlock()
	b.Do("opening "+address, chromedp.Navigate(address))
}

// OpenFile opens a file as a double click on it would.
func (b *Browser) OpenFile(path string) {
	b.t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		b.t.Fatalf("opening %s: %v", path, err)
	}
	b.Navigate((&url.URL{Scheme: "file", Path: absolute}).String())
}

// Eval returns the value of a JavaScript expression in the page; a promise is waited for. The policy of a page does not
// bind it.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	return ask(b, "evaluating "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// pageLeft is what Chromium answers when a page was left before it could answer.
const pageLeft = "Inspected target navigated or closed"

// Until waits until a JavaScript expression is true, in this page or in one that replaces it; a promise is waited
// for. The wait is that of a step, 40 s; what it waits for is told if that is not enough.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(stepLimit)
	question := chromedp.Evaluate[bool]("(async () => Boolean(await ("+expression+")))()", chromedp.EvalAwaitPromise)
	for {
		met, err := try(b, question)
		var refused *cdproto.Error
		switch {
		case errors.As(err, &refused) && refused.Message == pageLeft: // the next page is asked
		case err != nil:
			b.t.Fatalf("in the browser, waiting for %s: %v\nconsole: %q", expression, err, b.Console())
		case met:
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("in the browser: %s did not become true within %s\nconsole: %q", expression, stepLimit, b.Console())
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("in the browser: it ended while %s was waited for: %v", expression, b.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Text returns the text that is shown of the first element that matches a CSS selector.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return ask(b, "reading "+selector, chromedp.Text(chromedp.CSS(selector)))
}

// Count returns how many elements match a CSS selector.
func (b *Browser) Count(selector string) int {
	b.t.Helper()
	return Eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// Click clicks the middle of the first element that matches a CSS selector, once it is visible.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.Do("clicking "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Press types keys into whatever has the focus; see package kb of chromedp for those that are no characters. A key that
// the page keeps from its default makes no character, as on a keyboard (chromedp's own KeyEvent sends the character all
// the same).
func (b *Browser) Press(keys string) {
	b.t.Helper()
	b.Do(fmt.Sprintf("pressing %q", keys), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, key := range keys {
			events := kb.Encode(key)
			if len(events) == 3 { // down, character, up
				events[0].Type, events[0].Text, events[0].UnmodifiedText = input.DispatchKeyEventTypeKeyDown, events[1].Text,
					events[1].UnmodifiedText
				events = append(events[:1], events[2])
			}
			for _, event := range events {
				if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// Type types into the first element that matches a CSS selector.
func (b *Browser) Type(selector, words string) {
	b.t.Helper()
	b.Do("typing into "+selector, chromedp.SendKeys(chromedp.CSS(selector), words))
}

// Viewport makes the page so many CSS pixels wide and high.
func (b *Browser) Viewport(width, height int64) {
	b.t.Helper()
	b.Do("resizing", chromedp.EmulateViewport(width, height))
}

// Media makes the page believe in a medium ("screen", "print", "" for the browser's own) and a preferred colour scheme
// ("light", "dark").
func (b *Browser) Media(medium, scheme string) {
	b.t.Helper()
	b.Do("choosing the medium", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// Screenshot writes a picture of the whole page, PNG, to a file.
func (b *Browser) Screenshot(path string) {
	b.t.Helper()
	b.write(path, ask(b, "taking a picture", chromedp.FullScreenshot(100)))
}

// Glimpse writes a picture of what is in view, PNG, to a file.
func (b *Browser) Glimpse(path string) {
	b.t.Helper()
	b.write(path, ask(b, "taking a picture", chromedp.CaptureScreenshot()))
}

func (b *Browser) write(path string, content []byte) {
	b.t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.t.Fatalf("writing a picture of the page: %v", err)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = w.text[max(0, len(w.text)-outputLimit):]
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}
