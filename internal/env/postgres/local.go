package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// local runs the programs of the PostgreSQL that is installed here, with its files in a temporary folder.
type local struct {
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

// Start creates and starts a new server from the programs that are installed here, with these settings of
// postgresql.conf in addition to its own; nil is permitted. The error is ErrAbsent if PostgreSQL is not installed.
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
	l := &local{dir: dir, programs: programs, settings: arguments(settings)}
	if err := l.prepare(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return started(ctx, l)
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
func (l *local) prepare(ctx context.Context) error {
	if err := l.unprivileged(); err != nil {
		return err
	}
	free, err := ports.Free(1)
	if err != nil {
		return err
	}
	l.port = free[0] // kept across restarts
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(l.programs, "initdb"), "-D", l.data(), "-U", superuser, "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = l.dir, procgroup.Child(syscall.SIGQUIT, l.as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a PostgreSQL cluster: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// unprivileged chooses the user that runs the server. PostgreSQL refuses to run as root; in that case it is the user
// postgres, or nobody.
func (l *local) unprivileged() error {
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
		l.as = &procgroup.User{UID: uint32(uid), GID: uint32(gid)}
		if err := os.Chown(l.dir, int(uid), int(gid)); err != nil {
			return fmt.Errorf("giving PostgreSQL its folder: %w", err)
		}
		return nil
	}
	return fmt.Errorf("%w: it refuses to run as root, and there is neither a user postgres nor nobody", ErrAbsent)
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

// Start implements host.
func (l *local) Start(context.Context) (port int, err error) {
	log, err := os.OpenFile(l.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	arguments := append([]string{"-D", l.data(), "-p", strconv.Itoa(l.port), "-c", "listen_addresses=127.0.0.1", "-c",
		"unix_socket_directories="}, l.settings...)
	cmd := exec.Command(filepath.Join(l.programs, "postgres"), arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = l.dir, log, log, procgroup.Child(syscall.SIGQUIT, l.as)
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
		return 0, err
	}
	l.running = process
	return l.port, nil
}

func (l *local) log() string { return filepath.Join(l.dir, "postgres.log") }

// Ended implements host.
func (l *local) Ended(context.Context) (ended bool, log string) {
	text, err := os.ReadFile(l.log())
	if err != nil {
		text = []byte(err.Error())
	}
	log = string(bytes.TrimSpace(text[max(0, len(text)-1000):]))
	select {
	case <-l.running.over:
		return true, fmt.Sprintf("PostgreSQL ended (%v); its log ends with: %s", l.running.waited, log)
	default:
		return false, log
	}
}

// End implements host.
func (l *local) End(by syscall.Signal) error {
	process := l.running
	l.running = nil
	if err := process.cmd.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-process.over:
		return nil
	case <-time.After(stopLimit):
	}
	err := process.cmd.Process.Kill()
	<-process.over
	return errors.Join(fmt.Errorf("it didn't end within %s and was killed", stopLimit), err)
}

// Remove implements host.
func (l *local) Remove() error { return os.RemoveAll(l.dir) }
