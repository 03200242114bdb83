package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// ErrNoEngine means that no container engine of this machine could be used. The error around it gives the reason and
// says what to do.
var ErrNoEngine = errors.New("no container engine")

// engineLimit bounds how long an engine may take to give its first answer.
const engineLimit = 1500 * time.Millisecond

// Connect finds the engine as testcontainers does (DOCKER_HOST, the context that the docker command uses, the usual
// sockets), and checks that it answers and runs on this machine. If there is none, the error is ErrNoEngine, within
// two seconds.
//
// Two things differ. If DOCKER_HOST names an engine that does not answer, testcontainers silently uses another one;
// that would start brokers where the user has not asked for them. And testcontainers starts its own container, Ryuk,
// which removes remains. Its image may be unavailable, and Sweep does the same.
func Connect(ctx context.Context) (*testcontainers.DockerClient, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	silence()
	if err := withoutReaper(); err != nil {
		return nil, err
	}
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		if err := answers(ctx, host); err != nil {
			return nil, noEngine(host, err)
		}
	}
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, noEngine("", err)
	}
	if err := local(engine.DaemonHost()); err != nil {
		return nil, err
	}
	// If that query fails, testcontainers falls back to an engine that it has not queried.
	if _, err := engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, noEngine(engine.DaemonHost(), err)
	}
	return engine, nil
}

// Quiet is a logger for testcontainers that writes nothing.
type Quiet struct{}

// Printf implements log.Logger.
func (Quiet) Printf(string, ...any) {}

// silence keeps testcontainers from writing to the terminal of a run; it prints a message for every engine.
func silence() {
	if _, done := tclog.Default().(Quiet); !done {
		tclog.SetDefault(Quiet{})
	}
}

// reaperVariable is read by testcontainers, once.
const reaperVariable = "TESTCONTAINERS_RYUK_DISABLED"

// withoutReaper makes testcontainers read its configuration with its reaper turned off. It then restores the
// environment, which subjects inherit.
func withoutReaper() error {
	before, had := os.LookupEnv(reaperVariable)
	if before == "true" {
		testcontainers.ReadConfig()
		return nil
	}
	if err := os.Setenv(reaperVariable, "true"); err != nil {
		return fmt.Errorf("turning testcontainers' reaper off: %w", err)
	}
	off := testcontainers.ReadConfig().Config.RyukDisabled
	err := os.Unsetenv(reaperVariable)
	if had {
		err = os.Setenv(reaperVariable, before)
	}
	if err != nil {
		return fmt.Errorf("restoring %s: %w", reaperVariable, err)
	}
	if !off {
		return fmt.Errorf("turning testcontainers' reaper off: it was configured before; set %s=true", reaperVariable)
	}
	return nil
}

// answers checks that an engine answers.
func answers(ctx context.Context, host string) error {
	engine, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	_, err = engine.Ping(ctx, client.PingOptions{})
	return err
}

// noEngine describes the problem and the remedy in one sentence.
func noEngine(host string, err error) error {
	where := "on this machine"
	if host != "" {
		where = "at " + withoutUser(host)
	}
	if errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "permission denied") {
		return fmt.Errorf("%w may be used %s, as its socket denies permission: add this user to the group of the socket "+
			"(usually docker), or do without containers: --cluster process or embedded, subjects of kind process",
			ErrNoEngine, where)
	}
	return fmt.Errorf("%w answers %s: install or start Docker (or set DOCKER_HOST to an engine that runs), or do "+
		"without containers: --cluster process or embedded, subjects of kind process", ErrNoEngine, where)
}

// withoutUser removes the user information from a URL.
func withoutUser(host string) string {
	if parsed, err := url.Parse(host); err == nil && parsed.User != nil {
		parsed.User = nil
		return parsed.String()
	}
	return host
}

// local refuses engines of other machines: brokers are published on the loopback of the engine's machine, where no
// other machine reaches them, and subjects reach their taps on it.
func local(host string) error {
	parsed, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("reading the engine's address: %w", err)
	}
	name := parsed.Hostname()
	ip := net.ParseIP(name)
	switch {
	case parsed.Scheme == "unix", parsed.Scheme == "npipe", name == "localhost", ip != nil && ip.IsLoopback():
		return nil
	}
	return fmt.Errorf("%w of this machine is configured, %s is another's, whose loopback ports can't be reached from "+
		"here: unset DOCKER_HOST or the docker context, or do without containers: --cluster process or embedded, subjects "+
		"of kind process",
		ErrNoEngine, withoutUser(host))
}
