package clients_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// watch looks again and again at the system's list of TCP connections and finds those of a client's process. One that
// leads to a broker's client port goes around the tap.
type watch struct {
	brokers map[int]bool
	client  int // its process id
	stop    chan struct{}
	ended   sync.WaitGroup

	mu      sync.Mutex
	escaped map[string]bool
	failed  error
	looks   int
	through int // the most connections of the client that led elsewhere at once: to the tap
}

// lookEvery is how often the list is read. A client keeps its connections for minutes.
const lookEvery = 20 * time.Millisecond

// startWatch begins to look; where there is no such list the test is skipped.
func startWatch(t *testing.T, brokers map[int]bool, client int) *watch {
	t.Helper()
	if _, err := connections(); err != nil {
		t.Skipf("SKIPPED: the list of connections can't be read here: %v", err)
	}
	w := &watch{brokers: brokers, client: client, stop: make(chan struct{}), escaped: map[string]bool{}}
	w.ended.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	t.Cleanup(w.end)
	return w
}

func (w *watch) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.ended.Wait()
}

// connection is one end of a TCP connection: the port at the other end, and the inode by which a process has it.
type connection struct {
	remote int
	inode  string
}

// connections returns the ends of all connections on this machine. Java's sockets are IPv6 ones.
func connections() ([]connection, error) {
	var found []connection
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		lines.Scan() // the heading
		for lines.Scan() {
			const remoteAt, inodeAt = 2, 9
			if fields := strings.Fields(lines.Text()); len(fields) > inodeAt {
				found = append(found, connection{portOf(fields[remoteAt]), fields[inodeAt]})
			}
		}
		_ = file.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func portOf(address string) int {
	_, text, _ := strings.Cut(address, ":")
	port, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// sockets returns the inodes of a process's sockets; none when it has ended.
func sockets(pid int) map[string]bool {
	found := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		to, err := os.Readlink(link)
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			found[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return found
}

func (w *watch) look() {
	mine := sockets(w.client)
	all, err := connections()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed = err
		return
	}
	through := 0
	for _, one := range all {
		switch {
		case !mine[one.inode] || one.remote == 0:
		case w.brokers[one.remote]:
			w.escaped[fmt.Sprintf("to the broker at port %d", one.remote)] = true
		default:
			through++
		}
	}
	w.looks++
	w.through = max(w.through, through)
}

// expectNone fails the test when a connection led around the tap, or when there was nothing to see.
func (w *watch) expectNone(t *testing.T) {
	t.Helper()
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	const fewest = 20
	if w.failed != nil || w.looks < fewest || w.through < nodes {
		t.Errorf("the list of connections was read %d times (%v) and had up to %d connections of the client with the tap: "+
			"that proves nothing",
			w.looks, w.failed, w.through)
	}
	for what := range w.escaped {
		t.Errorf("a connection of the client leads around the tap, %s", what)
	}
}
