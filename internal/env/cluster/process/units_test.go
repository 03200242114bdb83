package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// layout returns the settings of all nodes of a cluster, as text.
func layout(brokers int, version install.Version) string {
	c := &config{brokers: brokers, dir: "/kafka", version: version, nodes: makeNodes(brokers, "/kafka")}
	var all strings.Builder
	for i, n := range c.nodes {
		n.clients, n.internal, n.quorum = 21000+i, 22000+i, 23000+i
		fmt.Fprintf(&all, "# %s\n%s\n", n.name(), properties(n.settings(c)))
	}
	return filepath.ToSlash(all.String())
}

func TestSettings(t *testing.T) {
	for name, text := range map[string]string{
		"one-4.1": layout(1, install.Version{Major: 4, Minor: 1}), "two-4.0": layout(2, install.Version{Major: 4, Minor: 0}),
		"three-3.9": layout(3, install.Version{Major: 3, Minor: 9}),
	} {
		golden.Check(t, filepath.Join("testdata", name+".properties"), text)
	}
}

// storageTool formats as the versions do: up to 4.3 into a separate file, from 4.4 on as the first snapshot of the
// metadata.
const storageTool = `#!/bin/sh
for settings; do :; done # the last argument
dir=$(sed -n 's/^log.dirs=//p' "$settings")
/bin/mkdir -p "$dir/$(dirname "$WRITES")" && echo meta >"$dir/meta.properties" || exit 1
[ -z "$WRITES" ] || echo features >"$dir/$WRITES"
`

// Every node begins with the files that formatting wrote, wherever these are, and with the cluster's own
// meta.properties.
func TestFormatted(t *testing.T) {
	java := filepath.Join(t.TempDir(), "java")
	must.Do(t, os.WriteFile(java, []byte(storageTool), 0o755))
	for _, file := range []string{"bootstrap.checkpoint",
		"__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", ""} {
		t.Setenv("WRITES", file)
		c := &config{kafka: &install.Installation{}, java: install.Java{Command: java}, starter: direct{}, clusterID: "abc"}
		work, keep := t.TempDir(), filepath.Join(t.TempDir(), formattedDir)
		c.dir = work
		err := c.format(t.Context(), work, keep)
		if file == "" {
			if err == nil || !strings.Contains(err.Error(), "StorageTool wrote nothing but meta.properties") ||
				c.load(keep, "") {
				t.Errorf("nothing was written: %v", err)
			}
			continue
		}
		again := &config{java: c.java, brokers: 3, nodes: makeNodes(3, t.TempDir()), clusterID: "abc"}
		if err != nil || !again.load(keep, "") {
			t.Fatalf("%s: %v, and it is not there later", file, err)
		}
		for _, n := range again.nodes {
			must.Do(t, n.lay(again))
			got, err := os.ReadFile(filepath.Join(n.dir, dataDir, file))
			meta, _ := os.ReadFile(filepath.Join(n.dir, dataDir, metaFile))
			if string(got) != "features\n" || !strings.Contains(string(meta), "cluster.id=abc\n") {
				t.Errorf("%s has %q in %s (%v) and %q", n.name(), got, file, err, meta)
			}
		}
	}
}

// Any one broker may be missing: the remaining controllers are still the majority.
func TestNodes(t *testing.T) {
	for brokers := 1; brokers <= cluster.MaxBrokers; brokers++ {
		nodes := makeNodes(brokers, "dir")
		count, controllers, mixed := 0, 0, 0
		for i, n := range nodes {
			if n.number != int32(i+1) {
				t.Errorf("of %d brokers, node %d has number %d", brokers, i+1, n.number)
			}
			if n.broker {
				count++
			}
			if n.controller {
				controllers++
			}
			if n.broker && n.controller {
				mixed++
			}
		}
		if count != brokers || controllers%2 == 0 || brokers > 1 && controllers-1 <= controllers/2 ||
			mixed < min(brokers, controllers-1) {
			t.Errorf("%d brokers are %d nodes with %d brokers and %d controllers", brokers, len(nodes), count, controllers)
		}
	}
}

func TestProperties(t *testing.T) {
	if got := properties(map[string]string{"b": `C:\kafka`, "a": "1\n2"}); got != "a=1\\n2\nb=C:\\\\kafka\n" {
		t.Errorf("it is %q", got)
	}
}

// The error shows what a broker logged before it died, without the messages of its shutdown.
func TestDeath(t *testing.T) {
	for _, one := range []struct {
		log        string
		want, lack []string
		port       bool
	}{
		{"", []string{"broker 2 ended by itself (exit status 1); its last lines, from ", ":\n  (nothing)"}, nil, false},
		{"10:00:00.000 INFO up (A)\n10:00:00.001 INFO down (A)\n", []string{"INFO up", "INFO down"}, nil, false},
		{
			"10:00:00.000 ERROR it broke (A)\njava.lang.Error: why\n\tat a.b(c.java:1)\n\t... 3 more\n10:00:00.001 INFO " +
				"down (A)\n",
			[]string{"ERROR it broke (A)\n  java.lang.Error: why"}, []string{"\tat ", "... 3", "INFO down"}, false,
		},
		{
			"Caused by: org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:29092: Address " +
				"already in use.\n" + strings.Repeat("10:00:00.001 WARN down (A)\n", 40),
			[]string{"a port is in use: another program listens on 127.0.0.1:29092"}, nil, true,
		},
		{"java.net.BindException: Address already in use\n", []string{"another program listens on one of its ports"},
			nil, true},
		{strings.Repeat("10:00:00.001 WARN old (A)\n", 4000) + strings.Repeat("10:00:00.002 WARN new (A)\n", 12),
			[]string{"WARN new"}, []string{"old"}, false},
		// more than is read
		{strings.Repeat("10:00:00.002 INFO new (A)\n", 4000), []string{"INFO new (A)\n  10:00:00.002 INFO new (A)"}, nil,
			false},
	} {
		n := &node{number: 2, broker: true, log: filepath.Join(t.TempDir(), "log")}
		must.Do(t, os.WriteFile(n.log, []byte(one.log), 0o644))
		err := n.death(&process{err: errors.New("exit status 1")})
		if errors.Is(err, errPortInUse) != one.port {
			t.Errorf("a port is in use: %v, want %v: %v", !one.port, one.port, err)
		}
		for _, text := range one.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q lacks %q", err, text)
			}
		}
		for _, text := range one.lack {
			if strings.Contains(err.Error(), text) {
				t.Errorf("%q has %q", err, text)
			}
		}
	}
	if lines := lastLines(filepath.Join(t.TempDir(), "none")); len(lines) != 1 ||
		!strings.Contains(lines[0], "it can't be read") {
		t.Errorf("without a log: %v", lines)
	}
}

func TestCompare(t *testing.T) {
	p := func(topic string, partition, leader int32) admin.Partition {
		return admin.Partition{Topic: topic, Partition: partition, Leader: leader}
	}
	led := []admin.Partition{p("a", 0, 1), p("a", 1, 1), p("b", 0, 1), p("c", 0, 1)}
	moved, leaderless, still := compare(led, []admin.Partition{p("a", 0, 2), p("a", 1, 0), p("b", 0, 1), p("c", 1, 2),
		p("c", 0, 3)}, 1)
	if moved != 2 || leaderless != 1 || still != 1 {
		t.Errorf("%d moved, %d without a leader, %d still led", moved, leaderless, still)
	}
}

func TestPorts(t *testing.T) {
	free := must.Get(ports.Free(1))(t)
	listener := must.Get(net.Listen("tcp", address(free[0])))(t)
	if accepted, refused := accepts(free[0]); !accepted || refused {
		t.Error("a port that is listened on does not accept")
	}
	listener.Close()
	if accepted, refused := accepts(free[0]); accepted || !refused {
		t.Error("a port that nobody listens on does not refuse")
	}
}

func TestBadOptions(t *testing.T) {
	kafka := &install.Installation{Version: install.Version{Major: 4, Minor: 1}}
	for _, one := range []struct {
		options Options
		want    string
	}{
		{Options{Brokers: 0, Dir: "x", Kafka: kafka}, "0 brokers were asked for: 1 to 9 are possible"},
		{Options{Brokers: 10, Dir: "x", Kafka: kafka}, "10 brokers were asked for"},
		{Options{Brokers: 1, Kafka: kafka}, "no directory"},
		{Options{Brokers: 1, Dir: "x"}, "no Kafka to run"},
		{Options{Brokers: 1, Dir: "x, y", Kafka: kafka}, "has a comma in its path"},
	} {
		if _, err := Start(t.Context(), one.options); err == nil || !strings.HasPrefix(err.Error(), "starting Kafka as "+
			"processes: ") || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%+v: %v", one.options, err)
		}
	}
	t.Setenv("JAVA_HOME", t.TempDir())
	if _, err := Start(t.Context(), Options{Brokers: 1, Dir: t.TempDir(), Kafka: kafka, Log: zerolog.Nop()}); !errors.Is(
		err, install.ErrNoJava) {
		t.Errorf("without Java: %v", err)
	}
}

// The default starter's thread ends with its process. A command that cannot be started leaves no thread.
func TestDirectStarter(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 3")
	ended, err := direct{}.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	ended()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v", err)
	}
	if _, err := (direct{}).Start(exec.Command("/no/such/program")); err == nil {
		t.Error("what is not there was started")
	}
}
