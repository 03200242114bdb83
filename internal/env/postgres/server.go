// Package postgres owns private PostgreSQL servers. Each has a temporary folder and its own port of 127.0.0.1, and
// is removed when it is closed. The package knows nothing of the content of the databases.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
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
	dir, programs string
	port          int
	settings      []string
	as            *procgroup.User
	running       *running
}

// running is the process of a started server.
type running struct {
	cmd    *exec.Cmd
	over   chan struct{}
	waited error
}

// Start creates and starts a new server, with these settings of postgresql.conf in addition to its own; nil is
// permitted. The error is ErrAbsent if PostgreSQL is not installed.
func Start(ctx context.Context, settings map[string]string) (*Server, error) {
	if err := procgroup.Supported(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	programs, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dlqbench-postgres-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for PostgreSQL: %w", err)
	}
	s := &Server{dir: dir, programs: programs}
	for name, value := range settings {
		s.settings = append(s.settings, "-c", name+"="+value)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// find returns the folder with initdb and postgres: the one in PATH, or the newest in the packages' usual place.
func find() (string, error) {
	var folders []string
	if found, err := exec.LookPath("postgres"); err == nil {
		// If postgres is a link, its target's folder contains the matching programs.
		if target, err := filepath.EvalSymlinks(found); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin"} {
		packaged, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.SortFunc(packaged, func(a, b string) int { return versionOf(b) - versionOf(a) })
		folders = append(folders, packaged...)
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf(
		"%w: neither PATH nor /usr/lib/postgresql has initdb and postgres (Debian: apt-get install postgresql)", ErrAbsent)
}

// versionOf returns the number in a folder's name, 0 if there is none.
func versionOf(folder string) int {
	digits := strings.FieldsFunc(folder, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.Atoi(digits[len(digits)-1])
	if err != nil {
		return 0
	}
	return n
}

// prepare creates the files of a new cluster.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.unprivileged(); err != nil {
		return err
	}
	free, err := ports.Free(1)
	if err != nil {
		return err
	}
	s.port = free[0] // kept across restarts
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, "initdb"), "-D", s.data(), "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = s.dir, procgroup.Child(syscall.SIGQUIT, s.as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a PostgreSQL cluster: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// unprivileged chooses the user that runs the server. PostgreSQL refuses to run as root; in that case it is the user
// postgres, or nobody.
func (s *Server) unprivileged() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		if err != nil {
			return fmt.Errorf("reading the user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		if err != nil {
			return fmt.Errorf("reading the user %s: %w", name, err)
		}
		s.as = &procgroup.User{UID: uint32(uid), GID: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			return fmt.Errorf("giving PostgreSQL its folder: %w", err)
		}
		return nil
	}
	return fmt.Errorf("%w: it refuses to run as root, and there is neither a user postgres nor nobody", ErrAbsent)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

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
	if s.running != nil {
		return errors.New("starting PostgreSQL: it runs already")
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	defer log.Close()
	arguments := append([]string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c",
		"unix_socket_directories="}, s.settings...)
	cmd := exec.Command(filepath.Join(s.programs, "postgres"), arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, procgroup.Child(syscall.SIGQUIT, s.as)
	process := &running{cmd: cmd, over: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(process.over)
		// Linux ends the server together with the thread that started it, so this thread waits for the server.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			process.waited = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	s.running = process
	return s.awaitAnswer(ctx)
}

func (s *Server) log() string { return filepath.Join(s.dir, "postgres.log") }

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for PostgreSQL to answer: %w: %w; its log ends with: %s", ctx.Err(), err, s.tail())
		case <-s.running.over:
			return fmt.Errorf("PostgreSQL ended (%w); its log ends with: %s", s.running.waited, s.tail())
		case <-time.After(pollEvery):
		}
	}
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-1000):]))
}

// Stop ends the server in order, regardless of its clients. Committed data is present when it is resumed.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash ends the server at once, as a crash would. It must recover when it is resumed.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(by syscall.Signal) error {
	process := s.running
	if process == nil {
		return nil
	}
	s.running = nil
	if err := process.cmd.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	select {
	case <-process.over:
		return nil
	case <-time.After(stopLimit):
	}
	err := process.cmd.Process.Kill()
	<-process.over
	return errors.Join(fmt.Errorf("stopping PostgreSQL: it didn't end within %s and was killed", stopLimit), err)
}

// Close ends the server and removes its folder.
func (s *Server) Close() error {
	return errors.Join(s.Crash(), os.RemoveAll(s.dir))
}
