// Package downstream defines the faults of the downstream that the subject calls. While one is in force, the
// downstream stub answers late, differently than planned, or not at all. The package defines how these faults are
// written, checked, described and explained, and decides the result of an attempt. The stub carries the decision out.
package downstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Downstream changes what the downstream stub answers. Exactly one field is set, beside Node and Name.
type Downstream struct {
	// Node is the node of a graph whose module is meant; default: the modules of all nodes.
	Node string `json:"node,omitempty"`
	// Name is the downstream that is meant, where subject.yaml lists several; default: the one that decides.
	Name string `json:"name,omitempty"`
	// Outage: every attempt is answered 503.
	Outage bool `json:"outage,omitempty"`
	// Slow: every attempt is answered as planned, this much later.
	Slow units.Duration `json:"slow,omitempty"`
	// Hang: no attempt is answered until the fault is over; connections stay open.
	Hang bool `json:"hang,omitempty"`
	// RateLimit answers 429 with Retry-After to what exceeds a rate.
	RateLimit *RateLimit `json:"rate_limit,omitempty"`
	// Errors answers shares of the attempts with errors, drawn from the seed by record and attempt; the rest is
	// answered as planned.
	Errors *Errors `json:"errors,omitempty"`
	// ErrorText makes the failures say something else: non-ascii, long (4 KiB), hostile (CR LF, NUL, quotes, markup),
	// outage (a circuit breaker is open), page (a gateway answers 503 and 429 with a page of HTML).
	ErrorText string `json:"error_text,omitempty" jsonschema:"enum=non-ascii,enum=long,enum=hostile,enum=outage,enum=page"`
}

// RateLimit lets Rate attempts pass, over all instances; the others are answered 429 with RetryAfter (whole seconds on
// the wire; default 1s).
type RateLimit struct {
	Rate       units.Rate     `json:"rate" jsonschema:"required"`
	RetryAfter units.Duration `json:"retry_after,omitempty"`
}

// Errors are shares of the attempts; their sum is at most 100%.
type Errors struct {
	Transient units.Percent `json:"transient,omitempty"`
	Permanent units.Percent `json:"permanent,omitempty"`
	Logical   units.Percent `json:"logical,omitempty"`
	Timeout   units.Percent `json:"timeout,omitempty"`
	Reset     units.Percent `json:"reset,omitempty"`
}

// action is one downstream fault. Its function starts the fault and returns the function that ends it.
type action = faults.Action[Downstream, start]

type start func(stub Stub, d *Downstream, counts *tally) (end func(), err error)

// actions returns all downstream faults.
func actions() []action { return append(unanswered(), failures()...) }

const made = "The downstream stub answers differently while the fault is in force; its connections are not " +
	"affected. Of several downstreams (subject.yaml), name selects one; without it, it is the one that decides. In a " +
	"graph of nodes, node selects the module; without it all are affected."

func unanswered() []action {
	return []action{{
		What: func(*Downstream) string { return "every attempt answered 503" },
		Do:   answer(func(*Downstream, uint64) rule { return always(history.OutcomeTransient) }),
		Entry: faults.Entry{Name: "downstream.outage", Summary: "The downstream is unavailable.",
			Does: "Every attempt is answered 503, whatever answer was planned for the record.", Made: made,
			Shows: "A correct consumer retries as often as promised, then dead-letters before it commits. Bugs: retries " +
				"without end or without a wait, a whole partition dead-lettered within moments.",
			Effects: []string{"attempts answered 503"},
			Keys:    []string{"downstream.outage", "downstream.name", "downstream.node"},
			Example: "{at: 1s, for: 2s, downstream: {outage: true}}"},
	}, {
		What: func(d *Downstream) string { return fmt.Sprintf("every attempt answered %s later", d.Slow) },
		Do: func(stub Stub, d *Downstream, counts *tally) (func(), error) {
			return stub.Slow(d.Slow.D(), counts.delay), nil
		},
		Entry: faults.Entry{Name: "downstream.slow", Summary: "The downstream is slow.",
			Does: "Every attempt is answered as planned, after this delay.", Made: made,
			Shows: "A correct consumer slows down, or times out and retries. Bugs: one slow call that makes the poll loop " +
				"miss its deadline, so that the partition is lost.",
			Effects: []string{"answers delayed"}, Keys: []string{"downstream.slow"},
			Example: "{at: 1s, for: 2s, downstream: {slow: 150ms}}"},
	}, {
		What: func(*Downstream) string { return "no attempt answered, connections open" },
		Do:   answer(func(*Downstream, uint64) rule { return always(history.OutcomeTimeout) }),
		Entry: faults.Entry{Name: "downstream.hang", Summary: "The downstream does not answer.",
			Does: "No attempt is answered until the fault is over; connections stay open.", Made: made,
			Shows: "A correct consumer ends each attempt after its timeout and counts it as a retriable failure. Bugs: calls " +
				"without a timeout, timeouts that are never counted.",
			Effects: []string{"attempts left unanswered"}, Keys: []string{"downstream.hang"},
			Example: "{at: 1s, for: 1s, downstream: {hang: true}}"},
	}}
}

func failures() []action {
	return []action{{
		What: func(d *Downstream) string { return fmt.Sprintf("attempts above %s answered 429", d.RateLimit.Rate) },
		Do:   answer(func(d *Downstream, _ uint64) rule { return limited(*d.RateLimit) }),
		Entry: faults.Entry{Name: "downstream.rate_limit", Summary: "The downstream limits the rate.",
			Does: "Attempts of all instances above rate are answered 429 with Retry-After (whole seconds, default 1s).",
			Made: made,
			Shows: "A correct consumer retries no earlier than told. Bugs: Retry-After that is ignored or read as " +
				"milliseconds, a 429 that is treated as a permanent failure.",
			Effects: []string{"attempts answered 429"}, Keys: []string{"downstream.rate_limit"},
			Example: "{at: 1s, for: 2s, downstream: {rate_limit: {rate: 100/s, retry_after: 1s}}}"},
	}, {
		What: func(d *Downstream) string { return d.Errors.what() },
		Do:   answer(func(d *Downstream, seed uint64) rule { return mixed(*d.Errors, seed) }),
		Entry: faults.Entry{Name: "downstream.errors", Summary: "The downstream fails now and then.",
			Does: "These shares of the attempts fail (transient: 503, permanent: 400, logical: 422, timeout: no answer, " +
				"reset: a broken connection), drawn from the seed by record and attempt. The others are answered as planned.",
			Made: made,
			Shows: "A correct consumer classifies each failure by itself. Bugs: the class of one failure applied to the " +
				"next, a counter that includes failures which are not retried.",
			Effects: []string{"attempts answered 503 (400, 422)", "attempts left unanswered", "attempts reset"},
			Keys:    []string{"downstream.errors"},
			Example: "{at: 1s, for: 2s, downstream: {errors: {transient: 20%, permanent: 2%}}}"},
	}, {
		What: func(d *Downstream) string { return "failures with " + d.ErrorText + " error texts" },
		Do: func(stub Stub, d *Downstream, counts *tally) (func(), error) {
			return stub.ErrorText(d.ErrorText, counts.reword)
		},
		Entry: faults.Entry{
			Name: "downstream.error_text", Summary: "Error texts contain characters that break careless code.",
			Does: "The text of every failure is non-ascii, long (4 KiB), hostile (CR LF, NUL, quotes, markup) or mentions an " +
				"outage. That text is written to the headers of dead letters. With page, 503 and 429 have a page of HTML in " +
				"place of JSON, as a gateway answers for a service that it can't reach; answers whose body subject.yaml " +
				"gives stay as they are.", Made: made,
			Shows: "A correct consumer's dead letters stay intact, and the status decides whether it retries. Bugs: headers " +
				"cut in the middle of a character, texts that break the envelope, a dead letter too large to be written, a " +
				"page that can't be parsed and is taken for a failure for good.",
			Effects: []string{"error texts changed"}, Keys: []string{"downstream.error_text"},
			Example: "{at: 1s, for: 2s, downstream: {error_text: hostile}}"},
	}}
}

// Entries implements faults.Fault.
func (*Downstream) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (d *Downstream) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), d)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(d)
	traits.What += faults.AtNode(d.Node)
	traits.FailsAttempts = d.Outage
	traits.Idle = history.Idle{Needs: history.NeedAttempt, Why: "the downstream was not asked for anything that it " +
		"concerns in the " + history.InForce + " in which it was in force", Do: "make it longer, or raise the rate"}
	traits.Target, traits.Name, traits.Patient = "downstream", faults.Dashed("downstream "+chosen.Key()), true
	if d.Name != "" {
		traits.Target, traits.Idle.Needs = history.TargetOther+d.Name, history.NeedRecord
		traits.Name, traits.FailsAttempts = faults.Dashed(d.Name+" "+chosen.Key()), false
		traits.What = d.Name + ": " + traits.What
		if d.failsAll() {
			traits.Blocks = faults.Here
		}
	}
	return traits
}

// failsAll reports whether no call succeeds while the fault is in force.
func (d *Downstream) failsAll() bool {
	return d.Outage || d.Hang || d.Errors != nil && d.Errors.sum() >= 1-rounding
}

func (e Errors) what() string {
	var shares []string
	for _, one := range []struct {
		name  string
		share interface {
			Share() float64
			String() string
		}
	}{
		{"503", e.Transient}, {"400", e.Permanent}, {"422", e.Logical}, {"never", e.Timeout}, {"with a reset", e.Reset},
	} {
		if one.share.Share() > 0 {
			shares = append(shares, one.share.String()+" "+one.name)
		}
	}
	return "attempts answered with errors: " + strings.Join(shares, ", ")
}

// Validate implements faults.Fault.
func (d *Downstream) Validate(setting faults.Setting) []faults.Defect {
	if !setting.Stub {
		return faults.At("", "%s", faults.NoDownstream)
	}
	_, defects := faults.CheckActions(actions(), d)
	called, unknown := setting.CheckDownstream("/name", d.Name)
	defects = append(defects, unknown...)
	if called.Topic {
		defects = append(defects, d.overHTTP()...)
	}
	defects = append(defects, setting.CheckNode(d.Node, false)...)
	if limit := d.RateLimit; limit != nil {
		defects = slices.Concat(defects,
			faults.AtIf(limit.Rate <= 0, "/rate_limit/rate",
				"at this rate no attempt passes: write outage: true if none shall, or more than 0/s"),
			// HTTP's Retry-After is in whole seconds (RFC 9110, 10.2.3).
			faults.AtIf(limit.RetryAfter.D()%time.Second != 0, "/rate_limit/retry_after",
				"Retry-After is told in whole seconds: write 1s or more"))
	}
	if d.Errors != nil {
		defects = append(defects, d.Errors.validate()...)
	}
	return defects
}

// overHTTP returns the defects of settings that only a downstream that is called can have.
func (d *Downstream) overHTTP() []faults.Defect {
	var defects []faults.Defect
	for _, one := range []struct {
		path string
		is   bool
	}{
		{"/slow", d.Slow > 0}, {"/hang", d.Hang}, {"/rate_limit", d.RateLimit != nil}, {"/error_text", d.ErrorText != ""},
		{"/errors/timeout", d.Errors != nil && d.Errors.Timeout > 0},
		{"/errors/reset", d.Errors != nil && d.Errors.Reset > 0},
	} {
		defects = append(defects, faults.AtIf(one.is, one.path, "%s, which can only be refused: a delayed or missing "+
			"answer is a fault of kind kafka or network", faults.OutputOnly)...)
	}
	return defects
}

// rounding is the tolerance for a sum of shares. Shares are decimals added as floats, so a smaller excess is a rounding
// error.
const rounding = 1e-9

func (e Errors) sum() units.Percent {
	return e.Transient + e.Permanent + e.Logical + e.Timeout + e.Reset
}

func (e Errors) validate() []faults.Defect {
	switch sum := e.sum(); {
	case sum <= 0:
		return faults.At("/errors", "all shares are 0%%, so this fault could have no effect: give at least one, such as "+
			"transient: 20%%")
	case sum > 1+rounding:
		return faults.At("/errors", "the shares add up to %s: together they can be 100%% at most", sum)
	}
	return nil
}

// Stub is the downstream stub, as far as faults change it. Each method returns a function that ends the change and
// releases what it holds. The functions passed to it are called concurrently.
type Stub interface {
	// Answer lets rule answer attempts: it is called with the record and the attempt's number (from 1). OutcomeNone
	// leaves the answer to rules added later, and then to the plan. OutcomeTimeout leaves the attempt unanswered
	// until the change ends. The duration is the wait that OutcomeRateLimited asks for.
	Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) (end func())
	// Slow delays every answer; seen is called for each attempt.
	Slow(by time.Duration, seen func()) (end func())
	// ErrorText changes the error text of failures; seen is called for each failure.
	ErrorText(kind string, seen func()) (end func(), err error)
}

// Injector injects the faults of kind "downstream". It implements faults.Injector. Faults may overlap. Delays add up.
// If several faults answer attempts, they are asked in the order in which they started, and the first answer counts.
//
// Effects count what happened to attempts: "attempts answered 503" (400, 422, 429), "attempts left unanswered",
// "attempts reset", "answers delayed", "error texts changed". The first effect of each kind is reported immediately,
// the rest when the fault is lifted. Effects with a count of zero are not reported.
type Injector struct{ stub Stub }

// NewInjector returns an injector for the downstream stub.
func NewInjector(stub Stub) *Injector { return &Injector{stub: stub} }

// Inject starts a fault. Lifting it releases what it holds and reports its effects.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	spec, chosen, err := faults.Settings(active, actions())
	if err != nil {
		return nil, fmt.Errorf("breaking the downstream: %w", err)
	}
	counts := &tally{active: active}
	end, err := chosen.Do(i.stub, spec, counts)
	if err != nil {
		return nil, fmt.Errorf("breaking the downstream: %w", err)
	}
	return func(context.Context) error {
		end()
		counts.report()
		return nil
	}, nil
}

// answer starts a fault that answers attempts by a rule.
func answer(ruleOf func(d *Downstream, seed uint64) rule) start {
	return func(stub Stub, d *Downstream, counts *tally) (end func(), err error) {
		rule := ruleOf(d, counts.active.Seed)
		return stub.Answer(func(record, attempt int32) (history.Outcome, time.Duration) {
			outcome, wait := rule(record, attempt)
			counts.answer(outcome)
			return outcome, wait
		}), nil
	}
}
