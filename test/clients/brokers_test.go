package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/cluster/process"
)

// patience bounds every wait for brokers and clients; the machine may be busy.
const patience = 90 * time.Second

// kafka is an installed Kafka and a JDK to run clients with.
type kafka struct{ *install.Installation }

// needKafka skips the test unless it is asked for and can be run, and says what is missing.
func needKafka(t *testing.T) kafka {
	t.Helper()
	if os.Getenv("DLQBENCH_KAFKA_TESTS") != "1" {
		t.Skip("tests with Apache Kafka run with DLQBENCH_KAFKA_TESTS=1")
	}
	installed, err := install.Open(os.Getenv("DLQBENCH_KAFKA_VERSION"))
	if err != nil {
		t.Skipf("SKIPPED: there is no Kafka to test with: %v", err)
	}
	if !installed.Version.AtLeast(4, 1) {
		t.Skipf("SKIPPED: the Kafka to test with is %s; its clients know share groups from 4.1 on", installed.Version)
	}
	if _, err := install.FindJava(t.Context(), installed.Version.MinJava()); err != nil {
		t.Skipf("SKIPPED: there is no Java to test with: %v", err)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip(
			"SKIPPED: there is no javac on the PATH; the brokers' metrics reporter and the Java client are compiled with it")
	}
	return kafka{installed}
}

// compile compiles a Java source of testdata against Kafka's jars and returns the folder with the classes.
func (k kafka) compile(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	command := exec.Command("javac", "-nowarn", "-cp", k.ClassPath(), "-d", folder, filepath.Join("testdata", source))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("compiling %s: %v\n%s", source, err, output)
	}
	return folder
}

// cluster is three brokers of Apache Kafka on loopback. Clients have a listener of their own, so that its connections
// are theirs alone.
type cluster struct {
	kafka
	running   *process.Kafka
	telemetry string // the folder in which the brokers keep what clients push to them
}

// nodes is the number of brokers.
const nodes = 3

// startCluster starts the brokers with a reporter that makes them ask clients for their metrics.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{kafka: needKafka(t), telemetry: t.TempDir()}
	preparing, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := process.Prepare(preparing, c.Installation, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	// What was prepared for the jars serves with something behind them, too.
	with := *c.Installation
	with.Jars = append(slices.Clone(with.Jars), c.compile(t, "Telemetry.java"))
	running, err := process.Start(within(t), process.Options{
		Brokers: nodes, Dir: filepath.Join(t.TempDir(), "cluster"), Kafka: &with, Log: zerolog.Nop(),
		Settings: map[string]string{"metric.reporters": "Telemetry", "telemetry.dir": c.telemetry},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.running = running
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ports are those at which clients reach the brokers.
func (c *cluster) ports(t *testing.T) map[int]bool {
	t.Helper()
	found := map[int]bool{}
	for _, b := range c.running.Brokers() {
		_, text, _ := strings.Cut(b.Address, ":")
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("the address of broker %d: %v", b.Number, err)
		}
		found[port] = true
	}
	return found
}

// tail keeps the last bytes that a process wrote.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (l *tail) Write(p []byte) (int, error) {
	const most = 32 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, p...)
	if len(l.last) > most {
		l.last = l.last[len(l.last)-most:]
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
