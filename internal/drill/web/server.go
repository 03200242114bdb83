package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/internal/drill"
)

const (
	// frameEvery is the interval between frames.
	frameEvery = 500 * time.Millisecond
	// bodyLimit is the maximum size of a request's body, headerLimit that of its headers, in bytes.
	bodyLimit, headerLimit = 64 << 10, 16 << 10
	// requestLimit is the time that a browser may take to send a request or to receive an answer. Streams have
	// writeLimit for each frame.
	requestLimit = 15 * time.Second
	// sendBuffer is the kernel's buffer for a browser that is not reading, in bytes. A frame fits in.
	sendBuffer = 64 << 10
	// closeLimit is the time that the shutdown waits for pending answers.
	closeLimit = 3 * time.Second
)

// Options configure where a drill is shown and to whom.
type Options struct {
	// Address is host:port. Port 0 takes any free port. On any address but loopback, every visitor needs a token.
	Address string
	// Apart means that there is a responder who must not see the injector's actions. The injector's page then needs its
	// token on loopback, too, and the address without a path leads to the responder's page.
	Apart bool
	// Links serves only toxiproxy's HTTP API for the links of a run, without the page.
	Links bool
	// Tokens are the tokens that the user has chosen, by role (CheckTokens). They are required on loopback, too, and
	// never displayed. A role without one gets a generated token for this drill, if it needs one.
	Tokens map[drill.Role]string
	// Log receives errors of the server itself, never a token. nil discards them.
	Log io.Writer
}

// what is what is served.
func (o Options) what() string {
	if o.Links {
		return "toxiproxy's API"
	}
	return "the drill's page"
}

// Server serves one drill.
type Server struct {
	listener net.Listener
	guard    *guard
	apart    bool
	links    bool
	what     string
	log      *log.Logger
	// id tells a browser that reconnects whether this is still the same drill.
	id       string
	channels map[drill.Role]*channel
}

// Listen opens the address. It is called before a drill begins, so that a problem with the address is reported before
// anything starts. Either Serve or Close must be called.
func Listen(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", options.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listening for %s: %s is taken, perhaps by another drill: end that one, or "+
			"choose another port (port 0 takes any free one)", options.what(), options.Address)
	case err != nil:
		return nil, fmt.Errorf("listening for %s on %s: %w", options.what(), options.Address, err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		_ = listener.Close()
		return nil, fmt.Errorf("listening for %s on %s: this is no TCP address", options.what(), options.Address)
	}
	s := &Server{listener: listener, guard: newGuard(address, options.Apart, options.Tokens), apart: options.Apart,
		links: options.Links, what: options.what(), id: rand.Text(), channels: map[drill.Role]*channel{}}
	for _, role := range roles() {
		s.channels[role] = newChannel()
	}
	out := options.Log
	if out == nil {
		out = io.Discard
	}
	s.log = log.New(out, "dlqbench drill page: ", 0)
	return s, nil
}

// roles lists the roles that have a page.
func roles() []drill.Role { return []drill.Role{drill.RoleInjector, drill.RoleResponder} }

// Close releases the address of a server that was never served.
func (s *Server) Close() error { return s.listener.Close() }

// base returns the server's address as a browser on this machine reaches it. If the server listens on all addresses, it
// is localhost.
func (s *Server) base() string {
	address, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || address.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(s.listener.Addr().String())
		return "http://localhost:" + port
	}
	return "http://" + address.String()
}

// Link returns the address of a role's page, for the person who plays the role. If the role needs a token, it follows
// the #, which browsers do not send. A chosen token is not included: the user knows it, and the page asks for it.
func (s *Server) Link(role drill.Role) string {
	link := s.base() + "/" + string(role) + "/"
	if token, needed := s.guard.tokens[role]; needed && !s.guard.given[role] {
		link += "#" + token
	}
	return link
}

// HealCommand returns a command line with which a role lifts all faults from any terminal, even if the browsers are
// gone. It has the form key of the role, which works on that role's page only. A generated token is included if it may
// be revealed; of any other, the command says where to put it.
func (s *Server) HealCommand(role drill.Role, reveal bool) string {
	command := "curl -sS -X POST -H '" + formHeader + ": " + s.guard.keys[role] + "'"
	if token, needed := s.guard.tokens[role]; needed {
		if s.guard.given[role] || !reveal {
			token = "THE-" + strings.ToUpper(string(role)) + "S-TOKEN"
		}
		command += " -H 'Authorization: Bearer " + token + "'"
	}
	return command + " " + s.base() + "/" + string(role) + "/do/" + drill.ActionHealAll
}

// Serve serves the session until ctx ends. Then it sends every browser the last state and answers pending requests. It
// returns when everything that it started has ended.
func (s *Server) Serve(ctx context.Context, session Session) error {
	handler := s.routes(session)
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: requestLimit, ReadTimeout: requestLimit, WriteTimeout: requestLimit,
		IdleTimeout: time.Minute, MaxHeaderBytes: headerLimit, ErrorLog: s.log, ConnContext: narrow,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		publisher := &publisher{session: session, told: map[drill.Role]int{}}
		every(ctx, frameEvery, func() { s.publish(publisher) })
		for _, channel := range s.channels {
			channel.close()
		}
		closing, done := context.WithTimeout(context.Background(), closeLimit)
		defer done()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(s.listener)
	cancel()
	group.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s at %s: %w", s.what, s.base(), err)
	}
	return nil
}

// narrow bounds the kernel's buffer for a browser that does not read. Without it, each would take megabytes.
func narrow(ctx context.Context, connection net.Conn) context.Context {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	return ctx
}

// routes are all routes of the server. The routes of a role are below its path, so that its cookie is sent nowhere
// else.
func (s *Server) routes(session Session) http.Handler {
	mux := http.NewServeMux()
	(&toxiproxyAPI{session: session, guard: s.guard, asked: map[string]toxiproxy.Toxic{}}).handle(mux)
	if !s.links {
		s.pages(mux, session)
	}
	return s.guard.Handler(mux, func(what any) { s.log.Printf("a request failed: %v", what) })
}

// pages adds the routes of the roles' pages.
func (s *Server) pages(mux *http.ServeMux, session Session) {
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /assets/{name}", s.asset)
	mux.HandleFunc("GET /favicon.ico", s.favicon)
	for _, role := range roles() {
		at := "/" + string(role) + "/"
		mux.Handle("GET "+at+"{$}", s.page(role, session))
		mux.Handle("POST "+at+"login", s.login(role))
		mux.Handle("GET "+at+"events", s.only(role, s.events(role, session)))
		mux.Handle("GET "+at+"catalogue", s.only(role, s.catalogue(role, session)))
		mux.Handle("GET "+at+"files/{name}", s.only(role, s.file(role, session)))
		mux.Handle("POST "+at+"do/{action}", s.only(role, s.act(role, session)))
	}
}

// only admits requests that present the role's token, where one is needed.
func (s *Server) only(role drill.Role, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.guard.admits(role, r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "this page needs its token: open the address that dlqbench drill has printed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}

func (s *Server) events(role drill.Role, session Watched) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			http.Error(w, "this stream is for the drill's own page", http.StatusForbidden)
			return
		}
		leave := session.Attend()
		defer leave()
		s.channels[role].stream(w, r, s.id)
	}
}

func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	role := drill.RoleInjector
	if s.apart {
		role = drill.RoleResponder
	}
	http.Redirect(w, r, (&url.URL{Path: "/" + string(role) + "/"}).String(), http.StatusSeeOther)
}
