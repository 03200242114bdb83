package learn

// What the judge says of a proposal. It holds the consumer, in the history that the proposal was learned from, to each
// promise, so that nothing is promised that was broken already.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// held is a history under another contract than it was recorded with.
type held struct {
	history.Source
	contract history.Contract
}

// Header implements history.Source.
func (h held) Header() history.Header {
	header := h.Source.Header()
	header.Consumers = append([]history.Consumer(nil), header.Consumers...)
	header.Consumers[0].Contract = h.contract
	return header
}

// Sealed tells the judge that the history is whole: an incomplete one is not learned from.
func (held) Sealed() bool { return true }

// hold judges the history by the contract of the subject file. Metadata of dead letters is left out: a history holds
// only what was decoded when it was recorded.
func hold(source history.Source, subject *scenarios.SubjectFile) ([]assertions.Result, error) {
	contract, err := subject.HistoryContract()
	if err != nil {
		return nil, err
	}
	contract.DeadLetters, contract.Envelope = contract.HasDLQ(), ""
	verdict, _, err := assertions.Judge(held{source, contract})
	if err != nil {
		return nil, fmt.Errorf("judging what was learned: %w", err)
	}
	return verdict.Invariants, nil
}

// strengthen adds the strongest order that the history does not contradict, and takes back what it does.
func (l *learned) strengthen(source history.Source) error {
	if l.subject.Observe != scenarios.ObserveWire && !l.seen.shared {
		if err := l.order(source); err != nil {
			return err
		}
	}
	subject, err := l.file()
	if err != nil {
		return err
	}
	results, err := hold(source, subject)
	if err != nil {
		return err
	}
	guessed := map[string]string{"backoff": "backoff", "bounded-retries": "attempts"}
	if l.found["contract.effects"] != "" {
		guessed["effects"] = "effects"
	}
	for _, result := range results {
		if key := guessed[result.Name]; key != "" && result.Status == assertions.Fail {
			l.withdraw(key, result)
		} else if result.Status == assertions.Fail {
			l.odd = append(l.odd, broken(l.seen.opened(result))...)
		}
	}
	return nil
}

// opened leaves out the dead letters whose values differ from those of their records, if a member of them has these:
// the run was recorded before the envelope was known.
func (s *seen) opened(result assertions.Result) assertions.Result {
	if s.valuePlace() != nil {
		result.Anomalies = slices.DeleteFunc(slices.Clone(result.Anomalies), func(a assertions.Anomaly) bool {
			return a.Name == "payload-changed"
		})
	}
	return result
}

// stored promises that attempts are counted across restarts, if records of the run with faults got too few attempts
// after one, and all got enough when those before it count. It reports whether it does.
func (l *learned) stored(source history.Source, verdict *assertions.Verdict) (bool, error) {
	at := slices.IndexFunc(l.lines, func(line Line) bool { return line.Key == "attempts" && !line.Open })
	bounded := func(results []assertions.Result) int {
		return slices.IndexFunc(results, func(r assertions.Result) bool { return r.Name == "bounded-retries" })
	}
	if was := bounded(verdict.Invariants); at < 0 || was < 0 || !slices.ContainsFunc(verdict.Invariants[was].Anomalies,
		func(a assertions.Anomaly) bool { return a.Name == "under-retried" }) {
		return false, nil
	}
	before := l.lines[at]
	l.replace("attempts", "counter: "+string(history.CounterMemory), "counter: "+string(history.CounterStore),
		"After a restart the count went on: it is kept outside the process.")
	subject, err := l.file()
	if err != nil {
		return false, err
	}
	results, err := hold(source, subject)
	if err != nil {
		return false, err
	}
	if now := bounded(results); now >= 0 && results[now].Status == assertions.Pass && l.lines[at].Value != before.Value {
		return true, nil
	}
	l.lines[at] = before
	return false, nil
}

func (l *learned) order(source history.Source) error {
	for _, ordering := range []history.Ordering{history.OrderingPartition, history.OrderingKey} {
		if done, err := l.orders(source, Line{Key: "ordering", Value: string(ordering)}); done || err != nil {
			return err
		}
		done, err := l.orders(source, Line{Key: "ordering", Value: string(ordering)},
			Line{Key: "order_of", Value: scenarios.OrderOfAttempts,
				Seen: "The next record begins before the dead letter of the one before is acknowledged."})
		if done || err != nil {
			return err
		}
	}
	l.promise("ordering", string(history.OrderingNone), "Records of one key passed each other.")
	return nil
}

// orders promises an order if the history does not contradict it. done says that no weaker one needs to be tried.
func (l *learned) orders(source history.Source, lines ...Line) (done bool, err error) {
	subject, err := l.file(lines...)
	if err != nil {
		return false, err
	}
	results, err := hold(source, subject)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(results, func(r assertions.Result) bool { return r.Name == "ordering" })
	if at < 0 {
		return true, nil
	}
	switch result := results[at]; {
	case result.Status == assertions.Pass && result.Judged > 0:
		lines[0].Seen = fmt.Sprintf("%d %s were judged, and none was out of order.", result.Judged, result.Of)
	case result.Status != assertions.Fail:
		lines[0].Seen = "Not tested: no record failed while others waited behind it."
		for i := range lines {
			lines[i].Open = true
		}
	default:
		return false, nil
	}
	l.lines = append(l.lines, lines...)
	return true, nil
}

// withdraw turns a promise into a question.
func (l *learned) withdraw(key string, result assertions.Result) {
	for i := range l.lines {
		line := &l.lines[i]
		// Without a promised wait, an attempt can't be told from a call that is repeated.
		both := l.client.sure && (key == "backoff" || key == "attempts") && (line.Key == "backoff" || line.Key == "attempts")
		if line.Key != key && !both || line.Open {
			continue
		}
		line.Open = true
		line.Seen += " Not promised, as it does not always hold: " + strings.Join(broken(result), "; ") + "."
	}
}
