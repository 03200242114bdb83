// Package agreement compares the checkers with what is known of generated histories: those that are correct by
// construction must not be accused, those with one corruption must show exactly that, and of any history, however
// damaged, the checkers must say what the reference checker says. It runs no consumer and starts nothing.
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

// Report counts what was compared; the reports of many seeds add up.
type Report struct {
	// Histories is how many were judged, Events how many events they have.
	Histories, Events int64
	// Correct is how many correct histories each invariant judged something in.
	Correct map[string]int64
	// Corrupted is how often each corruption was made and shown, by its name.
	Corrupted map[string]int64
	// Compared is how many records the reference checker had an opinion on, by invariant; Decided how many records it
	// could decide at all, of Records.
	Compared         map[string]int64
	Decided, Records int64
}

// NewReport returns an empty report.
func NewReport() *Report {
	return &Report{Correct: map[string]int64{}, Corrupted: map[string]int64{}, Compared: map[string]int64{}}
}

// Add adds another report.
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

// Check makes the history of a seed and judges it as it is, with one corruption, and scrambled. The error says what was
// not as it must be; the seed makes the same again.
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
	switch c.Intn(others) {
	case 1:
		errs = append(errs, r.other("a graph", generate.Graph, generate.GraphCorruptions(), c))
	case 2:
		errs = append(errs, r.other("a dead-letter store", generate.Store, generate.StoreCorruptions(), c))
	case 3, 4, 5:
		errs = append(errs, r.other("records without an id", generate.Unnamed,
			slices.Concat(generate.UnnamedCorruptions(), generate.Corruptions()), c))
	}
	return errors.Join(errs...)
}

// others is in how many seeds there is one with a history of a graph, one with a dead-letter store, and three with
// records that the downstream can't identify.
const others = 12

// other is the same with histories of another kind.
func (r *Report) other(kind string, draw func(generate.Choices) *generate.History,
	corruptions []generate.Corruption, c generate.Choices) error {
	h := draw(c)
	errs := []error{r.correct(h), r.corrupt(h, c, corruptions), r.Compare(generate.Scramble(h, c))}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("of %s: %w", kind, err)
	}
	return nil
}

// oneLargerIn is in how many seeds there is one with a larger history.
const oneLargerIn = 32

// larger: a larger history shows just what it was made to, and the two judges agree on it, also after random edits.
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

// errTooMany: the checkers found more than they tell of, so that what they found can't be compared.
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

// correct: no anomaly, and what judged something passes; where something was in the way, it may also say that it can't
// tell.
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

// corrupt makes one of the corruptions that apply, trying them in a drawn order.
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

// Compare holds the checkers against the reference checker, on the records that this can decide.
func (r *Report) Compare(h *generate.History) error {
	_, verdict, err := r.judge(h)
	if errors.Is(err, errTooMany) {
		return nil // random edits may break very much at once
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

// seen returns what the checkers found in the words of the reference checker.
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

// list writes findings down in one order.
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
