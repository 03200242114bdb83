package workload

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events is a sink that keeps everything.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind history.Kind) []history.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []history.Event
	for _, event := range e.all {
		if event.Kind == kind {
			found = append(found, event)
		}
	}
	return found
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Record(history.Event) {}
