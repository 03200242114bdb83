package assertions

// State: what a subject made of records that it may process or refuse (history.Refusable), such as one of an earlier
// schema. Either is right, but it must be one of both:
//
//	it processes the record   an attempt or a call names it: all that holds of other records holds of this one
//	it refuses the record     none does: it is a record that the subject can't read (history.Garbage), and the contract
//	                          says what becomes of it
//
// So a record that is neither processed nor refused is lost, one that is processed and dead-lettered without a reason
// is dead-lettered too early, and one whose processing was begun must be finished. With observe: wire no attempt is
// seen, and nothing is concluded from attempts either, so that the record is one as any other.
//
// Which of both it was is known when the history has ended. That is why another walk precedes the one that judges,
// which sees the record marked accordingly from the beginning. No checker asks about it.

import "github.com/dlqbench/dlqbench/history"

// decided is a source whose refusable records are marked Garbage if the subject refused them.
type decided struct {
	history.Source
	// processed tells, by number, the records that an attempt or a call names.
	processed []bool
}

// marked returns a source with its refusable records marked.
func marked(source history.Source) history.Source {
	header := source.Header()
	if !header.Refusable || header.Contract().WireOnly {
		return source
	}
	d := decided{source, make([]bool, header.Records)}
	_ = source.Each(func(e *history.Event) error { // the walk that judges meets the same error, and reports it
		if (e.Kind == history.KindAttemptStart || e.Kind == history.KindCallStart) && e.Instance >= 0 && d.has(e.Record) {
			d.processed[e.Record] = true
		}
		return nil
	})
	return d
}

// has reports whether the number belongs to a record of the run.
func (d decided) has(number int32) bool { return number >= 0 && int(number) < len(d.processed) }

// Each implements history.Source.
func (d decided) Each(fn func(*history.Event) error) error {
	return d.Source.Each(func(e *history.Event) error {
		if e.Kind != history.KindSend || !e.Flags.Has(history.Refusable) || !d.has(e.Record) || d.processed[e.Record] {
			return fn(e)
		}
		refused := *e
		refused.Flags |= history.Garbage
		return fn(&refused)
	})
}
