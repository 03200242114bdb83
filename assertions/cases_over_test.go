package assertions

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// preceded returns the history with something that ends long before its first record is sent.
func preceded(source history.Source, by func(b *builder)) (history.Source, bool) {
	const gap = 10 * time.Second
	var events []history.Event
	_ = source.Each(func(e *history.Event) error { events = append(events, *e); return nil })
	first := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.KindSend })
	if first < 0 || source.Header().Instances == 0 {
		return nil, false
	}
	b := newBuilder()
	b.h, b.op, b.now, b.events = source.Header(), 1<<40, events[first].Time, slices.Clone(events[:first])
	b.h.Faults = slices.Clone(b.h.Faults)
	if !slices.ContainsFunc(b.events, func(e history.Event) bool {
		return e.Kind == history.KindAssigned && e.Instance == 0
	}) {
		return nil, false
	}
	by(b)
	for _, e := range events[first:] {
		e.Time += gap
		if e.Kind == history.KindSend {
			e.Aux += int64(gap)
		}
		b.put(e)
	}
	return b.source(), true
}

// What was over long before a record was sent explains nothing that becomes of it.
func TestWhatIsLongOverExplainsNothing(t *testing.T) {
	nothing := func(*builder) {}
	over := func(kind, target string) func(*builder) {
		return func(b *builder) {
			f := b.fault(kind, target, "out of order")
			b.breaks(f).wait(400 * ms).heals(f)
		}
	}
	for what, disturb := range map[string]func(*builder){
		"a stall":                 func(b *builder) { b.wait(time.Second).stall(history.None, time.Second) },
		"a rebalance":             func(b *builder) { b.revoke(0, 1, 2, 3).assign(0, 1, 2, 3) },
		"an attempt without id":   func(b *builder) { b.unnamed(history.None, history.None, history.None) },
		"the downstream was away": over("network", "downstream"),
		"the letters were away":   over("kafka", "dlq"),
		"a broker was away":       over("broker", "broker 0"),
	} {
		for _, one := range slices.Concat(
			plainCases(), commitCases(), lossCases(), haltCases(), retryCases(), classCases(), backoffCases(), letterCases(),
			orderCases(), memberCases(), stopCases(), livenessCases(), transactionCases(), bulkCases(), callCases(), spanCases(),
		) {
			t.Run(what+" before: "+one.name, func(t *testing.T) {
				source := one.tell(newBuilder())
				with, fits := preceded(source, disturb)
				without, _ := preceded(source, nothing)
				if fits {
					compare(t, named(judged(t, without)), judged(t, with), nil)
				}
			})
		}
	}
}
