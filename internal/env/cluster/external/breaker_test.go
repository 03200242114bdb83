package external

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// Kafka implements the injector's interface.
var _ broker.Brokers = (*Kafka)(nil)

func TestCanBreak(t *testing.T) {
	all := BrokerCommands{Kill: "a", Stop: "b", Start: "c", Pause: "d", Resume: "e"}
	for name, one := range map[string]struct {
		commands BrokerCommands
		action   string
		says     []string
	}{
		"stop": {all, "stop", nil}, "kill": {all, "kill", nil}, "restart": {all, "restart", nil},
		"pause": {all, "pause", nil},
		"nothing configured": {BrokerCommands{}, "kill",
			[]string{"to kill one", "dlqbench.broker.kill and dlqbench.broker.start", "{{id}}"}},
		"no way back":           {BrokerCommands{Pause: "x"}, "pause", []string{"dlqbench.broker.resume"}},
		"restart needs stop":    {BrokerCommands{Kill: "x", Start: "y"}, "restart", []string{"dlqbench.broker.stop"}},
		"leaders are not moved": {all, "move_leaders", []string{"move_leaders is not done"}},
		"nor coordinators":      {all, "move_coordinator", []string{"others use too"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Config{Commands: one.commands}.CanBreak(one.action)
			if one.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want(t, err, one.says...)
			if !errors.Is(err, ErrNotConfigured) {
				t.Errorf("%v is not of the kind", err)
			}
		})
	}
}

// gates are brokers' listeners that obey files, as a user's cluster would obey commands: "down-ID" makes a broker
// refuse connections, "still-ID" pauses it, "watched-ID" makes it write "asked-ID" when somebody connects.
type gates struct {
	net.Listener
	dir string
	id  int
}

func gated(dir string) kfake.Opt {
	ids := 0
	var mu sync.Mutex
	return kfake.ListenFn(func(network, address string) (net.Listener, error) {
		mu.Lock()
		defer mu.Unlock()
		listener, err := net.Listen(network, address)
		gate := gates{listener, dir, ids}
		ids++
		return gate, err
	})
}

func (g gates) is(state string) bool {
	_, err := os.Stat(filepath.Join(g.dir, fmt.Sprintf("%s-%d", state, g.id)))
	return err == nil
}

func (g gates) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err == nil {
		if g.is("down") {
			_ = conn.Close()
		}
		if g.is("watched") {
			err = os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("asked-%d", g.id)), nil, 0o600)
		}
		conn = gateConn{conn, g}
	}
	return conn, err
}

type gateConn struct {
	net.Conn
	gate gates
}

func (c gateConn) Write(p []byte) (int, error) {
	for c.gate.is("still") {
		time.Sleep(5 * time.Millisecond)
	}
	if c.gate.is("down") {
		return 0, c.Close()
	}
	return c.Conn.Write(p)
}

// until returns a context that ends when the file is there.
func until(t *testing.T, file string) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	t.Cleanup(cancel)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

func breakable(t *testing.T) (*Kafka, string) {
	t.Helper()
	dir := t.TempDir()
	theirs := start(t, 3, gated(dir))
	config := plainConfig(theirs)
	config.Commands = BrokerCommands{
		Kill: "touch " + dir + "/down-{{id}}; echo {{broker}} > " + dir + "/number", Stop: "touch " + dir + "/down-{{id}}",
		Start: "rm " + dir + "/down-{{id}}", Pause: "touch " + dir + "/still-{{id}}", Resume: "rm " + dir + "/still-{{id}}",
	}
	k := connect(t, config, Options{})
	must.Do(t, k.CreateTopics(within(t), []cluster.Topic{{Name: prefix + ".input", Partitions: 12},
		{Name: prefix + ".dlq", Partitions: 1, Broker: 1}}))
	// kfake draws the leaders, and may leave a broker without any.
	for partition := range int32(12) {
		must.Do(t, theirs.MoveTopicPartition(prefix+".input", partition, k.brokers[partition%3].ID))
	}
	return k, dir
}

// led returns the number of the run's partitions that a broker leads.
func led(t *testing.T, k *Kafka, number int32) (n int) {
	t.Helper()
	leaders := must.Get(k.leaders(within(t)))(t)
	for _, leader := range leaders {
		if leader == k.brokers[number-1].ID {
			n++
		}
	}
	return n
}

func TestKillAndStart(t *testing.T) {
	k, dir := breakable(t)
	mine := led(t, k, 2)
	if mine == 0 {
		t.Fatal("broker 2 leads nothing: the test proves nothing")
	}
	changed, err := k.KillBroker(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := changed[cluster.ChangeMoved] + changed[cluster.ChangeLeaderless]; got != mine {
		t.Errorf("changed %v, want %d leaders", changed, mine)
	}
	if number, err := os.ReadFile(filepath.Join(dir, "number")); strings.TrimSpace(string(number)) != "2" {
		t.Errorf("{{broker}} is %q, %v", number, err)
	}
	if k.answers(within(t), k.brokers[1], stepLimit) {
		t.Error("it still answers")
	}
	_, err = k.StopBroker(within(t), 2)
	want(t, err, "is it stopped or paused already?")
	must.Do(t, k.StartBroker(within(t), 2))
	if !k.answers(within(t), k.brokers[1], stepLimit) {
		t.Error("it does not answer")
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	k, _ := breakable(t)
	mine := led(t, k, 3)
	must.Do(t, k.PauseBroker(within(t), 3))
	if k.answers(within(t), k.brokers[2], stillLimit) {
		t.Error("it still answers")
	}
	changed := must.Get(k.ResumeBroker(within(t), 3))(t)
	if got := changed[cluster.ChangeMoved] + changed[cluster.ChangeLeaderless]; got != mine || mine == 0 {
		t.Errorf("changed %v, want %d leaders", changed, mine)
	}
}

// A command that fails, or has no effect, is not a fault.
func TestCommandsThatFail(t *testing.T) {
	t.Parallel()
	k, dir := breakable(t)
	k.config.Commands.Kill = "echo no such host >&2; exit 7"
	_, err := k.KillBroker(within(t), 1)
	want(t, err, "breaking broker 1 (kill)", "exit status 7", "no such host")
	// The time ends when the broker is asked after the command. A second from the beginning was not enough on a busy
	// machine: it ended while the broker was asked before the command, or while the command ran.
	k.config.Commands.Kill = "touch " + dir + "/watched-{{id}}"
	_, err = k.KillBroker(until(t, fmt.Sprintf("%s/asked-%d", dir, k.brokers[0].ID)), 1)
	want(t, err, "the command has run, but it still answers at "+k.brokers[0].Address)
	_, err = k.KillBroker(within(t), 9)
	want(t, err, "no broker 9")
	k.config.Commands.Kill = ""
	_, err = k.KillBroker(within(t), 1)
	want(t, err, "dlqbench.broker.kill")
}

// A request cut off at the end of the time does not show that the broker is down.
func TestWhatIsCutOffIsNotConfirmed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := new(Kafka).confirm(ctx, "it still answers", func(context.Context) bool {
		cancel()
		return true
	})
	want(t, err, "the command has run, but it still answers")
}

// A command that does not end is ended, with all the processes that it started.
func TestCommandThatHangs(t *testing.T) {
	t.Parallel()
	k, dir := breakable(t)
	// The time ends when the child runs, however long a busy machine takes to get there.
	k.config.Commands.Kill = fmt.Sprintf("sleep 61 & echo $! > %[1]s/new; mv %[1]s/new %[1]s/child; wait", dir)
	_, err := k.KillBroker(until(t, dir+"/child"), 1)
	want(t, err, "the command for kill failed")
	child := must.Get(os.ReadFile(filepath.Join(dir, "child")))(t)
	wait.Until(t, "the child of the command ends", func() bool { return gone(strings.TrimSpace(string(child))) })
}

// Commands get no credentials of dlqbench.
func TestCommandsGetNoCredentials(t *testing.T) {
	k, dir := breakable(t)
	t.Setenv(EnvPassword, "right")
	t.Setenv(EnvToken, "token")
	t.Setenv("KUBECONFIG", "kept")
	k.config.Commands.Start = "env > " + dir + "/env"
	must.Do(t, k.StartBroker(within(t), 1))
	text := must.Get(os.ReadFile(filepath.Join(dir, "env")))(t)
	if got := string(text); strings.Contains(got, EnvPassword) || strings.Contains(got, EnvToken) ||
		!strings.Contains(got, "KUBECONFIG=kept") {
		t.Errorf("the environment of a command:\n%s", got)
	}
}

// gone reports whether a process has ended (or waits for its parent to notice).
func gone(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestUpstreamWithoutTLS(t *testing.T) {
	k := connect(t, plainConfig(start(t, 1)), Options{})
	if got := k.UpstreamTLS(k.Brokers()[0]); got != (*tls.Config)(nil) {
		t.Errorf("TLS towards a plaintext cluster: %+v", got)
	}
}
