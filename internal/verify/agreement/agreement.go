// Package agreement compares the checkers with what is known about generated histories. The checkers must not accuse a
// history that is correct by construction, must find exactly the one anomaly in a history with one corruption, and must
// agree with the reference checker on any history, however damaged. The package runs no consumer and starts no process.
package agreement

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/verify/generate"
	"github.com/dlqbench/dlqbench/internal/verify/reference"
)

// Report counts the comparisons. Reports of several seeds can be added.
type Report struct {
	// Histories is the number of histories judged, Events the number of their events.
	Histories, Events int64
	// Correct is, for each invariant, the number of correct histories in which it judged something.
	Correct map[string]int64
	// Corrupted is, for each corruption by name, the number of times it was made and found.
	Corrupted map[string]int64
	// Compared is, for each invariant, the number of records on which the reference checker had an opinion. Decided is
	// the number of records, out of Records, that it could decide.
	Compared         map[string]int64
	Decided, Records int64
}

// NewReport returns an empty report.
func NewReport() *Report {
	return &Report{Correct: map[string]int64{}, Corrupted: map[string]int64{}, Compared: map[string]int64{}}
}

// Add adds the counts of another report.
func (r *Report) Add(other *Report) {
	r.Histories += other.Histories
	r.Events += other.Events
	r.Decided += other.Decided
	r.Records += other.Records
	for _, one := range []struct{ to, from map[string]int64 }{
		{r.Correct, other.Correct}, {r.Corrupted, other.Corrupted}, {r.Compared, other.Compared},
	} {
		for name, n := range one.from {
			one.to[name] += n
		}
	}
}

// corruptions returns the number of corrupted histories.
func (r *Report) corruptions() (n int64) {
	for _, count := range r.Corrupted {
		n += count
	}
	return n
}

// Check generates the history of a seed and judges it three times: unchanged, with one corruption, and scrambled. The
// error describes the first disagreement. The same seed reproduces it.
func Check(seed uint64) (*Report, error) {
	report := NewReport()
	if err := report.check(generate.NewSeeded(seed)); err != nil {
		return report, fmt.Errorf("checking the histories of seed %d: %w", seed, err)
	}
	return report, nil
}

func (r *Report) check(c generate.Choices) error {
	h := generate.Consumer(c)
	var errs []error
	errs = append(errs, r.correct(h))
	errs = append(errs, r.corrupt(h, c, generate.Corruptions()))
	scrambled := generate.Scramble(h, c)
	if err := r.Compare(scrambled); err != nil {
		errs = append(errs, fmt.Errorf("after random edits: %w", err))
	}
	if c.Intn(oneLargerIn) == oneLargerIn-1 {
		errs = append(errs, r.larger(c))
	}
	switch of := c.Intn(others); of {
	case 0:
		errs = append(errs, r.transactions(c))
	case 1:
		errs = append(errs, r.other("a graph", generate.Graph, generate.GraphCorruptions(), c))
	case 2:
		errs = append(errs, r.other("a dead-letter store", generate.Store, generate.StoreCorruptions(), c))
	case 3, 4, 5:
		errs = append(errs, r.other("records without an id", generate.Unnamed,
			slices.Concat(generate.UnnamedCorruptions(), generate.Corruptions()), c))
		if of == 5 {
			errs = append(errs, r.other("a consumer that halts", generate.Halting, generate.HaltingCorruptions(), c),
				r.other("records that may be refused", generate.Refusable, generate.RefusableCorruptions(), c))
		}
	case 6:
		errs = append(errs, r.other("a consumer with effects", generate.Effects, generate.EffectsCorruptions(), c),
			r.other("records produced twice", generate.Twice, generate.TwiceCorruptions(), c))
	case 7, 8:
		errs = append(errs, r.other("several downstreams", generate.Several, generate.SeveralCorruptions(), c),
			r.other("calls for several records", generate.Bulk, generate.BulkCorruptions(), c))
		if of == 8 {
			errs = append(errs, r.other("calls for several records with effects", generate.BulkEffects,
				generate.EffectsCorruptions(), c))
		}
	case 9, 10:
		errs = append(errs, r.other("repeated calls", generate.Repeats, generate.RepeatsCorruptions(), c))
		if of == 10 {
			errs = append(errs, r.other("attempts of several calls", generate.Spans, generate.Corruptions(), c),
				r.other("attempts of several repeated calls", generate.RepeatedSpans, generate.RepeatsCorruptions(), c))
		}
	case 11:
		errs = append(errs, r.other("effects elsewhere", generate.SeveralEffects, generate.EffectsCorruptions(), c),
			r.other("several input topics", generate.Inputs, generate.Corruptions(), c))
	}
	return errors.Join(errs...)
}

// others is the interval of seeds in which one seed gets a history with transactions, one a history of a graph, one a
// history with a dead-letter store, three a history with records that the downstream stub cannot identify, one of them
// also a history of a consumer that halts at such records and one of records that it may refuse, and one a history with
// effects in a sink, and one of records that are produced twice. Two get a history of a consumer that calls several
// downstreams, and one of a consumer whose calls are for several records, one of them also with effects. One gets a
// history of several downstreams with effects, and one of several input topics. Two get a history of a consumer whose
// client repeats calls by itself, one of them also a history of a consumer whose attempts have several calls.
const others = 12

// transactions checks a correct history with transactions, and one with a corruption. Random edits of such a history
// say little, because they tear a transaction apart.
func (r *Report) transactions(c generate.Choices) error {
	h := generate.Transactions(c)
	if err := errors.Join(r.correct(h), r.corrupt(h, c, generate.TransactionCorruptions())); err != nil {
		return fmt.Errorf("of transactions: %w", err)
	}
	return nil
}

// other runs the same comparison on histories of another kind.
func (r *Report) other(kind string, draw func(generate.Choices) *generate.History,
	corruptions []generate.Corruption, c generate.Choices) error {
	h := draw(c)
	errs := []error{r.correct(h), r.corrupt(h, c, corruptions), r.Compare(generate.Scramble(h, c))}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("of %s: %w", kind, err)
	}
	return nil
}

// oneLargerIn is the interval of seeds in which one seed gets a larger history.
const oneLargerIn = 32

// larger checks that a larger history shows exactly the intended anomaly, and that the checkers and the reference
// checker agree on it, also after random edits.
func (r *Report) larger(c generate.Choices) error {
	h, shows, known := generate.Larger(c)
	found, verdict, err := r.judge(h)
	if err != nil {
		return fmt.Errorf("of a larger history: %w", err)
	}
	all := map[generate.Promise]bool{}
	for finding := range found {
		all[finding.Promise] = true
	}
	wanted := map[generate.Promise]bool{}
	for _, promise := range shows {
		wanted[promise] = true
		r.Corrupted["a larger history: "+promise.Anomaly]++
	}
	if known && !maps.Equal(all, wanted) {
		return fmt.Errorf("in a larger history the checkers find %s, and should %s", list(all), list(wanted))
	}
	if err := r.compare(h, verdict); err != nil {
		return fmt.Errorf("of a larger history: %w", err)
	}
	if err := r.Compare(generate.Scramble(h, c)); err != nil {
		return fmt.Errorf("of a larger history after random edits: %w", err)
	}
	return nil
}

// errTooMany means that the checkers found more anomalies than they list, so the findings cannot be compared.
var errTooMany = errors.New("a history shows too much")

// judge returns the findings of the checkers.
func (r *Report) judge(h *generate.History) (map[generate.Finding]bool, *assertions.Verdict, error) {
	verdict, _, err := assertions.Judge(h.Source())
	if err != nil {
		return nil, nil, err
	}
	r.Histories++
	r.Events += int64(len(h.Events))
	found := map[generate.Finding]bool{}
	for _, result := range verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			if anomaly.Count > int64(len(anomaly.Counterexamples)) {
				return nil, nil, fmt.Errorf("%w: %s names %s %d times and tells of %d", errTooMany, result.Name, anomaly.Name,
					anomaly.Count, len(anomaly.Counterexamples))
			}
			for _, counterexample := range anomaly.Counterexamples {
				found[generate.Finding{Promise: generate.Promise{Invariant: result.Name, Anomaly: anomaly.Name},
					Record: counterexample.Record}] = true
			}
		}
	}
	return found, verdict, nil
}

// correct requires that no anomaly is found and that every invariant that judged something passes. If the history
// contains disturbances, an invariant may also be inconclusive.
func (r *Report) correct(h *generate.History) error {
	found, verdict, err := r.judge(h)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return errors.Join(fmt.Errorf("a correct history is said to show %s", list(found)), r.compare(h, verdict))
	}
	for _, result := range verdict.Invariants {
		if result.Judged == 0 {
			continue
		}
		r.Correct[result.Name]++
		if result.Status != assertions.Pass && h.Calm {
			return fmt.Errorf("of a correct and undisturbed history %s says %s: %s", result.Name, result.Status, result.Why)
		}
	}
	return r.compare(h, verdict)
}

// corrupt applies one of the applicable corruptions, trying them in a drawn order.
func (r *Report) corrupt(h *generate.History, c generate.Choices, all []generate.Corruption) error {
	for len(all) > 0 {
		i := c.Intn(len(all))
		one := all[i]
		all = slices.Delete(all, i, i+1)
		damaged, expected := one.Apply(h, c)
		if damaged == nil {
			continue
		}
		found, verdict, err := r.judge(damaged)
		if err != nil {
			return err
		}
		r.Corrupted[one.Name]++
		wanted := map[generate.Finding]bool{}
		for _, finding := range expected {
			wanted[finding] = true
		}
		if !maps.Equal(found, wanted) {
			return fmt.Errorf("where %q, the checkers find %s, and should %s", one.Name, list(found), list(wanted))
		}
		if err := r.compare(damaged, verdict); err != nil {
			return fmt.Errorf("where %q: %w", one.Name, err)
		}
		return nil
	}
	return nil
}

// Compare checks the checkers against the reference checker, on the records that the reference checker can decide.
func (r *Report) Compare(h *generate.History) error {
	_, verdict, err := r.judge(h)
	if errors.Is(err, errTooMany) {
		return nil // random edits may cause very many anomalies at once
	}
	if err != nil {
		return err
	}
	return r.compare(h, verdict)
}

func (r *Report) compare(h *generate.History, verdict *assertions.Verdict) error {
	opinion := reference.Judge(&h.Header, h.Events)
	header := h.Source().Header()
	r.Records += int64(header.Records)
	r.Decided += opinion.Records()
	for name, n := range opinion.Judged {
		r.Compared[name] += n
	}
	fast := map[reference.Finding]bool{}
	for one := range seen(verdict, &header) {
		if opinion.Decided[one.Subject] && !opinion.Open[one] {
			fast[one] = true
		}
	}
	for one := range opinion.Open {
		delete(opinion.Found, one)
	}
	if !maps.Equal(fast, opinion.Found) {
		return fmt.Errorf("the checkers find %s, the definitions %s", list(fast), list(opinion.Found))
	}
	return nil
}

// seen returns the findings of the checkers in the terms of the reference checker.
func seen(verdict *assertions.Verdict, header *history.Header) map[reference.Finding]bool {
	all := map[reference.Finding]bool{}
	for _, result := range verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			for _, counterexample := range anomaly.Counterexamples {
				of := reference.OfRecord(result.Name, counterexample.Record)
				if counterexample.Record < 0 {
					of = reference.OfPartition(result.Name, header.TopicIndex(counterexample.Topic), counterexample.Partition)
				}
				all[reference.Finding{Subject: of, Anomaly: anomaly.Name}] = true
			}
		}
	}
	return all
}

// list formats findings in a fixed order.
func list[F comparable](all map[F]bool) string {
	if len(all) == 0 {
		return "nothing"
	}
	var texts []string
	for one := range all {
		texts = append(texts, fmt.Sprintf("%+v", one))
	}
	slices.SortFunc(texts, cmp.Compare)
	return strings.Join(texts, ", ")
}
