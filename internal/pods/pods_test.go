package pods

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podHost is where the sidecar of a test accepts connections: the ports of the coordinator are those of 127.0.0.1.
const podHost = "127.0.0.2"

// memoryProcesses note the signals that they get.
type memoryProcesses struct {
	mu    sync.Mutex
	got   []string
	fails error
}

func (p *memoryProcesses) Signal(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, name)
	if name == "CONT" {
		return nil
	}
	return p.fails
}

func (p *memoryProcesses) signals() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.got, " ")
}

// rig is a coordinator with one echoing server for each port of each instance.
type rig struct {
	*testing.T
	hub     *Hub
	address string
	ports   [][]int
	lost    chan error
	deleted chan string
	closed  sync.Once
	// interrupted gets true when the run is to be interrupted.
	interrupted chan bool
}

// echoing answers each line with its name, the line, and an end.
func echoing(t *testing.T, name string) (port int) {
	t.Helper()
	listener := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "reset" {
						_ = conn.(*net.TCPConn).SetLinger(0)
						return
					}
					fmt.Fprintf(conn, "%s %s\n", name, lines.Text())
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return listener.Addr().(*net.TCPAddr).Port
}

func newRig(t *testing.T, instances int) *rig { return newRigBegun(t, instances, true) }

// newRigBegun returns a rig whose run has begun, or not yet.
func newRigBegun(t *testing.T, instances int, begun bool) *rig {
	r := &rig{T: t, lost: make(chan error, 10), deleted: make(chan string, 10), interrupted: make(chan bool, 1)}
	for instance := range instances {
		r.ports = append(r.ports, []int{echoing(t, fmt.Sprint("kafka ", instance)),
			echoing(t, fmt.Sprint("stub ", instance))})
	}
	listener := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	r.address = listener.Addr().String()
	r.hub = Serve(listener, HubConfig{Token: "secret", Version: "v1", Ports: r.ports, Signals: true,
		Begin:     func(map[string]string) error { return nil },
		Delete:    func(pod string) error { r.deleted <- pod; return nil },
		Interrupt: func() { r.interrupted <- true }})
	t.Cleanup(r.close)
	if !begun {
		return r
	}
	must.Do(t, r.hub.Begin(nil, func(err error) { r.lost <- err }))
	return r
}

func (r *rig) close() {
	r.closed.Do(func() {
		if err := r.hub.Close(); err != nil {
			r.Error(err)
		}
	})
}

// sidecar runs a sidecar until stop is called, and waits until it has an instance.
func (r *rig) sidecar(name string, processes Processes) (s *Sidecar, stop func()) {
	r.Helper()
	s = &Sidecar{Coordinator: r.address, Token: "secret", Pod: name, Version: "v1", Processes: processes,
		Say: func(line string) { r.Log(name + ": " + line) }, host: podHost, startedAt: podHost + ":0"}
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	r.Cleanup(stop)
	return s, stop
}

// attachedTo waits until so many pods have an instance.
func (r *rig) attachedTo(count int) {
	r.Helper()
	wait.Until(r, "the pods to come", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		there := 0
		for _, one := range r.hub.slots {
			if one.sidecar != nil && one.sidecar.control != nil {
				there++
			}
		}
		return there == count
	})
}

// call sends a line to a port in the pod.
func (r *rig) call(port int) net.Conn {
	r.Helper()
	var conn net.Conn
	wait.Until(r, "the sidecar to listen", func() bool {
		var err error
		conn, err = net.Dial("tcp4", net.JoinHostPort(podHost, fmt.Sprint(port)))
		return err == nil
	})
	fmt.Fprintln(conn, "hello")
	return conn
}

// answers reads what a connection gets within a time, "" for nothing.
func answers(conn net.Conn, within time.Duration) string {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}

const soon, notYet = 10 * time.Second, 300 * time.Millisecond

// Two pods get an instance each. Each is connected to its own ports by those of the first instance, which all pods are
// told, and by its own, which Kafka's answers name. Nothing is connected before the run starts the instance.
func TestForwards(t *testing.T) {
	r := newRig(t, 2)
	first, _ := r.sidecar("a", nil)
	r.attachedTo(1)
	early := r.call(r.ports[0][0])
	defer early.Close()
	if got := answers(early, notYet); got != "" || first.started.Load() {
		t.Errorf("before its start, the instance gets %q, and the consumer may start: %v", got, first.started.Load())
	}
	must.Do(t, r.hub.Act(t.Context(), 0, "START"))
	if got := answers(early, soon); got != "kafka 0 hello" || !first.started.Load() {
		t.Errorf("started, the instance gets %q", got)
	}
	stub := r.call(r.ports[0][1])
	defer stub.Close()
	if got := answers(stub, soon); got != "stub 0 hello" {
		t.Errorf("the downstream answers %q", got)
	}
	fmt.Fprintln(stub, "reset")
	_ = stub.SetReadDeadline(time.Now().Add(soon))
	if _, err := io.ReadAll(stub); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset arrives as %v", err)
	}
}

// The second pod is the second instance, also when it is told of the first one's ports.
func TestSecondInstance(t *testing.T) {
	r := newRig(t, 2)
	r.hub.slots[0].sidecar = &sidecarEnd{} // a pod on another machine
	r.sidecar("b", nil)
	wait.Until(t, "the pod to come", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return r.hub.slots[1].sidecar != nil && r.hub.slots[1].sidecar.control != nil
	})
	must.Do(t, r.hub.Act(t.Context(), 1, "START"))
	for _, port := range []int{r.ports[0][0], r.ports[1][0]} {
		conn := r.call(port)
		if got := answers(conn, soon); got != "kafka 1 hello" {
			t.Errorf("port %d answers %q", port, got)
		}
		_ = conn.Close()
	}
}

// A consumer that was killed and that Kubernetes starts again waits for its connections until the run starts it.
func TestActs(t *testing.T) {
	r := newRig(t, 1)
	processes := &memoryProcesses{}
	r.sidecar("a", processes)
	r.attachedTo(1)
	act := func(name string) {
		t.Helper()
		must.Do(t, r.hub.Act(t.Context(), 0, name))
	}
	connected := func(want string) {
		t.Helper()
		conn := r.call(r.ports[0][0])
		defer conn.Close()
		within := soon
		if want == "" {
			within = notYet
		}
		if got := answers(conn, within); got != want {
			t.Errorf("a new connection gets %q, want %q", got, want)
		}
	}
	act("START")
	connected("kafka 0 hello")
	act("STOP")
	act("CONT")
	act("KILL")
	connected("")
	act("START")
	connected("kafka 0 hello")
	if got := processes.signals(); got != "CONT STOP CONT KILL" {
		t.Errorf("the processes got %s", got)
	}
	processes.mu.Lock()
	processes.fails = errors.New("not permitted")
	processes.mu.Unlock()
	if err := r.hub.Act(t.Context(), 0, "STOP"); err == nil ||
		!strings.Contains(err.Error(), "in the pod a: not permitted") {
		t.Errorf("an act that fails: %v", err)
	}
}

// TERM has the pod deleted. Its consumer gets connections until it has ended, the end of the pod is no loss, and the pod
// that takes its place waits for its connections until the run starts the instance, also if it was started before the
// end of the other.
func TestDeletes(t *testing.T) {
	r := newRig(t, 1)
	_, stop := r.sidecar("a", nil)
	r.attachedTo(1)
	start := func() {
		t.Helper()
		must.Do(t, r.hub.Act(t.Context(), 0, "START"))
	}
	term := func(answer string) error {
		t.Helper()
		ended := make(chan error)
		go func() { ended <- r.hub.Act(t.Context(), 0, "TERM") }()
		pod := <-r.deleted
		if err := deletedAt(t.Context(), r.address, "secret", pod, answer); err != nil {
			t.Error(err)
		}
		return <-ended
	}
	start()
	if err := term("pods may not be deleted"); err == nil ||
		!strings.Contains(err.Error(), "pod a: pods may not be deleted") {
		t.Errorf("a deletion that is refused: %v", err)
	}
	start()
	must.Do(t, term(""))
	conn := r.call(r.ports[0][0])
	defer conn.Close()
	if got := answers(conn, soon); got != "kafka 0 hello" {
		t.Errorf("a consumer that ends gets %q", got)
	}
	start()
	stop()
	r.attachedTo(0)
	_, stop = r.sidecar("b", nil)
	next := r.call(r.ports[0][0])
	defer next.Close()
	if got := answers(next, soon); got != "kafka 0 hello" {
		t.Errorf("the next pod gets %q", got)
	}
	if len(r.lost) > 0 {
		t.Errorf("a pod that was deleted is lost: %v", <-r.lost)
	}
	must.Do(t, term(""))
	stop()
	r.attachedTo(0)
	r.sidecar("c", nil)
	waiting := r.call(r.ports[0][0])
	defer waiting.Close()
	if got := answers(waiting, notYet); got != "" {
		t.Errorf("a pod that the run has not started gets %q", got)
	}
	start()
	if got := answers(waiting, soon); got != "kafka 0 hello" {
		t.Errorf("it gets %q", got)
	}
	if err := deletedAt(t.Context(), r.address, "secret", "c", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an answer that nobody waits for: %v", err)
	}
}

// An eviction that a disruption budget forbids is tried again. If it stays forbidden, the pod's instance goes on, and
// the end of the pod is a loss.
func TestEvictionForbidden(t *testing.T) {
	r := newRig(t, 1)
	r.hub.again = time.Millisecond
	_, stop := r.sidecar("a", nil)
	r.attachedTo(1)
	must.Do(t, r.hub.Act(t.Context(), 0, "START"))
	term := func(ctx context.Context, answers ...string) error {
		ended := make(chan error, 1)
		go func() { ended <- r.hub.Act(ctx, 0, "TERM") }()
		for _, answer := range answers {
			if err := deletedAt(t.Context(), r.address, "secret", <-r.deleted, answer); err != nil {
				t.Error(err)
			}
		}
		return <-ended
	}
	forbidden := "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget."
	if err := term(t.Context(), forbidden, forbidden, "the API server is odd"); err == nil ||
		!strings.Contains(err.Error(), "pod a: the API server is odd") {
		t.Errorf("an eviction that fails after it was forbidden: %v", err)
	}
	r.hub.again = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), notYet)
	defer cancel()
	if err := term(ctx, forbidden); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("an eviction that stays forbidden: %v", err)
	}
	stop()
	if err := <-r.lost; !strings.Contains(err.Error(), "the pod a, which is instance 0,") {
		t.Errorf("its pod is lost: %v", err)
	}
}

// If the coordinator goes away, the consumer continues, and its connections end.
func TestCoordinatorGone(t *testing.T) {
	r := newRig(t, 1)
	processes := &memoryProcesses{}
	r.sidecar("a", processes)
	r.attachedTo(1)
	for _, act := range []string{"START", "STOP"} {
		must.Do(t, r.hub.Act(t.Context(), 0, act))
	}
	conn := r.call(r.ports[0][0])
	defer conn.Close()
	if got := answers(conn, soon); got != "kafka 0 hello" {
		t.Fatalf("it gets %q", got)
	}
	r.close()
	wait.Until(t, "the consumer to continue", func() bool {
		return strings.HasSuffix(processes.signals(), "STOP CONT")
	})
	_ = conn.SetReadDeadline(time.Now().Add(soon))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its connection ends with %v", err)
	}
	if len(r.lost) > 0 {
		t.Errorf("that the run is over is taken for a loss: %v", <-r.lost)
	}
}

// A pod that goes away is a loss, unless the run has ended its instance; then another one takes its place.
func TestPodGone(t *testing.T) {
	r := newRig(t, 1)
	processes := &memoryProcesses{}
	_, stop := r.sidecar("a", processes)
	r.attachedTo(1)
	for _, act := range []string{"START", "KILL"} {
		must.Do(t, r.hub.Act(t.Context(), 0, act))
	}
	stop()
	r.attachedTo(0)
	if len(r.lost) > 0 {
		t.Errorf("a pod that was ended is lost: %v", <-r.lost)
	}
	must.Do(t, r.hub.Act(t.Context(), 0, "START"))
	_, stop = r.sidecar("b", processes)
	conn := r.call(r.ports[0][0])
	defer conn.Close()
	if got := answers(conn, soon); got != "kafka 0 hello" {
		t.Errorf("the next pod gets %q", got)
	}
	stop()
	select {
	case err := <-r.lost:
		if !strings.Contains(err.Error(), "the pod b, which is instance 0,") {
			t.Errorf("it is lost: %v", err)
		}
	case <-time.After(soon):
		t.Error("a pod went away, and nobody is told")
	}
}

// A coordinator that is told to end ends the run, also if it is told before the run has begun. The command ends it
// otherwise.
func TestCoordinatorToldToEnd(t *testing.T) {
	r := newRig(t, 1)
	r.hub.End()
	if err := <-r.lost; !strings.Contains(err.Error(), "the pod that runs dlqbench was told to end") {
		t.Errorf("the run ends: %v", err)
	}
	early := newRigBegun(t, 1, false)
	early.hub.End()
	if err := early.hub.Begin(nil, func(error) {}); !errors.Is(err, errToEnd) {
		t.Errorf("the run begins: %v", err)
	}
	if err := tell(t.Context(), r.address+interruptPath, "secret", nil); err != nil || <-r.interrupted != true {
		t.Errorf("the command ends the run: %v", err)
	}
}

// A side that says nothing for longer than the lease is gone, and one that is there is not.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		began := time.Now()
		ended := make(chan time.Duration)
		go func() {
			_ = newControl(here, here).receive(func(message) {})
			ended <- time.Since(began)
		}()
		other := json.NewEncoder(there)
		go func() { _, _ = io.Copy(io.Discard, there) }()
		for range 10 {
			time.Sleep(pingEvery)
			must.Do(t, other.Encode(message{}))
		}
		if after := <-ended; after != 10*pingEvery+leaseFor {
			t.Errorf("it was taken for gone after %v", after)
		}
		_ = there.Close()
		if leaseFor > 10*time.Second {
			t.Errorf("a stopped consumer stays stopped for %v", leaseFor)
		}
	})
}

// Whoever does not know the token, has another version, asks for another port or comes too late is refused.
func TestRefuses(t *testing.T) {
	r := newRig(t, 1)
	ask := func(path, token, version string) string {
		header := bearer(token)
		header.Set(versionHeader, version)
		conn, _, err := dial(t.Context(), r.address, path, header)
		if err == nil {
			_ = conn.Close()
			return ""
		}
		return err.Error()
	}
	other := echoing(t, "other")
	first := must.Get(dialAttached(t, r))(t)
	defer first.Close()
	for _, one := range []struct{ path, token, version, says string }{
		{attachPath, "guessed", "v1", "401: the token is wrong"},
		{tunnelPath + fmt.Sprint("?port=", r.ports[0][0]), "guessed", "v1", "401: the token is wrong"},
		{tunnelPath + fmt.Sprint("?port=", r.ports[0][0]), "secret", "v1", ""},
		{tunnelPath + fmt.Sprint("?port=", other), "secret", "v1", "403: this is not a port of an instance"},
		{attachPath, "secret", "v2", "409: the sidecar is dlqbench v2, and the coordinator v1"},
		{attachPath, "secret", "v1", "503: all 1 instances have a pod"},
	} {
		if got := ask(one.path, one.token, one.version); one.says == "" && got != "" || !strings.HasSuffix(got, one.says) {
			t.Errorf("%s is answered %q, want %q", one.path, got, one.says)
		}
	}
}

func dialAttached(t *testing.T, r *rig) (net.Conn, error) {
	header := bearer("secret")
	header.Set(versionHeader, "v1")
	conn, _, err := dial(t.Context(), r.address, attachPath, header)
	r.attachedTo(1)
	return conn, err
}

// A pod listens on the ports of its own instance, and on those of the first, and forwards to its own.
func TestPorts(t *testing.T) {
	h := &Hub{cfg: HubConfig{Ports: [][]int{{10, 11, 99}, {20, 21, 99}}}}
	got := h.ports(1)
	for port, want := range map[int]int{10: 20, 11: 21, 20: 20, 21: 21, 99: 99} {
		if got[port] != want {
			t.Errorf("port %d leads to %d, want %d", port, got[port], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("the ports are %v", got)
	}
}
