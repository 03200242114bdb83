//go:build !windows

package subject

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// At the end of the run, an instance that somebody else starts is told to end, unless it stays: pods that end would be
// replaced. Either way its addresses are closed.
func TestStays(t *testing.T) {
	for _, stays := range []bool{false, true} {
		var told, cut, connected atomic.Bool
		connected.Store(true)
		outside := &Outside{
			Can: func(string) bool { return true }, Connected: connected.Load, Stays: stays,
			Act: func(_ context.Context, act string) error {
				if act == "TERM" {
					told.Store(true)
					connected.Store(false)
				}
				return nil
			},
			Absent: func(bool) string { return "" }, Cut: func() { cut.Store(true) },
		}
		g, _ := group(t, func(c *Config) {
			c.Render = func(int, uint16) (Launch, error) { return Launch{Outside: outside}, nil }
		}, "")
		must.Do(t, g.Start(t.Context(), 0))
		if err := g.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		if told.Load() == stays || !cut.Load() {
			t.Errorf("stays: %v; told to end: %v, addresses closed: %v", stays, told.Load(), cut.Load())
		}
	}
}
