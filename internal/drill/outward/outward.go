// Package outward tells others about a drill while it goes on: a chat channel by webhooks, and Grafana by annotations.
//
// It owns the messages and their delivery. It watches a session as the page does, so it can never hold up the drill:
//
//	Session ── Next, State ──▶ Follow ──▶ one queue and one worker for each target ──▶ HTTP
//
// Each request has a deadline and is sent once. A queue that is full drops what is new. The first failure of a target
// is told, later ones are only counted. The address of a webhook is a secret, so no error contains more than its host.
package outward

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
)

const (
	// requestLimit bounds a request, closeLimit the time after the drill in which the queues are emptied.
	requestLimit = 5 * time.Second
	closeLimit   = 10 * time.Second
	// waiting is the maximum number of messages in a queue.
	waiting = 256
)

// Session is what a drill tells. *drill.Session implements it.
type Session interface {
	Next(ctx context.Context, after uint64) error
	State(role drill.Role) drill.State
}

// Target takes events. send returns an error without the target's secrets.
type Target interface {
	// takes reports whether the target wants the event.
	takes(event Event) bool
	send(ctx context.Context, event Event) error
	// name is the target as people may read it.
	name() string
}

// Options configure what is told.
type Options struct {
	Targets []Target
	// Discreet holds back everything about faults until the drill is over, because the person who should notice them may
	// read the channel or look at the dashboard.
	Discreet bool
	// Warn takes one line about a target that fails.
	Warn func(line string)
}

// Follow tells the targets about a drill until it is over and everything has been sent, or until the drill has been
// over for some seconds. If ctx ends, it returns soon.
func Follow(ctx context.Context, session Session, options Options) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	queues := make([]chan Event, len(options.Targets))
	for i, target := range options.Targets {
		queues[i] = make(chan Event, waiting)
		group.Go(func() { deliver(ctx, target, queues[i], options.Warn) })
	}
	watch(ctx, session, options.Discreet, func(event Event) {
		for i, target := range options.Targets {
			if !target.takes(event) {
				continue
			}
			select {
			case queues[i] <- event:
			default: // the target does not keep up; the next events are newer
			}
		}
	})
	for _, queue := range queues {
		close(queue)
	}
	late := time.AfterFunc(closeLimit, cancel)
	defer late.Stop()
	group.Wait()
}

// watch passes on the events of a drill until it is over.
func watch(ctx context.Context, session Session, discreet bool, tell func(Event)) {
	var seen seen
	for {
		state := session.State(drill.RoleInjector)
		for _, event := range seen.fresh(state, time.Now(), discreet) {
			tell(event)
		}
		if state.Stage == drill.StageOver || session.Next(ctx, state.Version) != nil {
			return
		}
	}
}

// deliver sends the events of a queue, one after another.
func deliver(ctx context.Context, target Target, queue <-chan Event, warn func(string)) {
	failed := 0
	for event := range queue {
		sending, cancel := context.WithTimeout(ctx, requestLimit)
		err := target.send(sending, event)
		cancel()
		if err == nil {
			continue
		}
		if failed++; failed == 1 {
			warn(fmt.Sprintf("%s: %v; the drill goes on, and further failures are not reported", target.name(), err))
		}
	}
}
