package scenarios

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/registry"
	"github.com/dlqbench/dlqbench/history"
)

// Unfit says why a scenario that was written for the reference consumer has nothing to show of the subject, and what to
// do about that; it is empty where it has. What the reference's settings make a scenario about, the subject's contract
// must promise: otherwise its faults meet nothing, or what it is to prove is not judged.
func (s *Scenario) Unfit(subject *SubjectFile) string {
	if why := cmp.Or(s.unfitKind(), s.unfitInput(subject), s.unfitOutput(subject), s.unfitLetters(subject)); why != "" {
		return why
	}
	own, contract := s.Subject.Reference, subject.Contract
	if s.Replay != nil && s.sendsUnreadable() && contract.Poison == string(history.PoisonHalt) {
		return s.Name + " replays dead letters to a consumer that has halted at a record that it can't read, and handles " +
			"nothing behind it: leave out garbage and malformed records, or run another scenario"
	}
	if own == nil {
		return ""
	}
	envelope := string(own.Envelope)
	for _, need := range []struct {
		about, advice string
		unmet         bool
	}{
		{
			"a share group (KIP-932)", "write group_type: share in its contract if it consumes through one",
			own.GroupProtocol == consumer.ProtocolShare && contract.GroupType != string(history.GroupShare),
		},
		{
			"the group protocol of KIP-848", "write group_protocol: consumer in its contract if its client is configured so",
			own.GroupProtocol == consumer.ProtocolConsumer && contract.GroupProtocol != consumer.ProtocolConsumer,
		},
		{
			"the classic group protocol", "leave group_protocol out of its contract if its client does not use another",
			cmp.Or(contract.GroupProtocol, consumer.ProtocolClassic) != consumer.ProtocolClassic &&
				slices.ContainsFunc(s.Faults, ofClassicGroup),
		},
		{
			"offsets that are committed to Kafka", "leave commits: never out of its contract if it commits them",
			contract.Commits.After == CommitsNever && slices.ContainsFunc(s.Faults, ofCommits),
		},
		{
			"a consumer group", "write group_protocol: classic in its contract if its instances share the partitions in one",
			contract.Commits.After == CommitsNever && contract.GroupProtocol == "" && slices.ContainsFunc(s.Faults, ofGroup),
		},
		{
			"offsets and dead letters in one transaction", "write transactions: true in its contract if it writes them so",
			own.Transactions && !contract.Transactions,
		},
		{
			"what a consumer without a dead-letter topic does", "write dlq: {enabled: false} in its contract if it has none",
			!own.DLQEnabled && contract.DLQ.Enabled,
		},
		{
			"dead letters in the envelope " + envelope, "write envelope: " + envelope + " in its contract if they are",
			envelope != deadletter.PlainName && string(contract.DLQ.Envelope) != envelope,
		},
		{
			"retry topics", "write retry: topics in its contract if it has them",
			own.Retry == string(history.RetryTopics) && contract.Retry != string(history.RetryTopics),
		},
	} {
		if need.unmet {
			return fmt.Sprintf("%s is about %s, which the subject does not promise: %s, or run another scenario", s.Name,
				need.about, need.advice)
		}
	}
	return ""
}

// Blind says why no record of the scenario can show that the subject loses it; "" if one can. Without calls that are
// seen, only a dead letter or an effect shows more of a record's end than the commit, and what the scenario makes fail
// elsewhere does not fail.
func (s *Scenario) Blind(subject *SubjectFile) string {
	contract := subject.Contract
	switch {
	case subject.Observe != ObserveWire || contract.Effects != nil:
		return ""
	case contract.Poison == string(history.PoisonSkip):
		return "with observe: wire and poison: skip nothing shows what becomes of its records: say in the contract where " +
			"the results are (effects)"
	case !s.sendsUnreadable():
		return "it has no records that can't be read, and with observe: wire nothing else shows what becomes of a record"
	}
	return ""
}

// onCalls are figures that calls show, and onLetters are those that dead letters do.
var (
	onCalls   = regexp.MustCompile(`\.(succeeded|logical|attempts|duplicates)\b`)
	onLetters = regexp.MustCompile(`\.dead_lettered\b`)
)

// fit changes what the scenario's file says of the consumer that it was written for and that does not hold for the
// subject that runs: thresholds, and the numbers of instances. What the user sets stays. written is the number of
// instances in the file, -1 if it has none; subject is the path of the subject in the place of its own, if not "".
func (d *document) fit(written int, subject string) {
	if d.root == nil {
		return
	}
	most := maxInstances
	if subject != "" {
		file, err := LoadSubject(subject)
		if err != nil {
			return // the check of the scenario says so
		}
		d.fitThresholds(file)
		d.fitOutcomes(file)
		d.fitLetters(file)
		most = file.MostInstances()
	}
	if count := min(d.instances().whole(), most); count > 0 {
		d.fitFaults("/faults", written, count)
		d.fitFaults("/drill/faults", written, count)
	}
}

// fitThresholds takes those thresholds out of a shipped scenario that are on what the subject's contract does not have:
// calls, or dead letters. They were written for the reference consumer.
func (d *document) fitThresholds(subject *SubjectFile) {
	list := d.root.get("/expect/thresholds")
	if _, shipped := Shipped(d.name); !shipped || list == nil || list.kind != listNode {
		return
	}
	list.items = slices.DeleteFunc(list.items, func(one *node) bool {
		return one.at.file == d.name && (subject.Observe == ObserveWire && onCalls.MatchString(one.text) ||
			!subject.Contract.DLQ.Enabled && onLetters.MatchString(one.text))
	})
}

// fitOutcomes takes the records out of a shipped scenario that by the subject's contract would never come to their end.
func (d *document) fitOutcomes(subject *SubjectFile) {
	contract, err := subject.HistoryContract()
	if _, shipped := Shipped(d.name); !shipped || err != nil {
		return
	}
	never, outcomes := NeverEnding(&contract), d.root.get("/workload/outcomes")
	for _, outcome := range never {
		if weight := outcomes.get("/" + outcome); weight != nil && weight.at.file == d.name {
			outcomes.drop(outcome)
		}
	}
	if list := d.root.get("/workload/failing"); list != nil {
		list.items = slices.DeleteFunc(list.items, func(one *node) bool {
			outcome := cmp.Or(one.get("/outcome"), &node{})
			return outcome.at.file == d.name && slices.Contains(never, outcome.text)
		})
	}
}

// NeverEnding returns the outcomes, as scenarios name them, of records that fail at every attempt and so never come to
// their end by the contract.
func NeverEnding(contract *history.Contract) (names []string) {
	for _, one := range []struct {
		name   string
		answer history.Outcome
	}{
		{"exhausted", history.OutcomeTransient}, {"permanent", history.OutcomePermanent},
		{"logical", history.OutcomeLogical},
	} {
		if contract.NeverEnds(one.answer) {
			names = append(names, one.name)
		}
	}
	return names
}

// fitFaults lets the faults that are written in the file for instances of the scenario's own hit the instances that
// there are, if these are fewer.
func (d *document) fitFaults(path string, written, count int) {
	list := d.root.get(path)
	if list == nil || list.kind != listNode {
		return
	}
	for _, fault := range list.items {
		for _, what := range fault.fields {
			one := what.fields["instance"]
			if number := one.whole(); number >= count && number < written && one.at.file == d.name {
				one.scalar, one.text = number%count, strconv.Itoa(number%count)
			}
		}
	}
}

// unfitKind says why no other subject can take the place of the scenario's own; "" if one can.
func (s *Scenario) unfitKind() string {
	switch {
	case s.Store != nil:
		return s.Name + " is about dlqbench's own dead-letter store, and shows nothing of the subject: run it without " +
			"--subject. A store of the subject's own is judged in other scenarios (docs/judging-stores.md)"
	case s.Graph != nil:
		return s.Name + " is about a graph of nodes, which are its subject: run it without --subject"
	case s.Services != nil:
		return s.Name + " is about several services, which are its subject: run it without --subject"
	}
	return ""
}

// NeedsSubject says why the reference consumer can't be the scenario's subject, and what to do about that; it is empty
// where it can.
func (s *Scenario) NeedsSubject() string {
	if s.Subject.File == "" && s.asksRegistry() {
		return s.Name + " is about the schema registry, which the reference consumer does not ask: run it with --subject, " +
			"and a subject whose records have a schema"
	}
	return ""
}

// asksRegistry reports whether the scenario is about what the subject does when its schema registry fails.
func (s *Scenario) asksRegistry() bool {
	return slices.ContainsFunc(s.Faults, func(f catalogue.Spec) bool { return f.Traits().Target == registry.Target })
}

func ofClassicGroup(f catalogue.Spec) bool { return f.Kafka != nil && f.Kafka.OfClassicGroup() }

func ofCommits(f catalogue.Spec) bool { return f.Kafka != nil && f.Kafka.OfCommits() }

// ofGroup reports whether the fault is one of a group's coordinator, or has partitions change hands between members.
func ofGroup(f catalogue.Spec) bool {
	return f.Kafka != nil && f.Kafka.OfGroup() || f.Broker != nil && f.Broker.MoveCoordinator ||
		f.Subject != nil && f.Subject.ScaleUp+f.Subject.ScaleDown > 0
}
