package docker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// An unusable engine is reported at once, in one sentence that says what to do.
func TestNoEngine(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close() // it accepts and never answers
	const advice = ": install or start Docker (or set DOCKER_HOST to an engine that runs), or do without containers: " +
		"--cluster process or embedded, subjects of kind process"
	missing, silent := "unix://"+filepath.Join(t.TempDir(), "none.sock"), "tcp://"+listener.Addr().String()
	for name, test := range map[string]struct{ host, where string }{
		"socket missing": {missing, missing},
		"port closed":    {"tcp://127.0.0.1:1", "tcp://127.0.0.1:1"},
		"silent":         {silent, silent},
		"a password":     {"tcp://somebody:secret@127.0.0.1:1", "tcp://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", test.host)
			begun := time.Now()
			_, err := Start(t.Context(), Options{Brokers: 1, RunID: "run", Log: zerolog.Nop()})
			if want := "starting Kafka in containers: no container engine answers at " + test.where + advice; !errors.Is(err,
				engine.ErrNoEngine) || err.Error() != want {
				t.Errorf("it says %v, want %s", err, want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("it says too much: %v", err)
			}
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			if _, err := engine.Sweep(t.Context(), "run"); !errors.Is(err, engine.ErrNoEngine) {
				t.Errorf("sweeping: %v", err)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, test := range []struct {
		options Options
		says    string
	}{
		{Options{Brokers: 0, RunID: "run"}, "0 brokers were asked for: 1 to 9 are possible"},
		{Options{Brokers: 10, RunID: "run"}, "10 brokers were asked for"},
		{Options{Brokers: 1}, `the run id "" is to name containers`},
		{Options{Brokers: 1, RunID: "a b"}, `the run id "a b" is to name containers`},
	} {
		if _, err := Start(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.options, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	for image, want := range map[string]string{
		"apache/kafka:4.4.0":                     "docker, apache/kafka:4.4.0, 3 brokers",
		"registry.example.org:5000/team/kafka:1": "docker, team/kafka:1, 3 brokers",
		"localhost/kafka:1":                      "docker, kafka:1, 3 brokers", "kafka": "docker, kafka, 3 brokers",
	} {
		k := &Kafka{options: Options{Image: image}, nodes: make([]*node, 3)}
		if got := k.Describe(); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// Clients' connections are distinguished from the broker's own, and from sockets that listen, are closing, or lead
// elsewhere.
func TestSocketTable(t *testing.T) {
	content := must.Get(os.ReadFile(filepath.Join("testdata", "tcp6")))(t)
	var table socketTable
	table.read(string(content))
	if !table.isBroker() || table.open != 3 || table.unread != 3 {
		t.Errorf("read %+v, want 3 open connections, and 3 with something unread", table)
	}
	var other socketTable
	other.read("  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0100007F:2384 " +
		"00000000:0000 0A 00000000:00000000\nnonsense\n 1: x y z\n 2: 0100007F:zz 0:0 01 0:0\n 3: 0100007F:2384 0:0 01 0:x\n")
	if other.isBroker() || other.open != 0 {
		t.Errorf("somebody who listens on one of the ports is taken for a broker: %+v", other)
	}
}

// A port that accepts connections does not belong to a broker that is down.
func TestRefuses(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := refuses(ctx, listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "still accepts "+
		"connections") {
		t.Errorf("a listener: %v", err)
	}
	listener.Close()
	if err := refuses(t.Context(), listener.Addr().String()); err != nil {
		t.Errorf("nobody: %v", err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
