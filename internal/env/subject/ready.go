package subject

// Readiness: shown by a line of output, a port, a URL, or observations of the run from outside.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	defaultReadyTimeout = 30 * time.Second
	readyPoll           = 25 * time.Millisecond
)

// WaitReady waits until the instance is ready. It fails if the process ends (the error has its exit code and its
// last lines), if it is not ready in time, or if ctx ends.
func (g *Group) WaitReady(ctx context.Context, instance int) error {
	p := g.process(instance)
	if p == nil {
		return fmt.Errorf("waiting for instance %d of subject %s: %w", instance, g.cfg.Name, ErrNotRunning)
	}
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-g.readiness(probing, p):
		p.isReady.Store(true)
		p.ready.Do(func() { g.cfg.Sink.Record(p.event(history.KindInstanceReady, g.cfg.Clock.Now())) })
		return nil
	case <-p.done:
		return g.notReady(p, fmt.Sprintf("ended with %v before it was ready", p.exit))
	case waited := <-g.patience(probing, p):
		return g.notReady(p, fmt.Sprintf("was not ready after %v (%s); one that needs longer has ready: {timeout: …} in its "+
			"subject.yaml", waited, p.launch.Ready.waitsFor()))
	case <-ctx.Done():
		return fmt.Errorf("waiting for instance %d of subject %s to get ready: %w", instance, g.cfg.Name, context.Cause(ctx))
	}
}

// notReady returns the error of an instance that did not get ready, with what is known about the reason.
func (g *Group) notReady(p *process, what string) error {
	select {
	case err := <-p.notStarted:
		return fmt.Errorf("starting instance %d of subject %s: %w", p.instance, g.cfg.Name, err)
	default:
	}
	if p.outside != nil {
		return fmt.Errorf("instance %d of subject %s %s; %s", p.instance, g.cfg.Name, what,
			p.outside.Absent(p.outside.Connected()))
	}
	return fmt.Errorf("instance %d of subject %s %s; its last lines are:\n%sall of its output is in %s", p.instance,
		g.cfg.Name, what, p.out.lastLines(), g.logPath(p.instance))
}

// patience returns a channel that signals when the time for getting ready is over: the timeout, and the permitted
// wait in the group, as far as it is known by then.
func (g *Group) patience(ctx context.Context, p *process) <-chan time.Duration {
	over, began := make(chan time.Duration, 1), time.Now()
	limit := func() time.Duration { return g.readyLimit(p) }
	g.watching.Go(func() {
		for left := limit(); left > 0; left = limit() - time.Since(began) {
			if !pause(ctx, left) {
				return
			}
		}
		over <- limit()
	})
	return over
}

// readyLimit returns how long a process may take to get ready, as far as it is known by now.
func (g *Group) readyLimit(p *process) time.Duration {
	most := p.launch.Ready.limit()
	if g.cfg.InGroup != nil {
		most += g.cfg.InGroup()
	}
	return most
}

// ReadyLimit returns how long an instance may take to get ready, as far as it is known by now; 0 for an instance that
// was never started.
func (g *Group) ReadyLimit(instance int) time.Duration {
	if p := g.process(instance); p != nil {
		return g.readyLimit(p)
	}
	return 0
}

// limit returns how long a program may take to get ready.
func (r Ready) limit() time.Duration { return cmp.Or(max(r.Timeout, 0), defaultReadyTimeout) }

// watch returns a function that closes said at the first line that shows readiness, or nil if none is expected.
func (r Ready) watch(said chan struct{}) func(line []byte) {
	if r.Log == nil {
		return nil
	}
	show := sync.OnceFunc(func() { close(said) })
	return func(line []byte) {
		if r.Log.Match(line) {
			show()
		}
	}
}

// waitsFor describes the condition for readiness.
func (r Ready) waitsFor() string {
	switch {
	case r.Log != nil:
		return fmt.Sprintf("no line of its output matched %q", r.Log)
	case r.Port > 0:
		return fmt.Sprintf("nothing accepted on port %d", r.Port)
	case r.URL != "":
		return r.URL + " did not answer 2xx"
	case r.End:
		return "it runs once, and did not end"
	}
	return "it was not seen to fetch from an assigned partition, nor to stand by in its group; it must take the brokers " +
		"from its environment, and its topic and group, too, unless subject.yaml names them, which dlqbench learn finds out" +
		"; one that fetches only when there is a record, as Spark does, says that it is ready: ready: {log: …}"
}

// free fails if the condition for readiness is met before the process starts: another process has the port, or the
// new one would be taken for ready too early.
func (r Ready) free() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch {
	case r.Log != nil:
	case r.Port > 0 && accepts(ctx, localAddress(r.Port)):
		return fmt.Errorf("port %d, which is to show that it is ready, is in use already: end what listens there, or give "+
			"it another port (several instances need a port each)", r.Port)
	case r.Port == 0 && r.URL != "" && answers(ctx, r.URL):
		return fmt.Errorf("%s, which is to show that it is ready, is answered already: end what listens there, or give it "+
			"another address (several instances need one each)", r.URL)
	}
	return nil
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// readiness returns a channel that is closed when the process is ready. Probing ends with ctx.
func (g *Group) readiness(ctx context.Context, p *process) <-chan struct{} {
	if ready := g.readinessBy(ctx, p.launch.Ready, p.saidReady); ready != nil {
		return ready
	}
	return g.cfg.Ready(ctx, p.instance, p.run)
}

// readinessBy returns a channel that is closed when a program shows by itself that it is ready; said is closed when a
// line of its output has. It is nil if the program shows nothing.
func (g *Group) readinessBy(ctx context.Context, ready Ready, said <-chan struct{}) <-chan struct{} {
	switch {
	case ready.Log != nil:
		return said
	case ready.Port > 0:
		return g.probe(ctx, func(ctx context.Context) bool { return accepts(ctx, localAddress(ready.Port)) })
	case ready.URL != "":
		return g.probe(ctx, func(ctx context.Context) bool { return answers(ctx, ready.URL) })
	}
	return nil
}

// probe calls ask repeatedly until it returns true or ctx ends.
func (g *Group) probe(ctx context.Context, ask func(context.Context) bool) <-chan struct{} {
	ready := make(chan struct{})
	g.watching.Go(func() {
		for !ask(ctx) {
			if !pause(ctx, readyPoll) {
				return
			}
		}
		close(ready)
	})
	return ready
}

func accepts(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := statusOf(ctx, url)
	return err == nil && status/100 == 2
}

// statusOf requests a URL and returns the status of the answer.
func statusOf(ctx context.Context, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", url, err)
	}
	// No keep-alive: the connection must not outlive the request.
	request.Close = true
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, nil
}
