package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cpuguy83/dockercfg"
	"github.com/moby/moby/client"
)

// ErrNoEngine means that no container engine of this machine could be used. The error around it gives the reason and
// says what to do.
var ErrNoEngine = errors.New("no container engine")

// engineLimit bounds how long an engine may take to give its first answer.
const engineLimit = 1500 * time.Millisecond

// Connect finds the engine, and checks that it answers and runs on this machine: the one that DOCKER_HOST or the docker
// command's context names, and no other in its place; else the first that answers at one of the usual sockets. If there
// is none, the error is ErrNoEngine, within two seconds.
func Connect(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	host := os.Getenv(client.EnvOverrideHost)
	if host == "" {
		var err error
		if host, err = contextHost(); err != nil {
			return nil, err
		}
	}
	if host != "" {
		engine, err := answering(ctx, host)
		if err != nil {
			return nil, noEngine(host, err)
		}
		if err := local(engine.DaemonHost()); err != nil {
			return nil, errors.Join(err, engine.Close())
		}
		return engine, nil
	}
	err := fs.ErrNotExist
	for _, socket := range sockets() {
		engine, refused := answering(ctx, "unix://"+socket)
		if refused == nil {
			return engine, nil
		}
		err = errors.Join(err, refused)
	}
	return nil, noEngine("", err)
}

// answering returns a client of the engine if that answers. DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say how to reach it
// with TLS.
func answering(ctx context.Context, host string) (*client.Client, error) {
	engine, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return nil, err
	}
	if _, err = engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// sockets are those that engines of this machine use and that exist: the system's, a rootless engine's, Docker
// Desktop's.
func sockets() []string {
	all := []string{"/var/run/docker.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		all = append(all, filepath.Join(dir, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(home, ".docker/run/docker.sock"), filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	all = append(all, fmt.Sprintf("/run/user/%d/docker.sock", os.Getuid()))
	return slices.DeleteFunc(all, func(path string) bool { _, err := os.Stat(path); return err != nil })
}

// contextHost is the address of the engine in the context that the docker command uses; "" if it uses the default one.
// The command keeps a context below the SHA-256 of its name.
func contextHost() (string, error) {
	file, noHome := dockercfg.ConfigPath()
	if noHome != nil {
		return "", nil
	}
	name := os.Getenv("DOCKER_CONTEXT")
	if name == "" {
		var config dockercfg.Config
		if err := dockercfg.FromFile(file, &config); err == nil {
			name = config.CurrentContext
		}
	}
	if name == "" || name == "default" {
		return "", nil
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "contexts", "meta",
		fmt.Sprintf("%x", sha256.Sum256([]byte(name))), "meta.json"))
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil {
		return "", fmt.Errorf("%w: reading the docker context %s: %w; choose another with docker context use", ErrNoEngine,
			name, err)
	}
	return meta.Endpoints["docker"].Host, nil
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
