package engine

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	tclog "github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestNoPermission(t *testing.T) {
	denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)}
	for _, err := range []error{denied,
		errors.New("permission denied while trying to connect to the docker API at unix:///var/run/docker.sock")} {
		err := noEngine("unix:///var/run/docker.sock", err)
		want := "no container engine may be used at unix:///var/run/docker.sock, as its socket denies permission: add this " +
			"user to the group of the socket (usually docker), or do without containers: --cluster process or embedded, " +
			"subjects of kind process"
		if err.Error() != want {
			t.Errorf("it says: %v", err)
		}
	}
}

// Ports are published on the loopback of the engine's machine, which must be this one.
func TestLocalEngine(t *testing.T) {
	for host, want := range map[string]bool{
		"unix:///var/run/docker.sock": true, "npipe:////./pipe/docker_engine": true, "tcp://localhost:2375": true,
		"tcp://127.0.0.1:2375": true, "tcp://[::1]:2375": true,
		"tcp://192.0.2.1:2375": false, "ssh://user@example.org": false, "tcp://docker:2376": false,
	} {
		err := local(host)
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
		if err != nil && (!errors.Is(err, ErrNoEngine) || strings.Contains(err.Error(), "user@")) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// The environment that subjects inherit is unchanged, and no message appears on the terminal.
func TestSettingsOfTestcontainers(t *testing.T) {
	for _, before := range []string{"", "false", "true"} {
		t.Setenv(reaperVariable, before)
		if before == "" {
			os.Unsetenv(reaperVariable)
		}
		must.Do(t, withoutReaper())
		if after, there := os.LookupEnv(reaperVariable); after != before || there != (before != "") {
			t.Errorf("%s was %q and is %q", reaperVariable, before, after)
		}
	}
	silence()
	if _, is := tclog.Default().(Quiet); !is {
		t.Errorf("testcontainers writes to %T", tclog.Default())
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
