package learn

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:embed watch.yaml
var watchScenario []byte

//go:embed break.yaml
var breakScenario []byte

// breakName is the name of the scenario with faults.
const breakName = "break.yaml"

// Config is what is learned from.
type Config struct {
	// File is the path of the subject file, Text what it holds.
	File string
	Text []byte
	// Options are those of all runs, without scenario and subject.
	Options run.Options
	// Given is what records are made from, for a file that does not say it.
	Given Given
	// Answer is the body with which calls that succeed are answered, "" for the usual one.
	Answer string
	// Made says that the file was written for learning, so that what it says of calls is replaced by what is seen.
	Made bool
	// Topics are names that its topics may have, as the code shows.
	Topics []string
	// Run carries out a run; it is run.Run with whatever shows its progress. Discover is run.Discover.
	Run      func(context.Context, run.Options) (*run.Outcome, error)
	Discover func(context.Context, run.Options) (dir string, err error)
}

// Report is what was learned.
type Report struct {
	// Lines are the contract, in order.
	Lines []Line
	// Found are the other entries of the subject file that were found out or given.
	Found string
	// Text is the subject file with that contract, Subject what it says.
	Text    []byte
	Subject *scenarios.SubjectFile
	// Odd are the surprising things that were seen, in sentences. Those that broke a promise come first.
	Odd []string
	// Notes say why the run with faults proved less than it should.
	Notes []string
	// Records is how many records were sent in the run without faults; Runs are the run directories.
	Records int
	Runs    []string
}

// ErrNothingSeen is the error for a consumer of which nothing could be learned, because it did not consume or made no
// call.
var ErrNothingSeen = errors.New("nothing to learn from")

// errInterrupted is the error for a run that the user ended.
var errInterrupted = errors.New("interrupted")

// ErrGiven is the error for what is given beside a subject file that says something else.
var ErrGiven = errors.New("what is given does not fit the subject file")

// Learn watches the consumer of a subject file and proposes its contract. What the file's own contract says of names
// (topics, groups) and kinds (group_type, retry) is kept; all else is learned. The error reports a subject file that is
// wrong, a run that failed, or a consumer that did nothing (ErrNothingSeen), or that refuses its records (ErrRecords)
// or the usual answer (ErrAnswer). With an error, a report has only the text of the file with what was found before. If
// ctx ends during the run with faults, it has everything else, too, and a Subject.
func Learn(ctx context.Context, c Config) (*Report, error) {
	subject, err := scenarios.ParseSubject(c.File, c.Text)
	if err != nil {
		return nil, err
	}
	if subject.External != nil {
		return nil, fmt.Errorf("%w: %s says kind: %s, and learning starts, kills and restarts the consumer: say how "+
			"it is started (kind: process with a command, or kind: container with an image). If it looks for Kafka and for "+
			"what it calls at fixed ports, name them there: listen: {kafka: %d, downstream: %d}", ErrNothingSeen, c.File,
			subject.Kind, subject.External.Kafka, subject.External.Downstream)
	}
	report := &Report{}
	k := &look{Config: &c, report: report, text: c.Text, subject: subject, found: map[string]string{}, placed: c.Made}
	if err := cmp.Or(k.give(c.Given), k.answer()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGiven, err)
	}
	err = k.around(ctx)
	report.Text = k.text
	if err != nil {
		return report, err
	}
	report.Found = changed(c.Text, k.text)
	c.Text, subject = k.text, k.subject
	return report, c.learn(ctx, report, subject, k.found)
}

// learn proposes the contract of a subject whose names are known.
func (c *Config) learn(ctx context.Context, report *Report, subject *scenarios.SubjectFile,
	found map[string]string) error {
	w, err := watchTwice(func(sets ...string) (*seen, history.Source, error) {
		return c.watch(ctx, report, subject, sets)
	})
	if err != nil {
		return err
	}
	if err := w.nothing(subject); err != nil {
		return err
	}
	l := propose(w, subject, found)
	l.path, l.text = c.File, c.Text
	if err := l.strengthen(w.source); err != nil {
		return err
	}
	report.Records = len(w.records)
	ended := report.untested(ctx, l.test(ctx, *c, report))
	l.arrange()
	report.Lines, report.Odd = l.lines, append(report.Odd, l.odd...)
	report.Text = Splice(c.Text, Contract(l.lines))
	report.Subject, err = l.file()
	return cmp.Or(err, ended)
}

// watching is what was seen of a consumer that ran without faults.
type watching struct {
	*seen
	source history.Source
	// unread is what was seen with records that can't be read, nulls with records without a value: seen itself, unless
	// the consumer halts at those, and what is behind them waits.
	unread, nulls *seen
}

// watchTwice runs the consumer, and runs it again without the records at which it halts.
func watchTwice(run func(sets ...string) (*seen, history.Source, error)) (w watching, err error) {
	if w.seen, w.source, err = run(); err != nil {
		return w, err
	}
	w.unread, w.nulls = w.seen, w.seen
	if w.haltsAtNull() && (len(w.crashes) > 0 || !w.haltsAtUnreadable()) {
		if w.seen, w.source, err = run(no("tombstones")); err != nil {
			return w, err
		}
		w.unread = w.seen
	}
	if w.haltsAtUnreadable() {
		w.seen, w.source, err = run(readable()...)
	}
	return w, err
}

// watch runs the consumer without faults, with these settings of the scenario, and returns what was seen of it.
func (c *Config) watch(ctx context.Context, report *Report, subject *scenarios.SubjectFile,
	sets []string) (*seen, history.Source, error) {
	s := newSeen()
	source, verdict, err := c.run(ctx, report, "watch.yaml", watchScenario, least(subject), s, sets...)
	if err != nil {
		return nil, nil, err
	}
	if err := together(verdict); err != nil {
		return nil, nil, err
	}
	if err := s.read(source); err != nil {
		return nil, nil, fmt.Errorf("reading the history of %s: %w", report.Runs[len(report.Runs)-1], err)
	}
	return s, source, nil
}

// together reports that the instances all do the same work, so that nothing of one can be told from that of the others.
func together(verdict *assertions.Verdict) error {
	for _, one := range verdict.Open {
		if one.What == assertions.OpenDeliveries {
			return fmt.Errorf("%w: %s. Have each instance take partitions of its own ({{.Instance}} is its number), or "+
				"subscribe with the group, and learn again", ErrNothingSeen, one.Why)
		}
	}
	return nil
}

// run carries out one of the scenarios with these settings, and returns its history and its verdict.
func (c *Config) run(ctx context.Context, report *Report, name string, text []byte, subject *scenarios.SubjectFile,
	audited *seen, sets ...string) (history.Source, *assertions.Verdict, error) {
	options, err := c.options(name, text, subject, sets...)
	if err != nil {
		return nil, nil, err
	}
	options.Audited, options.Discovery = audited.audited, audited.discovery
	outcome, err := c.Run(ctx, options)
	if outcome != nil {
		report.Runs = append(report.Runs, outcome.Dir)
	}
	if err != nil {
		return nil, nil, err
	}
	if outcome.Interrupted {
		return nil, nil, errInterrupted
	}
	reader, err := history.Open(filepath.Join(outcome.Dir, "history"))
	if err != nil {
		return nil, nil, err
	}
	return reader, outcome.Verdict, nil
}

// options are those of a run of one of the scenarios with these settings.
func (c *Config) options(name string, text []byte, subject *scenarios.SubjectFile, sets ...string) (run.Options,
	error) {
	options := c.Options
	if subject.Input != nil && !subject.Input.Header {
		sets = append(sets, readable()...) // only the header of dlqbench's own follows a record without a readable id
	}
	if subject.MostInstances() == 1 {
		sets = append(sets, "subject.reference.instances=1")
	}
	scenario, source, err := scenarios.ParseWith(name, text, sets)
	if err != nil {
		return options, err
	}
	scenario.Subject = scenarios.Subject{File: c.File, Instances: scenario.InstanceCount()}
	options.Scenario, options.Source = scenario, source
	options.Subject, options.SubjectFile = subject, c.File
	return options, nil
}

// readable leaves out the records without a readable id.
func readable() []string {
	return []string{no("garbage"), no("tombstones"), no("malformed.share")}
}

// no leaves out the records of a kind.
func no(kind string) string { return "workload." + kind + "=0%" }

// least returns the subject with a contract that promises nothing but names and kinds, so that the run waits for
// whatever the consumer does.
func least(of *scenarios.SubjectFile) *scenarios.SubjectFile {
	subject := *of
	own := of.Contract
	subject.Contract = scenarios.LeastContract()
	c := &subject.Contract
	c.Group, c.GroupType, c.GroupProtocol, c.Transactions = own.Group, own.GroupType, own.GroupProtocol, own.Transactions
	c.Retry, c.RetryTopics, c.Health, c.OffsetMetadata = own.Retry, own.RetryTopics, own.Health, own.OffsetMetadata
	c.OnError, c.OnExhausted, c.OnUnhealthy = own.OnError, own.OnExhausted, own.OnUnhealthy
	c.DLQ.Enabled, c.DLQ.Topic, c.DLQ.WrittenBy = own.DLQ.Enabled, own.DLQ.Topic, own.DLQ.WrittenBy
	c.DLQ.OnFailure, c.Attempts.Counter = own.DLQ.OnFailure, own.Attempts.Counter
	c.Stop.Grace = longGrace
	if own.Effects != nil && own.Effects.Topic != "" {
		c.Effects = own.Effects // without it, the topic would not be there
	}
	return &subject
}

// nothing reports why nothing can be learned of the consumer.
func (s *seen) nothing(subject *scenarios.SubjectFile) error {
	said := ""
	if len(s.said) > 0 {
		said = "; its log says: " + strings.Join(s.said, " | ")
	}
	untaken := unschooled(subject, s.said) + said
	if s.shared && subject.Contract.GroupType != string(history.GroupShare) {
		return fmt.Errorf("%w: it consumes through a share group: write contract: {group_type: share} in its file, and "+
			"learn again", ErrNothingSeen)
	}
	tried := slices.ContainsFunc(s.records, func(r record) bool { return len(r.tries) > 0 })
	if !tried && subject.Postgres() != nil {
		return fmt.Errorf("%w: the database saw no transaction about any of %d records. Give the consumer {{.DatabaseURL}}, "+
			"or its parts, as the address of its database; if another program creates its tables, name that in needs, with "+
			"once: true%s", ErrNothingSeen, len(s.records), untaken)
	}
	if !tried && subject.Observe != scenarios.ObserveWire {
		uncommitted := ""
		if s.commits == 0 && !s.shared {
			uncommitted = ", and no offset was committed for the group " + s.header.Group()
		}
		return fmt.Errorf("%w: the downstream stub saw no call for any of %d records%s. Give the consumer the address "+
			"{{.OracleURL}} in the place of what it calls, name the port at which it calls something (listen: {downstream: "+
			"8080}), or write observe: wire in its file if it calls nothing%s",
			ErrNothingSeen, len(s.records), uncommitted, untaken)
	}
	if s.batch != "" {
		advice := ""
		if subject.HTTP() != nil {
			advice = "If the call is for all of them, write batch: true under its downstream (http). Else w"
		}
		if subject.Postgres() != nil {
			advice = "If a transaction is for all of them, write batch: true under its downstream (postgres). If records made " +
				"from one sample share a value, such as the number of an order, write the sample's id there, so that each " +
				"record has a value of its own. Else w"
		}
		return fmt.Errorf("%w: it calls for several records at once (%s), and dlqbench takes a call for an attempt at one. "+
			"%srite observe: wire in its file, and learn again: what needs attempts is then not judged", ErrNothingSeen,
			s.batch, cmp.Or(advice, "W"))
	}
	if most, ended := s.longest(); s.commits == 0 && !s.shared && !ended && tried && len(s.records[most].tries) > 1 {
		return fmt.Errorf("%w: it tried record %d %d times and finished no record. One that retries until it succeeds can't "+
			"be watched: if only some of what it calls is retried so, say which call or statement counts "+
			"(docs/real-services.md)%s", ErrNothingSeen, most, len(s.records[most].tries), said)
	}
	if s.commits == 0 && !s.shared {
		return fmt.Errorf("%w: no offset was committed for the group %s: name the consumer's own group in contract.group, "+
			"or give it {{.GroupID}}. If it keeps its offsets outside Kafka, write the contract by hand, with commits: "+
			"never%s", ErrNothingSeen, s.header.Group(), said)
	}
	return nil
}

// longest returns the record with the most attempts, and whether any record came to an end, by a success or a dead
// letter.
func (s *seen) longest() (most int, ended bool) {
	for i, one := range s.records {
		if len(one.tries) > len(s.records[most].tries) {
			most = i
		}
		ended = ended || one.deadLetters > 0 ||
			slices.ContainsFunc(one.tries, func(t try) bool { return t.outcome == history.OutcomeSuccess })
	}
	return most, ended
}

// test runs the consumer under faults, judged by what was learned.
func (l *learned) test(ctx context.Context, c Config, report *Report) error {
	subject, err := l.file()
	if err != nil {
		return err
	}
	s := newSeen()
	source, verdict, err := c.run(ctx, report, breakName, breakScenario, subject, s)
	if err != nil {
		return err
	}
	if err := s.read(source); err != nil {
		return fmt.Errorf("reading the history of %s: %w", report.Runs[len(report.Runs)-1], err)
	}
	l.onFailure(s, verdict)
	stored, err := l.stored(source, verdict)
	if err != nil {
		return err
	}
	for _, root := range verdict.Roots {
		if stored && root.Invariant == "bounded-retries" {
			continue
		}
		text := fmt.Sprintf("%s: %s × %d: %s", root.Invariant, root.Anomaly, root.Count, root.Summary)
		var more []string
		for _, one := range root.Consequences {
			more = append(more, fmt.Sprintf("%s: %s × %d", one.Invariant, one.Anomaly, one.Count))
		}
		if len(more) > 0 {
			text += "; it leads to " + strings.Join(more, ", ")
		}
		report.Odd = append(report.Odd, text)
	}
	if verdict.Verdict == assertions.Inconclusive {
		report.Notes = append(report.Notes, verdict.Reasons...)
	}
	return nil
}

// untested notes that the run with faults failed. What was learned before it is kept. It returns the error if the user
// ended the run.
func (r *Report) untested(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	how, ended := fmt.Sprintf("failed (%v)", err), error(nil)
	if ctx.Err() != nil {
		how, ended = "was interrupted", err
	}
	r.Notes = append(r.Notes, fmt.Sprintf("the run with faults %s, so nothing shows that the contract is kept under "+
		"faults, and on_failure is a default", how))
	return ended
}

// broken tells the anomalies of an invariant in sentences.
func broken(result assertions.Result) []string {
	var all []string
	for _, anomaly := range result.Anomalies {
		text := fmt.Sprintf("%s: %s × %d", result.Name, anomaly.Name, anomaly.Count)
		if len(anomaly.Counterexamples) > 0 {
			text += ": " + anomaly.Counterexamples[0].Summary
		}
		all = append(all, text)
	}
	return all
}

// onFailure finds out what the process does when a dead letter is refused.
func (l *learned) onFailure(s *seen, verdict *assertions.Verdict) {
	for _, fault := range verdict.Faults {
		if fault.API != "Produce" || fault.Observed.From <= 0 {
			continue
		}
		for _, one := range s.crashes {
			if one.at < fault.Observed.From || one.code <= 0 {
				continue
			}
			l.replace("dlq", "on_failure: "+string(history.OnFailureHalt), "on_failure: "+string(history.OnFailureCrash),
				fmt.Sprintf("When dead letters were refused, a process ended with %s.", ending(one.code, one.text)))
			return
		}
	}
}

// replace changes a part of a line's value.
func (l *learned) replace(key, from, to, because string) {
	for i := range l.lines {
		if l.lines[i].Key == key && strings.Contains(l.lines[i].Value, from) {
			l.lines[i].Value = strings.Replace(l.lines[i].Value, from, to, 1)
			l.lines[i].Seen += " " + because
		}
	}
}

// arrange puts the lines in the order in which subject files have them.
func (l *learned) arrange() {
	order := []string{"group", "", "group_type", "group_protocol", "transactions", "attempts", "backoff", "classes",
		"logical", "retry_after", "ordering", "order_of", "retry", "retry_topics", "effects", "dlq", "poison", "skips",
		"commits", "offset_metadata", "on_exhausted", "on_error", "on_unhealthy", "health", "stop"}
	slices.SortStableFunc(l.lines, func(a, b Line) int { return slices.Index(order, a.Key) - slices.Index(order, b.Key) })
}
