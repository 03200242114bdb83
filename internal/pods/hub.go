package pods

// This file is the coordinator's side: it gives each pod that comes an instance, and acts on instances in their pods.

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/subject"
)

// HubConfig configures a Hub.
type HubConfig struct {
	// Token is what sidecars must know. Version is that of dlqbench, which they must have, too.
	Token, Version string
	// Ports are those of each instance, in the same order: of Kafka's brokers, of the downstreams, of the registry.
	Ports [][]int
	// Signals says that the sidecars can send signals to the consumer.
	Signals bool
	// Begin is called with the environment variables that all pods get.
	Begin func(env map[string]string) error
	// Delete asks for a pod to be deleted or evicted. Whoever does it calls Deleted.
	Delete func(pod string) error
	// Interrupt is called when the command that started the run wants to end it early.
	Interrupt func()
}

// Hub is the coordinator's end of the sidecars. It serves as run.Pods.
type Hub struct {
	cfg    HubConfig
	server *http.Server

	mu     sync.Mutex
	lost   func(error)
	slots  []taken
	closed bool
	// toEnd: this pod has been told to end.
	toEnd bool
	// again is the interval at which an eviction is tried again.
	again time.Duration
	// deleting has the pods whose deletion was asked for, until it is answered.
	deleting map[string]chan error
}

// taken is an instance: its sidecar, if a pod has come for it, and whether the consumer there may be connected.
type taken struct {
	open    bool
	sidecar *sidecarEnd
}

// sidecarEnd is the coordinator's end of one sidecar.
type sidecarEnd struct {
	*control
	pod  string
	gone chan struct{}
	// leaving says that the run has the pod deleted. The instance goes on in the pod that takes its place.
	leaving bool
	mu      sync.Mutex
	last    int
	waiting map[int]chan error
}

// Serve returns a hub that serves sidecars at the listener until Close.
func Serve(listener net.Listener, cfg HubConfig) *Hub {
	h := &Hub{cfg: cfg, slots: make([]taken, len(cfg.Ports)), deleting: map[string]chan error{}, again: evictEvery}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+attachPath, h.guarded(h.attach))
	mux.HandleFunc("GET "+tunnelPath, h.guarded(h.tunnel))
	mux.HandleFunc("POST "+deletedPath, h.guarded(h.deleted))
	mux.HandleFunc("POST "+interruptPath, h.guarded(func(http.ResponseWriter, *http.Request) { cfg.Interrupt() }))
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: leaseFor}
	go func() { _ = h.server.Serve(listener) }()
	return h
}

// Close ends all connections with sidecars. That they are gone is then no loss.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	for _, one := range h.slots {
		if one.sidecar != nil && one.sidecar.control != nil {
			_ = one.sidecar.conn.Close()
		}
	}
	h.mu.Unlock()
	return h.server.Close()
}

// errToEnd: the pod of the coordinator was told to end, and perhaps with it pods of the consumer.
var errToEnd = errors.New("the pod that runs dlqbench was told to end, it was deleted or evicted: see kubectl get " +
	"events")

// End ends the run because this pod was told to end.
func (h *Hub) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.toEnd = true; h.lost != nil {
		h.lost(errToEnd)
	}
}

func (h *Hub) guarded(serve http.HandlerFunc) http.HandlerFunc {
	want := bearer(h.cfg.Token).Get("Authorization")
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
			return
		}
		serve(w, r)
	}
}

// attach serves one sidecar for as long as it is there.
func (h *Hub) attach(w http.ResponseWriter, r *http.Request) {
	if version := r.Header.Get(versionHeader); version != h.cfg.Version {
		http.Error(w, fmt.Sprintf("the sidecar is dlqbench %s, and the coordinator %s", version, h.cfg.Version),
			http.StatusConflict)
		return
	}
	one := &sidecarEnd{pod: r.Header.Get(podHeader), gone: make(chan struct{}), waiting: map[int]chan error{}}
	instance := h.take()
	if instance < 0 {
		http.Error(w, fmt.Sprintf("all %d instances have a pod", len(h.slots)), http.StatusServiceUnavailable)
		return
	}
	conn, reader, err := upgrade(w)
	if err == nil {
		one.control = newControl(conn, reader)
		err = h.serve(instance, one)
	}
	h.leave(instance, one, err)
}

// take gives a sidecar the first instance that has none, -1 if all have.
func (h *Hub) take() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	instance := slices.IndexFunc(h.slots, func(t taken) bool { return t.sidecar == nil })
	if instance >= 0 && !h.closed {
		h.slots[instance].sidecar = &sidecarEnd{} // so that no other takes it
		return instance
	}
	return -1
}

// serve tells a sidecar its instance, and reads its answers until it is gone.
func (h *Hub) serve(instance int, one *sidecarEnd) error {
	if err := one.send(message{Slot: &slot{Instance: instance, Ports: h.ports(instance)}}); err != nil {
		return err
	}
	h.mu.Lock()
	h.slots[instance].sidecar = one
	open := h.slots[instance].open
	h.mu.Unlock()
	if open {
		if err := one.send(message{Act: subject.ActStart}); err != nil {
			return err
		}
	}
	return one.receive(func(m message) {
		one.mu.Lock()
		answer := one.waiting[m.ID]
		delete(one.waiting, m.ID)
		one.mu.Unlock()
		if answer == nil {
			return
		}
		if m.Error != "" {
			answer <- errors.New(m.Error)
		}
		close(answer)
	})
}

// ports are the ports to listen on in the pod of an instance, with those to forward to here: those that Kafka's answers
// name, and those of the first instance, which all pods are told.
func (h *Hub) ports(instance int) map[int]int {
	ports := map[int]int{}
	for i, port := range h.cfg.Ports[instance] {
		ports[port], ports[h.cfg.Ports[0][i]] = port, port
	}
	return ports
}

// leave frees the instance of a sidecar that is gone. It is a loss if the run did not end the instance before.
func (h *Hub) leave(instance int, one *sidecarEnd, err error) {
	close(one.gone)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots[instance].sidecar = nil
	if h.slots[instance].open && !one.leaving && !h.closed && h.lost != nil {
		h.lost(fmt.Errorf("the pod %s, which is instance %d, or its sidecar is gone (%w): see kubectl describe pod, and "+
			"kubectl get events", one.pod, instance, err))
	}
}

// tunnel forwards one connection of a consumer.
func (h *Hub) tunnel(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.Atoi(r.URL.Query().Get("port"))
	known := slices.ContainsFunc(h.cfg.Ports, func(ports []int) bool { return slices.Contains(ports, port) })
	if err != nil || !known {
		http.Error(w, "this is not a port of an instance", http.StatusForbidden)
		return
	}
	to, err := (&net.Dialer{Timeout: time.Second}).DialContext(r.Context(), "tcp", localAddress(port))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	from, reader, err := upgrade(w)
	if err != nil {
		_ = to.Close()
		return
	}
	join(from, to, reader, nil)
}

// Begin tells the environment variables of the pods. lost is called if one goes away that the run did not end: its
// connections were cut then, at an unknown time, and what its consumer did because of that must not be held against it.
func (h *Hub) Begin(env map[string]string, lost func(error)) error {
	h.mu.Lock()
	h.lost = lost
	toEnd := h.toEnd
	h.mu.Unlock()
	if toEnd {
		return errToEnd
	}
	return h.cfg.Begin(env)
}

// Can reports whether Act can do something to an instance.
func (h *Hub) Can(act string) bool { return act == subject.ActStart || h.cfg.Signals }

// Act does something to an instance. After ActStart its consumer is connected to Kafka as soon as there is a pod. TERM
// has the pod deleted, which is how Kubernetes ends a consumer in order, and another pod takes its place. After KILL,
// Kubernetes starts the consumer in its pod again. Either way it waits for its connections until ActStart.
func (h *Hub) Act(ctx context.Context, instance int, act string) error {
	h.mu.Lock()
	open := h.slots[instance].open
	switch act {
	case subject.ActStart:
		h.slots[instance].open = true
	case "TERM", "KILL":
		h.slots[instance].open = false
	}
	one := h.slots[instance].sidecar
	there := one != nil && one.control != nil
	next := !there || one.leaving
	h.mu.Unlock()
	var err error
	switch {
	case act == subject.ActStart && next:
		return nil // the next pod is told when it comes
	case !there:
		return fmt.Errorf("sending %s: instance %d has no pod", act, instance)
	case act == "TERM":
		err = h.delete(ctx, one)
	default:
		err = one.act(ctx, act)
	}
	if err != nil {
		h.mu.Lock()
		h.slots[instance].open = open // that its pod goes away is still a loss
		h.mu.Unlock()
		return fmt.Errorf("sending %s to the consumer in the pod %s: %w", act, one.pod, err)
	}
	return nil
}

// delete has a pod deleted or evicted. It returns when Kubernetes has accepted that, and so begun to end the consumer.
// An eviction that a disruption budget forbids is tried again, as by the drain of a node.
func (h *Hub) delete(ctx context.Context, one *sidecarEnd) error {
	limit := time.NewTimer(deleteLimit)
	defer limit.Stop()
	for {
		err := h.deleteOnce(ctx, one, limit.C)
		if err == nil || !strings.Contains(err.Error(), forbiddenNow) {
			return err
		}
		select {
		case <-time.After(h.again):
		case <-limit.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

func (h *Hub) deleteOnce(ctx context.Context, one *sidecarEnd, limit <-chan time.Time) error {
	answer := make(chan error, 1)
	h.mu.Lock()
	one.leaving, h.deleting[one.pod] = true, answer
	h.mu.Unlock()
	err := h.cfg.Delete(one.pod)
	if err == nil {
		select {
		case err = <-answer:
		case <-limit:
			err = fmt.Errorf("the command that started the run has not deleted it for %s", deleteLimit)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one.leaving = err == nil
	delete(h.deleting, one.pod)
	return err
}

// deleted takes the answer of whoever deletes pods.
func (h *Hub) deleted(w http.ResponseWriter, r *http.Request) {
	pod, failure := r.FormValue("pod"), r.FormValue("error")
	h.mu.Lock()
	defer h.mu.Unlock()
	answer := h.deleting[pod]
	switch {
	case answer == nil:
		http.Error(w, "no deletion of the pod is waited for", http.StatusNotFound)
		return
	case failure != "":
		answer <- errors.New(failure)
	default:
		answer <- nil
	}
	delete(h.deleting, pod)
}

func (s *sidecarEnd) act(ctx context.Context, act string) error {
	answer := make(chan error, 1)
	s.mu.Lock()
	s.last++
	id := s.last
	s.waiting[id] = answer
	s.mu.Unlock()
	if err := s.send(message{ID: id, Act: act}); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-s.gone:
		return errors.New("its sidecar is gone")
	case <-time.After(actLimit):
		return fmt.Errorf("its sidecar has not answered for %s", actLimit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
