package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
)

// Names below a node's folder.
const (
	dataDir      = "data"
	tmpDir       = "tmp"
	settingsFile = "server.properties"
	metaFile     = "meta.properties" // in dataDir
)

// config is what all nodes of a cluster have in common.
type config struct {
	brokers   int
	dir       string
	kafka     *install.Installation
	version   install.Version
	java      install.Java
	starter   Starter
	formatted map[string][]byte // files that formatting writes into every node's data folder, by their paths in it
	archive   string            // of class data, "" if there is none
	dump      string            // where to write such an archive, "" for nowhere
	clusterID string
	extra     map[string]string
	nodes     []*node
}

// voters returns controller.quorum.voters.
func (c *config) voters() string {
	var voters []string
	for _, node := range c.nodes {
		if node.controller {
			voters = append(voters, fmt.Sprintf("%d@%s", node.number, address(node.quorum)))
		}
	}
	return strings.Join(voters, ",")
}

// node is a broker, a controller, or both. Its ports and data stay the same for the lifetime of the cluster.
type node struct {
	number                    int32
	broker, controller        bool
	clients, internal, quorum int // ports
	dir, log                  string

	// process is nil when the node does not run.
	process *process
}

// process is one JVM.
type process struct {
	cmd *exec.Cmd
	// asked says that the end was requested.
	asked atomic.Bool
	// paused says that the process is paused; led is what the broker led at that time.
	paused bool
	led    []admin.Partition
	// done is closed when the process has ended; err says how.
	done chan struct{}
	err  error
}

// makeNodes returns the nodes of a cluster. A quorum must survive the loss of any one broker. So two brokers get a
// third node that is only a controller, and of four or more, not all are controllers.
func makeNodes(brokers int, dir string) []*node {
	controllers, all := brokers, brokers
	switch {
	case brokers == 2:
		controllers, all = 3, 3
	case brokers == 4:
		controllers = 3
	case brokers > 5:
		controllers = 5
	}
	var nodes []*node
	for i := range all {
		n := &node{number: int32(i + 1), broker: i < brokers, controller: i < controllers}
		name := fmt.Sprintf("broker-%d", n.number)
		if !n.broker {
			name = "controller"
		}
		n.dir, n.log = filepath.Join(dir, name), filepath.Join(dir, logsDir, name+".log")
		nodes = append(nodes, n)
	}
	return nodes
}

// name is the node's name in messages.
func (n *node) name() string {
	if !n.broker {
		return "the controller"
	}
	return fmt.Sprintf("broker %d", n.number)
}

// lay writes the node's folder, formatted like StorageTool does.
func (n *node) lay(c *config) error {
	data := filepath.Join(n.dir, dataDir)
	for _, dir := range []string{data, filepath.Join(n.dir, tmpDir), filepath.Dir(n.log)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	settings := n.settings(c)
	maps.Copy(settings, c.extra)
	files := map[string][]byte{
		filepath.Join(n.dir, settingsFile): []byte(properties(settings)),
		filepath.Join(data, metaFile): []byte(properties(map[string]string{
			"version": "1", "cluster.id": c.clusterID, "node.id": fmt.Sprint(n.number), "directory.id": cluster.NewID(),
		})),
	}
	for path, content := range c.formatted {
		files[filepath.Join(data, filepath.FromSlash(path))] = content
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// arguments returns the node's arguments for java. The heap is small and the compiler fast, because a run lasts
// seconds.
func (n *node) arguments(c *config) []string {
	option, _, _ := logging(c.version)
	args := []string{
		"-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
		"-XX:ErrorFile=" + filepath.Join(logsDir, filepath.Base(n.log)+".crash"),
		// Libraries that Kafka unpacks would remain there when it is killed.
		"-Djava.io.tmpdir=" + filepath.Join(n.dir, tmpDir), option,
	}
	if c.dump != "" {
		args = append(args, "-XX:ArchiveClassesAtExit="+c.dump)
	} else if c.archive != "" {
		args = append(args, "-XX:SharedArchiveFile="+c.archive)
	}
	return append(args, "-cp", c.kafka.ClassPath(), "kafka.Kafka", filepath.Join(n.dir, settingsFile))
}

// startJava starts the node's process in the cluster's folder.
func (n *node) startJava(c *config, args []string) error {
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening its log: %w", err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(c.java.Command, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.dir, out, out
	ended, err := c.starter.Start(p.cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.java.Command, err)
	}
	n.process = p
	go func() { // ends with the process, for which kill and Close wait
		p.err = p.cmd.Wait()
		ended()
		close(p.done)
	}()
	return nil
}

// alive reports whether the node has a process.
func (n *node) alive() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(signal syscall.Signal) error {
	err := p.cmd.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill ends the process and waits for that.
func (p *process) kill(ctx context.Context) error {
	if err := p.signalKill(); err != nil {
		return err
	}
	return p.wait(ctx, killLimit)
}

func (p *process) signalKill() error {
	p.asked.Store(true)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing process %d: %w", p.cmd.Process.Pid, err)
	}
	return nil
}

// wait waits for the process's end.
func (p *process) wait(ctx context.Context, limit time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(limit):
		return fmt.Errorf("process %d has not ended after %s", p.cmd.Process.Pid, limit)
	}
}

// errPortInUse says that another program uses a node's port.
var errPortInUse = errors.New("a port is in use")

// Kafka: "Socket server failed to bind to 127.0.0.1:29092: Address already in use."
var bindForm = regexp.MustCompile(`failed to bind to ([0-9.]+:\d+)`)

// death explains why a process ended without being stopped: with its last lines, or the last warnings and errors of
// its log if there are any.
func (n *node) death(p *process) error {
	lines := lastLines(n.log)
	all := strings.Join(lines, "\n")
	said := strings.Join(telling(lines), "\n  ")
	if found := bindForm.FindStringSubmatch(all); found != nil || strings.Contains(all, "java.net.BindException") {
		port := "one of its ports"
		if found != nil {
			port = found[1]
		}
		return fmt.Errorf("%s: %w: another program listens on %s; its last lines:\n  %s", n.name(), errPortInUse, port, said)
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended by itself (%s); its last lines, from %s:\n  %s", n.name(), how, n.log, said)
}

const (
	lastLinesShown = 12
	lastBytesRead  = 32 << 10
)

// lastLines returns the end of a log, without stack traces, which only help developers of Kafka.
func lastLines(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return []string{fmt.Sprintf("(it can't be read: %v)", err)}
	}
	defer file.Close()
	var whole bool
	if _, err := file.Seek(-lastBytesRead, io.SeekEnd); err != nil {
		whole = true // the file is shorter than that
	}
	data, _ := io.ReadAll(file)
	if _, after, found := strings.Cut(string(data), "\n"); found && !whole {
		data = []byte(after) // the first line is incomplete
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(data)), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ") || strings.HasPrefix(line, "\t... ")
	})
	if len(lines) == 1 && lines[0] == "" {
		return []string{"(nothing)"}
	}
	return lines
}

var infoForm = regexp.MustCompile(`^[0-9:.]+ (INFO|DEBUG) `)

// telling returns the last lines above level INFO, or the last lines if there are none. A broker that gives up logs its
// shutdown after the reason.
func telling(lines []string) []string {
	told := slices.DeleteFunc(slices.Clone(lines), infoForm.MatchString)
	if len(told) == 0 {
		told = lines
	}
	return told[max(0, len(told)-lastLinesShown):]
}
