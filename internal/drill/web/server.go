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

	"github.com/dlqbench/dlqbench/internal/drill"
)

const (
	// frameEvery is how often the browsers get a new picture.
	frameEvery = 500 * time.Millisecond
	// bodyLimit is the most that a request may send, in bytes; headerLimit the most of headers.
	bodyLimit, headerLimit = 64 << 10, 16 << 10
	// requestLimit is how long a browser may take to send a request or to take an answer; streams have writeLimit for
	// each frame.
	requestLimit = 15 * time.Second
	// sendBuffer is how much the kernel takes for a browser that is not reading, in bytes; a frame fits in.
	sendBuffer = 64 << 10
	// closeLimit is how long the end waits for answers that are on their way.
	closeLimit = 3 * time.Second
)

// Options say where a drill is shown and to whom.
type Options struct {
	// Address is host:port; port 0 takes any free one. Anything but a loopback address makes every visitor show a
	// token.
	Address string
	// Apart: there is a responder who must not see what the injector does, so the injector's page needs its token on
	// loopback, too, and the address without a path leads to the responder's page.
	Apart bool
	// Tokens are those that the user has chosen, by role (CheckTokens). They are asked for on loopback, too, and never
	// told. A role without one gets a token made for this drill, where it needs one.
	Tokens map[drill.Role]string
	// Log gets what goes wrong in the server itself; it never gets a token. nil: nobody does.
	Log io.Writer
}

// Server shows one drill.
type Server struct {
	listener net.Listener
	guard    *guard
	apart    bool
	log      *log.Logger
	// id tells browsers that come back whether this is still the drill that they knew.
	id       string
	channels map[drill.Role]*channel
}

// Listen takes the address. It is done before a drill begins, so that what is wrong with the address is told before
// anything is started. Either Serve or Close must be called.
func Listen(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", options.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listening for the drill's page: %s is taken, perhaps by another drill: end that one, or "+
			"choose another port (port 0 takes any free one)", options.Address)
	case err != nil:
		return nil, fmt.Errorf("listening for the drill's page on %s: %w", options.Address, err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		_ = listener.Close()
		return nil, fmt.Errorf("listening for the drill's page on %s: this is no TCP address", options.Address)
	}
	s := &Server{listener: listener, guard: newGuard(address, options.Apart, options.Tokens), apart: options.Apart,
		id: rand.Text(), channels: map[drill.Role]*channel{}}
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

// roles are those that have a page.
func roles() []drill.Role { return []drill.Role{drill.RoleInjector, drill.RoleResponder} }

// Close gives up the address of a server that was never served.
func (s *Server) Close() error { return s.listener.Close() }

// base returns the server's address as a browser on this machine reaches it; listening everywhere is told as localhost.
func (s *Server) base() string {
	address, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || address.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(s.listener.Addr().String())
		return "http://localhost:" + port
	}
	return "http://" + address.String()
}

// Link returns the address of a role's page to give to who plays it. Where the role needs a token it stands behind the
// #, which browsers keep to themselves; one that the user has chosen he knows, and the page asks for it.
func (s *Server) Link(role drill.Role) string {
	link := s.base() + "/" + string(role) + "/"
	if token, needed := s.guard.tokens[role]; needed && !s.guard.given[role] {
		link += "#" + token
	}
	return link
}

// HealCommand returns a command line that heals everything from any terminal, whatever became of the browsers. Where
// the roles are kept apart it is the responder's: who is on call may sit at that terminal, and must not learn the
// injector's token from it.
func (s *Server) HealCommand() string {
	role := drill.RoleInjector
	if s.apart {
		role = drill.RoleResponder
	}
	command := "curl -sS -X POST -H '" + formHeader + ": " + s.guard.keys[role] + "'"
	if token, needed := s.guard.tokens[role]; needed {
		if s.guard.given[role] {
			token = "THE-" + strings.ToUpper(string(role)) + "S-TOKEN"
		}
		command += " -H 'Authorization: Bearer " + token + "'"
	}
	return command + " " + s.base() + "/" + string(role) + "/do/" + drill.ActionHealAll
}

// Serve shows the session until ctx ends; then every browser is told the last state, and whatever was asked for in time
// is answered. It returns when everything that it started has ended.
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
		return fmt.Errorf("serving the drill's page at %s: %w", s.base(), err)
	}
	return nil
}

// narrow bounds what the kernel holds for a browser that does not read: otherwise it would be megabytes for each.
func narrow(ctx context.Context, connection net.Conn) context.Context {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	return ctx
}

// routes are all that can be asked for. What belongs to a role is below its path, so that its cookie goes nowhere else.
func (s *Server) routes(session Session) http.Handler {
	mux := http.NewServeMux()
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
	return s.guard.guarded(mux, func(what any) { s.log.Printf("a request failed: %v", what) })
}

// only lets those through who show the role's token, where one is needed.
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
		leave := session.Attend(role)
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
