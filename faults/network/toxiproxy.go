package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	server "github.com/Shopify/toxiproxy/v2"
	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/faults"
)

// Toxiproxy makes links through the proxies of a toxiproxy server on this machine. It implements Links.
type Toxiproxy struct {
	settings ToxiproxySettings
	client   *toxiproxy.Client
	failed   chan error
	own      *ownServer // the server that this process started, if any

	mu    sync.Mutex
	links []*toxicLink

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// ToxiproxySettings say which server to use, and how.
type ToxiproxySettings struct {
	// Server is the URL of a server on this machine, or ToxiproxyStart.
	Server string
	// Prefix begins the name of each proxy. It is unique to the run.
	Prefix string
	// Port returns a free port of 127.0.0.1, on which a proxy can listen, and again after it was disabled.
	Port func() (int, error)
}

// ToxiproxyStart is the Server that is started in this process.
const ToxiproxyStart = "start"

// Waits for the server.
const (
	callLimit  = 5 * time.Second
	watchEvery = 500 * time.Millisecond
	// tries is the number of ports that are tried for a proxy, and enableTries how often a proxy is enabled again.
	tries      = 20
	againAfter = 50 * time.Millisecond
)

var _ Links = (*Toxiproxy)(nil)

// CheckToxiproxy returns why a Server cannot be used, without connecting to it.
func CheckToxiproxy(address string) error {
	if address == ToxiproxyStart {
		return nil
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" || parsed.Host == "" || strings.Trim(parsed.Path, "/") != "" ||
		parsed.User != nil || parsed.RawQuery != "" {
		return errors.New("write the address of a server's API, such as http://127.0.0.1:8474, or " + ToxiproxyStart)
	}
	if ip := net.ParseIP(parsed.Hostname()); parsed.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not this machine: the proxies forward to ports of 127.0.0.1, so run the server here",
			parsed.Hostname())
	}
	return nil
}

// OpenToxiproxy connects to the server, or starts it. An error says why the server cannot be used.
func OpenToxiproxy(ctx context.Context, settings ToxiproxySettings) (*Toxiproxy, error) {
	t := &Toxiproxy{settings: settings, failed: make(chan error, 1)}
	address := settings.Server
	if address == ToxiproxyStart {
		var err error
		if t.own, err = startServer(); err != nil {
			return nil, err
		}
		address = t.own.address
	}
	t.client = toxiproxy.NewClient(strings.TrimRight(address, "/"))
	t.client.UserAgent = "dlqbench"
	if err := t.checkVersion(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("using the toxiproxy server %s: %w", settings.Server, err), t.own.close())
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.wg.Go(func() { t.watch(watching) })
	return t, nil
}

// checkVersion finds out whether the server is there and has the API of toxiproxy 2. A server that was built without
// a version calls itself "git".
func (t *Toxiproxy) checkVersion(ctx context.Context) error {
	var answer struct{ Version string }
	data, err := ask(ctx, t.client.Version)
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) || errors.As(err, &shape) || err == nil && answer.Version == "":
		return errors.New("what answers there is not toxiproxy 2: give the address of its API, whose port is 8474 by default")
	case err != nil:
		return fmt.Errorf("%w; start it (toxiproxy-server, or docker compose up -d toxiproxy), or let dlqbench do it: "+
			"--toxiproxy %s", err, ToxiproxyStart)
	case answer.Version != "git" && !strings.HasPrefix(answer.Version, "2."):
		return fmt.Errorf("it has version %s, and dlqbench speaks to version 2", answer.Version)
	}
	return nil
}

// Open implements Links.
func (t *Toxiproxy) Open(name string, upstream Upstream, port int) (_ Link, err error) {
	l := &toxicLink{name: name, passages: map[*passage]struct{}{}, expected: make(chan *passage, 1)}
	if l.exit, err = newRelay(name, 0, l.leave(upstream)); err != nil {
		return nil, err
	}
	if l.proxy, err = t.create(name, l.exit.Address()); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the proxy of link %s: %w", name, err), l.exit.Close())
	}
	if l.entry, err = newRelay(name, port, l.enter); err != nil {
		return nil, errors.Join(err, l.exit.Close(), remove(context.Background(), l.proxy))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links = append(t.links, l)
	return l, nil
}

// create makes a proxy on a free port. Another program may take a port between the search and the server's listening.
func (t *Toxiproxy) create(name, upstream string) (proxy *toxiproxy.Proxy, err error) {
	for range tries {
		port, missing := t.settings.Port()
		if missing != nil {
			return nil, missing
		}
		listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		proxy, err = ask(context.Background(), func() (*toxiproxy.Proxy, error) {
			return t.client.CreateProxy(t.settings.Prefix+faults.Dashed(name), listen, upstream)
		})
		if err == nil || !inUse(err) {
			break
		}
	}
	return proxy, err
}

// enable enables a proxy again on its port.
func enable(ctx context.Context, proxy *toxiproxy.Proxy) (err error) {
	for range tries {
		if err = proxy.Enable(); err == nil || !inUse(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(againAfter):
		}
	}
	return fmt.Errorf("%w: another program took the port of %s while it was disabled; end it and repeat the run", err,
		proxy.Name)
}

func inUse(err error) bool { return strings.Contains(err.Error(), "address already in use") }

// remove deletes a proxy. One that is gone already has been reported.
func remove(ctx context.Context, proxy *toxiproxy.Proxy) error {
	err := call(ctx, proxy.Delete)
	if missing := new(toxiproxy.ApiError); errors.As(err, &missing) && missing.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// call waits for the end of requests, but not for ever.
func call(ctx context.Context, requests func() error) error {
	_, err := ask(ctx, func() (struct{}, error) { return struct{}{}, requests() })
	return err
}

// ask waits for an answer of the server, but not for ever.
func ask[T any](ctx context.Context, request func() (T, error)) (answer T, err error) {
	type result struct {
		answer T
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		answer, err := request()
		answered <- result{answer, err}
	}()
	limit := time.NewTimer(callLimit)
	defer limit.Stop()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-limit.C:
		return answer, fmt.Errorf("the server did not answer within %v: a connection whose peer does not read blocks "+
			"toxiproxy; restart the server, and run this without --toxiproxy", callLimit)
	}
}

// Failed implements Links.
func (t *Toxiproxy) Failed() <-chan error { return t.failed }

// watch compares the proxies with what they should be.
func (t *Toxiproxy) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := t.compare(ctx); err != nil && ctx.Err() == nil {
			t.failed <- fmt.Errorf("the toxiproxy server %s: %w", t.settings.Server, err)
			return
		}
	}
}

// compare returns an error if a proxy is not as its link left it. It leaves out the links that change meanwhile.
func (t *Toxiproxy) compare(ctx context.Context) error {
	t.mu.Lock()
	links := slices.Clone(t.links)
	t.mu.Unlock()
	before := map[*toxicLink]int64{}
	for _, l := range links {
		before[l] = l.changes.Load()
	}
	found, err := ask(ctx, t.client.Proxies)
	if err != nil {
		return err
	}
	for _, l := range links {
		if err := l.compare(found, before[l]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements Links.
func (t *Toxiproxy) Close() error {
	t.stop()
	t.wg.Wait()
	return t.own.close()
}

// RemoveProxies removes the proxies that a killed run left on a server, and returns their names. A server that is not
// there has none.
func RemoveProxies(ctx context.Context, address, prefix string) (removed []string, err error) {
	found, err := ask(ctx, toxiproxy.NewClient(address).Proxies)
	if unreachable := new(net.OpError); errors.As(err, &unreachable) && unreachable.Op == "dial" {
		return nil, nil
	}
	for name, proxy := range found {
		if err == nil && strings.HasPrefix(name, prefix) {
			err = remove(ctx, proxy)
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return removed, err
}

// ownServer is a toxiproxy server in this process.
type ownServer struct {
	address string
	api     *server.ApiServer
	http    *http.Server
	ended   chan error
}

func startServer() (*ownServer, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting toxiproxy: %w", err)
	}
	s := &ownServer{address: "http://" + listener.Addr().String(), ended: make(chan error, 1),
		api: server.NewServer(server.NewMetricsContainer(nil), zerolog.Nop())}
	s.http = &http.Server{Handler: s.api.Routes(), ReadHeaderTimeout: callLimit}
	go func() { s.ended <- s.http.Serve(listener) }()
	return s, nil
}

// close ends the server, whose proxies have been deleted.
func (s *ownServer) close() error {
	if s == nil {
		return nil
	}
	err := s.http.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
