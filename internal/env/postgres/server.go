// Package postgres owns private PostgreSQL servers. Each has its own data and its own port of 127.0.0.1, and is removed
// when it is closed. It runs as a process if PostgreSQL is installed here, or in a container. The package knows nothing
// of the content of the databases.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrAbsent means that PostgreSQL is not installed here, or cannot be run.
var ErrAbsent = errors.New("no PostgreSQL here")

// The time limits for a server to start and to stop.
const (
	startLimit = 60 * time.Second
	stopLimit  = 30 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// superuser is the role that owns everything; it needs no password on 127.0.0.1.
const superuser = "dlqbench"

// Server is one PostgreSQL server.
type Server struct {
	host    host
	port    int
	running bool
}

// host runs the program of a server.
type host interface {
	// Start starts the program and returns its port of 127.0.0.1, which stays the same. It need not answer yet.
	Start(ctx context.Context) (port int, err error)
	// Ended returns whether the program has ended by itself, and the end of its log, with the reason if it has.
	Ended(ctx context.Context) (ended bool, log string)
	// End ends the program by a signal, and returns when it has ended.
	End(by syscall.Signal) error
	// Remove removes the data of a server that has ended.
	Remove() error
}

// started starts a server for the first time; what is there of it is removed if that fails.
func started(ctx context.Context, on host) (*Server, error) {
	s := &Server{host: on}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// arguments returns the settings as arguments of the program.
func arguments(settings map[string]string) (all []string) {
	for name, value := range settings {
		all = append(all, "-c", name+"="+value)
	}
	return all
}

// Address is the host and port of the server, also while it is stopped.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Address(), url.PathEscape(database))
}

// Create creates a new, empty database and returns its URL.
func (s *Server) Create(ctx context.Context, database string) (string, error) {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", fmt.Errorf("making the database %s: %w", database, err)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return "", fmt.Errorf("making the database %s: %w", database, err)
	}
	return s.URL(database), nil
}

// Resume starts a stopped server, and waits until it answers.
func (s *Server) Resume(ctx context.Context) error {
	if s.running {
		return errors.New("starting PostgreSQL: it runs already")
	}
	port, err := s.host.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	s.port, s.running = port, true
	return s.awaitAnswer(ctx)
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ended, log := s.host.Ended(ctx); ended {
			return errors.New(log)
		}
		select {
		case <-ctx.Done():
			_, log := s.host.Ended(context.WithoutCancel(ctx))
			return fmt.Errorf("waiting for PostgreSQL to answer: %w: %w; its log ends with: %s", ctx.Err(), err, log)
		case <-time.After(pollEvery):
		}
	}
}

// Stop ends the server in order, regardless of its clients. Committed data is present when it is resumed.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash ends the server at once, as a crash would. It must recover when it is resumed.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(by syscall.Signal) error {
	if !s.running {
		return nil
	}
	s.running = false
	if err := s.host.End(by); err != nil {
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	return nil
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	return errors.Join(s.Crash(), s.host.Remove())
}
