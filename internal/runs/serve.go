package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dlqbench/dlqbench/internal/webguard"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// bodyLimit is the maximum size of a request's body, headerLimit that of its headers, in bytes.
	bodyLimit, headerLimit = 1 << 10, 16 << 10
	// requestLimit is the time that a browser may take to send a request or to receive an answer.
	requestLimit = 30 * time.Second
	// closeLimit is the time that the shutdown waits for pending answers.
	closeLimit = 3 * time.Second
)

const (
	// pagePolicy is for the pages made here, which bring a policy of their own that names their scripts.
	pagePolicy = "frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
	// reportPolicy is for stored reports. They get a separate origin, from which the other runs cannot be reached.
	reportPolicy = "sandbox allow-scripts allow-popups; frame-ancestors 'none'"
)

// Server serves the page of all runs in a folder.
type Server struct {
	listener net.Listener
	root     string
}

// Listen opens an address on the loopback interface, host:port. Port 0 takes any free port. Other addresses are
// refused, because the page needs no token. Either Serve or Close must be called.
func Listen(address, root string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the page of the runs on %s: %w (port 0 takes any free one)", address, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = listener.Close()
		return nil, fmt.Errorf("listening for the page of the runs on %s: whoever reaches it reads all reports, so it is "+
			"served on this machine only: choose an address such as 127.0.0.1:0", address)
	}
	return &Server{listener, root}, nil
}

// Link returns the address of the page.
func (s *Server) Link() string { return "http://" + s.listener.Addr().String() + "/" }

// Serve serves the page until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: requestLimit, ReadTimeout: requestLimit,
		WriteTimeout: requestLimit, IdleTimeout: time.Minute, MaxHeaderBytes: headerLimit}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		closing, done := context.WithTimeout(context.Background(), closeLimit)
		defer done()
		if server.Shutdown(closing) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(s.listener)
	if !stop() {
		<-ended
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page of the runs at %s: %w", s.Link(), err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /report/{name}/{$}", s.report)
	mux.HandleFunc("GET /compare", s.compare)
	guard := webguard.Guard{Loopback: true, Policy: pagePolicy, Body: bodyLimit,
		Stranger: "this name does not lead to the runs: use the address that dlqbench runs has printed",
		Failed:   "the page failed; the runs are unchanged"}
	return guard.Handler(mux, func(any) {})
}

// page lists the runs anew for each request, so that a reload shows those that have ended meanwhile.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	runs, err := List(s.root, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.write(w, func(out io.Writer) error { return reports.RunsHTML(out, runs, s.root) })
}

// report serves the report of a run. Only the names of directories in the folder are names of runs.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	data, err := s.file(r.PathValue("name"), reports.HTMLFile)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Security-Policy", reportPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(data)
}

// file reads a file of a run, and nothing outside the folder of the runs.
func (s *Server) file(name, file string) ([]byte, error) {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the runs: %w", err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	data, err := root.ReadFile(filepath.Join(name, file))
	if err != nil {
		return nil, fmt.Errorf("there is no %s of a run %q here: judge it with dlqbench check", file, name)
	}
	return data, nil
}

// compare serves the comparison of two runs.
func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	var sides [2][]reports.CompareRun
	for i, side := range []string{"before", "after"} {
		name := r.FormValue(side)
		data, err := s.file(name, reports.VerdictFile)
		if err == nil {
			sides[i], err = reports.ReadCompared(data, name)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
	}
	comparison, err := reports.Compare(sides[0], sides[1], false)
	if err != nil {
		http.Error(w, err.Error()+"\n\nGo back and choose two runs of one scenario with the same load.", http.StatusConflict)
		return
	}
	s.write(w, func(out io.Writer) error { return reports.CompareHTML(out, comparison) })
}

// write answers with a page, or with the error of rendering it.
func (s *Server) write(w http.ResponseWriter, render func(io.Writer) error) {
	var page bytes.Buffer
	if err := render(&page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}
