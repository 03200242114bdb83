package web

// This file answers toxiproxy's HTTP API for the links of a drill or a run, so that toxiproxy-cli and toxiproxy's
// client libraries inject and lift faults. Each link is a proxy, each fault on it a toxic or, where the link is down,
// the proxy that is disabled. Everything goes through the session, like what is done on the injector's page.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/drill"
)

// toxiproxyVersion is the version of the API, which client libraries ask for.
const toxiproxyVersion = "2.12.0"

// The links of several brokers are no proxies of their own.
const (
	linkBrokers = "brokers"
	streamDown  = "downstream"
)

// toxiproxyAPI is the API of one drill.
type toxiproxyAPI struct {
	session Session
	guard   *guard
	// adding is held while a toxic is added, so that its name is not given twice.
	adding sync.Mutex

	mu sync.Mutex
	// asked are the toxics as they were asked for, by the id of their fault.
	asked map[string]toxiproxy.Toxic
}

// toxic is a fault in force, as one toxic of a proxy.
type toxic struct {
	toxiproxy.Toxic
	fault string
}

// proxy is a link with what is in force on it.
type proxy struct {
	name, link string
	toxics     []toxic
	down       []string // the faults because of which it is down
}

// Toxiproxy returns the address that toxiproxy-cli takes as --host, for the injector. reveal includes the token, if one
// is needed and was generated.
func (s *Server) Toxiproxy(reveal bool) string {
	base := s.base() + "/toxiproxy/" + s.guard.keys[drill.RoleInjector]
	if token, needed := s.guard.tokens[drill.RoleInjector]; needed {
		if s.guard.given[drill.RoleInjector] || !reveal {
			token = "THE-INJECTORS-TOKEN"
		}
		base = strings.Replace(base, "://", "://you:"+token+"@", 1)
	}
	return base
}

// handle adds the API's routes.
func (a *toxiproxyAPI) handle(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(*http.Request) (any, error){
		"GET /version":                           a.version,
		"GET /proxies":                           a.list,
		"GET /proxies/{proxy}":                   a.show,
		"POST /proxies/{proxy}":                  a.update,
		"PATCH /proxies/{proxy}":                 a.update,
		"GET /proxies/{proxy}/toxics":            a.toxics,
		"POST /proxies/{proxy}/toxics":           a.add,
		"GET /proxies/{proxy}/toxics/{toxic}":    a.toxic,
		"POST /proxies/{proxy}/toxics/{toxic}":   a.change,
		"PATCH /proxies/{proxy}/toxics/{toxic}":  a.change,
		"DELETE /proxies/{proxy}/toxics/{toxic}": a.remove,
		"POST /reset":                            a.reset,
		"POST /proxies":                          fixed,
		"POST /populate":                         fixed,
		"DELETE /proxies/{proxy}":                fixed,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" /toxiproxy/{key}"+path, a.only(serve))
	}
}

// only admits clients that know the injector's form key and, where one is needed, the token. No browser is one.
func (a *toxiproxyAPI) only(serve func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.guard.mayChange(drill.RoleInjector, r, r.PathValue("key"))
		switch {
		case strings.HasPrefix(r.UserAgent(), "Mozilla/"):
			err = refusal(http.StatusForbidden, "this is no page for browsers")
		case err != nil:
			err = refusal(http.StatusForbidden, "%v; the address that dlqbench has printed has it", err)
		case !a.guard.admits(drill.RoleInjector, r):
			w.Header().Set("WWW-Authenticate", "Basic")
			err = refusal(http.StatusUnauthorized, "write the injector's token into the address: http://NAME:TOKEN@HOST…")
		}
		var answer any
		if err == nil {
			a.session.Arrive()
			// A fault must not stay because a client has gone.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actLimit)
			defer cancel()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actLimit + requestLimit))
			answer, err = serve(r.WithContext(ctx))
		}
		respond(w, answer, err)
	})
}

// respond writes an answer as toxiproxy does. nil has no body.
func respond(w http.ResponseWriter, answer any, err error) {
	status := http.StatusOK
	if err != nil {
		failure := &toxiproxy.ApiError{Message: err.Error(), Status: http.StatusInternalServerError}
		_ = errors.As(err, &failure)
		switch {
		case errors.Is(err, drill.ErrNotAllowed):
			failure.Status = http.StatusForbidden
		case errors.Is(err, drill.ErrNotOpen):
			failure.Status = http.StatusConflict
		case errors.Is(err, drill.ErrRefused):
			failure.Status = http.StatusBadRequest
		}
		answer, status = failure, failure.Status
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func refusal(status int, format string, args ...any) error {
	return &toxiproxy.ApiError{Message: fmt.Sprintf(format, args...), Status: status}
}

func fixed(*http.Request) (any, error) {
	return nil, refusal(http.StatusMethodNotAllowed, "the proxies are the links of this run, none can be "+
		"created or deleted")
}

func (a *toxiproxyAPI) version(*http.Request) (any, error) {
	return map[string]string{"version": toxiproxyVersion}, nil
}

func (a *toxiproxyAPI) list(*http.Request) (any, error) {
	all := map[string]toxiproxy.Proxy{}
	for name, p := range a.proxies() {
		all[name] = p.shown()
	}
	return all, nil
}

func (a *toxiproxyAPI) show(r *http.Request) (any, error) {
	p, err := a.find(r)
	return p.shown(), err
}

func (a *toxiproxyAPI) toxics(r *http.Request) (any, error) {
	p, err := a.find(r)
	return p.shown().ActiveToxics, err
}

func (a *toxiproxyAPI) toxic(r *http.Request) (any, error) {
	_, found, err := a.findToxic(r)
	return found.Toxic, err
}

// update enables or disables a proxy. Nothing else of a link can be changed.
func (a *toxiproxyAPI) update(r *http.Request) (any, error) {
	p, err := a.find(r)
	if err != nil {
		return nil, err
	}
	asked := p.shown()
	if err := decode(r.Body, &asked); err != nil {
		return nil, err
	}
	switch now := p.shown(); {
	case asked.Listen != now.Listen || asked.Upstream != now.Upstream:
		return nil, refusal(http.StatusBadRequest, "the addresses of a link are fixed")
	case asked.Enabled:
		err = a.healEach(r, p.down)
	case now.Enabled:
		_, err = a.inject(r, network.Network{Link: p.link, Toxicity: 1, Down: true})
	}
	if err != nil {
		return nil, err
	}
	return a.show(r)
}

// add injects the fault that does what the toxic does.
func (a *toxiproxyAPI) add(r *http.Request) (any, error) {
	a.adding.Lock()
	defer a.adding.Unlock()
	p, err := a.find(r)
	if err != nil {
		return nil, err
	}
	asked := toxiproxy.Toxic{Stream: streamDown, Toxicity: 1}
	if err := decode(r.Body, &asked); err != nil {
		return nil, err
	}
	asked.Stream = strings.ToLower(asked.Stream)
	asked.Name = cmp.Or(asked.Name, asked.Type+"_"+asked.Stream)
	if slices.ContainsFunc(p.toxics, func(t toxic) bool { return t.Name == asked.Name }) {
		return nil, refusal(http.StatusConflict, "toxic already exists")
	}
	return a.put(r, p.link, asked)
}

// change replaces a toxic by one with other attributes. In the drill these are two faults, one after the other.
func (a *toxiproxyAPI) change(r *http.Request) (any, error) {
	a.adding.Lock()
	defer a.adding.Unlock()
	p, old, err := a.findToxic(r)
	if err != nil {
		return nil, err
	}
	asked := old.Toxic
	asked.Attributes = maps.Clone(asked.Attributes) // the body's are added to it
	if err := decode(r.Body, &asked); err != nil {
		return nil, err
	}
	asked.Name, asked.Type, asked.Stream = old.Name, old.Type, old.Stream
	if _, err := network.FromToxic(p.link, asked); err != nil {
		return nil, refusal(http.StatusBadRequest, "%v", err)
	}
	if err := a.heal(r, old.fault); err != nil {
		return nil, err
	}
	return a.put(r, p.link, asked)
}

// put injects a toxic's fault.
func (a *toxiproxyAPI) put(r *http.Request, link string, asked toxiproxy.Toxic) (any, error) {
	fault, err := network.FromToxic(link, asked)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, "%v", err)
	}
	id, err := a.inject(r, fault)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[id] = asked
	return asked, nil
}

func (a *toxiproxyAPI) remove(r *http.Request) (any, error) {
	_, found, err := a.findToxic(r)
	if err != nil {
		return nil, err
	}
	return nil, a.heal(r, found.fault)
}

// reset enables all proxies and removes all toxics, whoever has added them.
func (a *toxiproxyAPI) reset(r *http.Request) (any, error) {
	var all []string
	for _, p := range a.proxies() {
		all = append(all, p.down...)
		for _, t := range p.toxics {
			all = append(all, t.fault)
		}
	}
	slices.Sort(all) // a fault can be on several links, and in both directions
	return nil, a.healEach(r, slices.Compact(all))
}

func (a *toxiproxyAPI) healEach(r *http.Request, ids []string) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, a.heal(r, id))
	}
	return errors.Join(errs...)
}

func (a *toxiproxyAPI) heal(r *http.Request, id string) error {
	return a.session.Heal(r.Context(), actor(r), id)
}

// inject injects a fault of a link and returns its id.
func (a *toxiproxyAPI) inject(r *http.Request, fault network.Network) (string, error) {
	text, err := json.Marshal(fault)
	if err != nil {
		return "", fmt.Errorf("writing the fault: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return "", fmt.Errorf("writing the fault: %w", err)
	}
	injected, err := a.session.Break(r.Context(), actor(r), map[string]any{"network": spec})
	return injected.ID, err
}

// actor is who sends the request: the name in the address, or else the name of the client program.
func actor(r *http.Request) drill.Actor {
	name, _, _ := r.BasicAuth()
	client, _, _ := strings.Cut(r.UserAgent(), "/")
	return drill.Actor{Name: cmp.Or(name, client), Role: drill.RoleInjector}
}

// decode reads a body onto what is there.
func decode(body io.Reader, to any) error {
	if err := json.NewDecoder(body).Decode(to); err != nil {
		return refusal(http.StatusBadRequest, "bad request body: %v", err)
	}
	return nil
}

// find returns the proxy that the path names.
func (a *toxiproxyAPI) find(r *http.Request) (proxy, error) {
	found, known := a.proxies()[r.PathValue("proxy")]
	if !known {
		return found, refusal(http.StatusNotFound, "proxy not found")
	}
	return found, nil
}

func (a *toxiproxyAPI) findToxic(r *http.Request) (proxy, toxic, error) {
	p, err := a.find(r)
	if err != nil {
		return p, toxic{}, err
	}
	at := slices.IndexFunc(p.toxics, func(t toxic) bool { return t.Name == r.PathValue("toxic") })
	if at < 0 {
		return p, toxic{}, refusal(http.StatusNotFound, "toxic not found")
	}
	return p, p.toxics[at], nil
}

// shown returns the proxy as the API shows it. A link has no addresses of interest, so it has names in their place.
func (p proxy) shown() toxiproxy.Proxy {
	out := toxiproxy.Proxy{Name: p.name, Listen: "consumer", Upstream: p.link, Enabled: len(p.down) == 0,
		ActiveToxics: toxiproxy.Toxics{}}
	for _, t := range p.toxics {
		out.ActiveToxics = append(out.ActiveToxics, t.Toxic)
	}
	return out
}

// proxies returns the links by their proxies' names.
func (a *toxiproxyAPI) proxies() map[string]proxy {
	all := map[string]proxy{}
	for _, link := range links(a.session.Catalogue()) {
		name := faults.Dashed(link)
		all[name] = proxy{name: name, link: link}
	}
	for _, fault := range a.session.State(drill.RoleInjector).Faults {
		if fault.Kind != "network" || fault.Over() {
			continue
		}
		var spec struct{ Network network.Network }
		text, err := json.Marshal(fault.Spec)
		if err != nil || json.Unmarshal(text, &spec) != nil {
			continue // written by the session, which read it
		}
		for name, p := range all {
			if p.link == spec.Network.Link || spec.Network.Link == linkBrokers && strings.HasPrefix(p.link, "broker ") {
				a.take(&p, fault, spec.Network)
				all[name] = p
			}
		}
	}
	return all
}

// take adds a fault to its proxy.
func (a *toxiproxyAPI) take(p *proxy, fault drill.Fault, spec network.Network) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if spec.Down {
		p.down = append(p.down, fault.ID)
		return
	}
	if asked, mine := a.asked[fault.ID]; mine {
		p.toxics = append(p.toxics, toxic{asked, fault.ID})
		return
	}
	for _, one := range spec.Toxics(fault.Name) {
		p.toxics = append(p.toxics, toxic{one, fault.ID})
	}
}

// links lists the links that faults can be injected into, without the name that stands for several.
func links(catalogue []drill.Breakable) (all []string) {
	for _, entry := range catalogue {
		for _, parameter := range entry.Parameters {
			if entry.Kind == "network" && parameter.Path == "network.link" {
				all = append(all, parameter.Choices...)
			}
		}
	}
	all = slices.DeleteFunc(all, func(link string) bool { return link == linkBrokers })
	slices.Sort(all)
	return slices.Compact(all)
}
