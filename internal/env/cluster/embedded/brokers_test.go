package embedded

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// A killed broker resets its connections, even with requests in progress; a stopped broker closes them.
func TestHowConnectionsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*Kafka) (map[string]int, error)
		says string
		want error
	}{
		"stop": {func(e *Kafka) (map[string]int, error) {
			return e.StopBroker(t.Context(), 1)
		}, cluster.ChangeClosed, io.EOF},
		"kill": {func(e *Kafka) (map[string]int, error) {
			return e.KillBroker(t.Context(), 1)
		}, cluster.ChangeReset, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3}, cluster.Topic{Name: "alone", Partitions: 2, Broker: 2})
			conns := []rawConn{dialRaw(t, e.Brokers()[0].Address), connectInside(t, e, 1)}
			for _, conn := range conns {
				conn.request(t, kmsg.NewPtrMetadataRequest(), 1) // the broker has received it
			}
			changed := must.Get(test.end(e))(t)
			if want := map[string]int{test.says: 2, cluster.ChangeMoved: 1}; !maps.Equal(changed, want) {
				t.Errorf("it changed %v, want %v", changed, want)
			}
			for _, conn := range conns {
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, test.want) {
					t.Errorf("the client reads %v, want %v", err, test.want)
				}
			}
			if _, err := e.Connect(t.Context(), 1); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("connecting to it without a socket: %v, want it refused", err)
			}
			must.Do(t, e.StartBroker(t.Context(), 1))
			connectInside(t, e, 1).request(t, kmsg.NewPtrMetadataRequest(), 1)
		})
	}
	e := start(t, 3, cluster.Topic{Name: "alone", Partitions: 2, Broker: 2})
	if changed, err := e.KillBroker(t.Context(), 2); err != nil ||
		!maps.Equal(changed, map[string]int{cluster.ChangeLeaderless: 2}) {
		t.Errorf("what only one broker holds: %v, %v", changed, err)
	}
	if changed, err := e.StopBroker(t.Context(), 3); err != nil || len(changed) > 0 {
		t.Errorf("stopping a broker that nobody has to do with changed %v, %v", changed, err)
	}
}

// A process that is being started holds the broker's listener for a moment, like every open file of its parent.
// Until its exec, the port accepts connections.
func TestStopWaitsForListenersOfOthers(t *testing.T) {
	e := start(t, 2, cluster.Topic{Name: "input", Partitions: 2})
	gate := must.Get(e.findAlive(t.Context(), 1))(t)
	inherited := must.Get(gate.listener.(*net.TCPListener).File())(t)
	go func() { // ended by the first step of StopBroker, or by the end of its wait
		for shut := false; !shut; time.Sleep(time.Millisecond) {
			gate.mu.Lock()
			shut = gate.listener == nil
			gate.mu.Unlock()
		}
		time.Sleep(5 * acceptPause) // the time between fork and exec
		_ = inherited.Close()
	}()
	must.Get(e.StopBroker(t.Context(), 1))(t)
	if refused, err := gate.refuses(); err != nil || !refused {
		t.Errorf("the broker is stopped, and its port refuses: %v, %v", refused, err)
	}
}

// While a broker is paused, its connections stay open, new ones are accepted, and nothing is answered. Afterwards
// everything is answered.
func TestPausedBrokerStandsStill(t *testing.T) {
	e := start(t, 2, cluster.Topic{Name: "input", Partitions: 2})
	address := e.Brokers()[0].Address
	old := dialRaw(t, address)
	old.request(t, kmsg.NewPtrMetadataRequest(), 1)
	must.Do(t, e.PauseBroker(t.Context(), 1))
	if err := e.PauseBroker(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "pausing broker 1: it is "+
		"paused already") {
		t.Errorf("pausing it again: %v", err)
	}
	all := []rawConn{old, dialRaw(t, address), connectInside(t, e, 1)}
	for _, conn := range all {
		must.Get(conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 7)))(t)
	}
	for _, conn := range all {
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a paused broker answers, or ends the connection: %v", err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
	}
	dialRaw(t, e.Brokers()[1].Address).request(t, kmsg.NewPtrMetadataRequest(), 1) // the other one goes on
	changed, err := e.ResumeBroker(t.Context(), 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeRequests: 3}) {
		t.Errorf("it held back %v, %v, want 3 requests", changed, err)
	}
	for _, conn := range all {
		if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
			t.Errorf("what was held back is not answered: %v", err)
		}
	}
}

// Nothing may hang when a paused broker is stopped, killed or closed.
func TestPausedBrokerCanEnd(t *testing.T) {
	e := start(t, 2, cluster.Topic{Name: "input", Partitions: 2})
	w := startWriter(t, e, "input", 2)
	w.progress(t, 5, 0, 1)
	for _, end := range []func() (map[string]int, error){
		func() (map[string]int, error) { return e.StopBroker(t.Context(), 1) },
		func() (map[string]int, error) { return e.KillBroker(t.Context(), 1) },
	} {
		must.Do(t, e.PauseBroker(t.Context(), 1))
		w.progress(t, 5, 1)
		must.Get(end())(t)
		w.progress(t, 5, 0, 1) // broker 2 leads both
		must.Do(t, e.StartBroker(t.Context(), 1))
		must.Get(e.ResumeBroker(t.Context(), 1))(t)
		w.progress(t, 5, 0, 1)
	}
	verify(t, e, "input", w.finish(t))
	must.Do(t, e.PauseBroker(t.Context(), 2))
	dialRaw(t, e.Brokers()[1].Address).send(t, kmsg.NewPtrMetadataRequest(), 1)
	wait.Until(t, "the paused broker to hold a request", func() bool {
		return e.gates[2].standing.Load().requests.Load() > 0
	})
	// Held requests must not outlive the cluster: the package's tests end with a check for goroutines.
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Records that a killed or paused broker had acknowledged are in the topic once, in order, with a producer that
// repeats unanswered requests.
func TestNothingIsLostWhenBrokersBreak(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprint(brokers), func(t *testing.T) {
			e := start(t, brokers, cluster.Topic{Name: "input", Partitions: 3})
			w := startWriter(t, e, "input", 3)
			w.progress(t, 10, 0, 1, 2)
			must.Get(e.KillBroker(t.Context(), 1))(t)
			if brokers > 1 {
				w.progress(t, 10, 0, 1, 2)
			}
			must.Do(t, e.StartBroker(t.Context(), 1))
			w.progress(t, 10, 0, 1, 2)
			must.Do(t, e.PauseBroker(t.Context(), 1))
			wait.Until(t, "the paused broker to hold a request", func() bool {
				return e.gates[1].standing.Load().requests.Load() > 0
			})
			if changed, err := e.ResumeBroker(t.Context(), 1); err != nil || len(changed) == 0 {
				t.Errorf("in full flow a paused broker held back %v, %v", changed, err)
			}
			w.progress(t, 10, 0, 1, 2)
			verify(t, e, "input", w.finish(t))
		})
	}
}

func TestLeadersMoveAndReturn(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 6}, cluster.Topic{Name: "alone", Partitions: 1, Broker: 3})
	c := client(t, e)
	led := func() (by1, by2, by3 int) {
		counts := map[int32]int{}
		for p := range int32(6) {
			counts[partition(t, metadata(t, c, 2), "input", p).Leader]++
		}
		return counts[1], counts[2], counts[3]
	}
	w := startWriter(t, e, "input", 6)
	w.progress(t, 5, 0, 1, 2, 3, 4, 5)
	changed, err := e.MoveLeaders(t.Context(), 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeMoved: 3}) {
		t.Errorf("it changed %v, %v", changed, err)
	}
	if one, two, three := led(); one != 0 || two != 6 || three != 0 {
		t.Errorf("then broker 1 leads %d, 2 %d, 3 %d", one, two, three)
	}
	w.progress(t, 5, 0, 1, 2, 3, 4, 5)
	// With the others gone it leads again, demoted or not.
	must.Get(e.StopBroker(t.Context(), 2))(t)
	w.progress(t, 5, 0, 1, 2, 3, 4, 5)
	must.Do(t, e.StartBroker(t.Context(), 2))
	if changed, err := e.ReturnLeaders(t.Context(), 1); err != nil ||
		!maps.Equal(changed, map[string]int{cluster.ChangeMoved: 3}) {
		t.Errorf("returning them changed %v, %v", changed, err)
	}
	if one, two, three := led(); one != 3 || two != 3 || three != 0 {
		t.Errorf("in the end broker 1 leads %d, 2 %d, 3 %d", one, two, three)
	}
	if changed, err := e.MoveLeaders(t.Context(), 3); err != nil || len(changed) > 0 {
		t.Errorf("what one broker holds alone was moved: %v, %v", changed, err)
	}
	verify(t, e, "input", w.finish(t))
	alone := start(t, 1)
	if _, err := alone.MoveLeaders(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "it is the only one") {
		t.Errorf("with one broker: %v", err)
	}
}

func TestCoordinatorMoves(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3}, cluster.Topic{Name: "alone", Partitions: 1, Broker: 2})
	w := startWriter(t, e, "input", 3)
	m := startMembers(t, e, 2)
	m.progress(t, "before")
	other := must.Get(e.CoordinatorFor("another group"))(t)
	before := int32(0)
	for range 3 {
		from, to, err := e.MoveCoordinator(t.Context(), "group")
		if err != nil || from == to || to == 2 || before != 0 && from != before {
			t.Fatalf("it moved from %d to %d, %v; it was %d", from, to, err, before)
		}
		before = to
		if now, err := e.CoordinatorFor("group"); err != nil || now != to {
			t.Errorf("then it is broker %d, %v, want %d", now, err, to)
		}
		if now, err := e.CoordinatorFor("another group"); err != nil || now != other {
			t.Errorf("another group's moved from %d to %d, %v", other, now, err)
		}
		m.progress(t, "after a move")
	}
	m.cancel()
	m.wg.Wait()
	w.finish(t)
	must.Get(e.StopBroker(t.Context(), 1))(t)
	if _, _, err := e.MoveCoordinator(t.Context(), "group"); err == nil ||
		!strings.Contains(err.Error(), "no broker but 3 may coordinate") {
		t.Errorf("with one broker that may: %v", err)
	}
}
