// Package postgres owns private PostgreSQL servers: one in a temporary folder, on a port of 127.0.0.1 of its own,
// gone when it is closed. It knows nothing of what is kept in them.
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

// ErrAbsent says that PostgreSQL is not installed here, or can't be run.
var ErrAbsent = errors.New("no PostgreSQL here")

// How long a server may take to come up, and to go down.
const (
	startLimit = 60 * time.Second
	stopLimit  = 30 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// superuser is the role that owns everything; it needs no password on 127.0.0.1.
const superuser = "dlqbench"

// Server is one PostgreSQL.
type Server struct {
	dir, programs string
	port          int
	settings      []string
	as            *procgroup.User
	running       *running
}

// running is the process of a server that was started.
type running struct {
	cmd    *exec.Cmd
	over   chan struct{}
	waited error
}

// Start makes a new server with these settings of postgresql.conf besides its own; nil is fine. ErrAbsent where
// PostgreSQL isn't installed.
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

// find returns the folder with initdb and postgres: that of PATH, or the newest where packages put it.
func find() (string, error) {
	var folders []string
	if found, err := exec.LookPath("postgres"); err == nil {
		// Where postgres is a link, its folder has what belongs to it.
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

// versionOf is the number in a folder's name, 0 if there is none.
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

// prepare makes the files of a new cluster.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.unprivileged(); err != nil {
		return err
	}
	free, err := ports.Free(1)
	if err != nil {
		return err
	}
	s.port = free[0] // kept over restarts
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

// unprivileged chooses who runs the server: PostgreSQL refuses to be root, so there it is the user postgres, or nobody.
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

// Address is the host and port the server listens on, also while it is stopped.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Address(), url.PathEscape(database))
}

// Create makes a new, empty database and returns its URL.
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

// Resume starts a server that is stopped, and waits until it answers.
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
		// Linux ends the server with the thread that started it: this one waits for it.
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

// tail is the end of the server's log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-1000):]))
}

// Stop ends the server orderly, whoever is connected; what was committed is there when it is resumed.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash ends the server at once, as a crash would: it has to recover when it is resumed.
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
