package scenarios

// A contract in sentences: what is promised, which invariants are judged because of it, and which can't be, and why.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
)

// ContractText is a contract in sentences.
type ContractText struct {
	// Promises are sentences about the subject, in the order of the contract.
	Promises []string `json:"promises"`
	// Judged and NotJudged hold each invariant that can apply to the subject once.
	Judged    []Reason `json:"judged"`
	NotJudged []Reason `json:"not_judged"`
}

// Reason says of an invariant what it holds the subject to, or why it is not judged; Needs is what has it judged: a
// kind of scenario, a line of the contract. It is "" where any load does, and where nothing that could be written does.
type Reason struct {
	Invariant string `json:"invariant"`
	Why       string `json:"why"`
	Needs     string `json:"needs,omitempty"`
}

// Lines returns the text for a terminal of so many columns.
func (t ContractText) Lines(columns int) []string {
	var lines []string
	if len(t.Promises) > 0 {
		lines = append(lines, "promises")
	}
	for _, promise := range t.Promises {
		lines = append(lines, Hanging("  ", promise, columns)...)
	}
	for _, part := range []struct {
		title, needs string
		reasons      []Reason
	}{{"is judged by", "in scenarios with ", t.Judged}, {"is not judged by", "to have it judged, write ", t.NotJudged}} {
		if len(part.reasons) == 0 {
			continue
		}
		lines = append(lines, part.title)
		for _, reason := range part.reasons {
			text := reason.Why
			if reason.Needs != "" {
				text += "; " + part.needs + reason.Needs
			}
			lines = append(lines, Hanging(fmt.Sprintf("  %-21s ", reason.Invariant), text, columns)...)
		}
	}
	return lines
}

// Hanging breaks a text between words into lines of so many columns, indented by what stands before the first.
func Hanging(head, text string, columns int) []string {
	width := max(columns-len(head), leastText)
	lines, room := []string{head}, width
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case length >= room:
			lines, room = append(lines, strings.Repeat(" ", len(head))), width
		default:
			lines[len(lines)-1], room = lines[len(lines)-1]+" ", room-1
		}
		lines[len(lines)-1], room = lines[len(lines)-1]+word, room-length
	}
	return lines
}

// leastText is how wide a column of text is at least, however narrow the terminal.
const leastText = 24

// Describe explains the subject's contract, and what its records are made of.
func (s *SubjectFile) Describe() (ContractText, error) {
	contract, err := s.HistoryContract()
	if err != nil {
		return ContractText{}, err
	}
	text := describe(contract, s.Store != nil, s.answers())
	text.notReplayed(s)
	var its []string
	if s.Samples != nil {
		its = s.records()
	}
	are := " are attempts to process that record."
	if s.attemptCalls() != nil {
		are = " belong to attempts to process that record."
	}
	if http := s.HTTP(); http != nil {
		where := "anywhere"
		if http.ID != nil {
			where = map[string]string{InPath: "in the path", InQuery: "in the query", InHeader: "in a header",
				InBody: "in the body"}[http.ID.In]
		}
		if http.Batch {
			where, are = "in the body", are[:len(are)-1]+", and to process all others whose ids are there."
		}
		its = append(its, "Its calls with a record's id "+where+are)
		if http.Items != nil {
			its = append(its, "The answer to a call that is not refused as a whole has an item for each record.")
		}
	}
	if grpc := s.GRPC(); grpc != nil {
		its = append(its, "Its calls of "+cmp.Or(grpc.Method, "any method")+" with a record's id"+are)
	}
	if postgres := s.Postgres(); postgres != nil {
		its = append(its, "Its transactions with a record's id are attempts to process "+
			either(postgres.Batch, "each record whose id they have.", "that record."))
	}
	if output := s.Kafka(); output != nil {
		its = append(its, fmt.Sprintf("Its writes to %s with a record's id are attempts to process that record.",
			output.Topic))
	}
	for _, one := range slices.Backward(s.Called()[1:]) {
		if one.Called() == s.Letters() {
			its = append(its, "Its calls of "+s.Letters()+" with a record's id are dead letters.")
			continue
		}
		its = append(its, fmt.Sprintf("Its calls of %s are recorded, and a record %s.", one.Called(),
			either(one.Optional, "may succeed although its call there failed", "succeeds only if its calls there do")))
	}
	switch e := s.External; {
	case e == nil:
	case s.ForPods():
		its = append(its, fmt.Sprintf("Its instances are pods of %s. Each finds Kafka at 127.0.0.1:%d and its downstream at "+
			"http://127.0.0.1:%d.", s.Deployment.From(), e.KafkaPort(0), e.DownstreamPort(0)))
	default:
		its = append(its, fmt.Sprintf("You start it, %d in all: instance 0 finds Kafka at 127.0.0.1:%d and its downstream "+
			"at http://127.0.0.1:%d.", e.Instances, e.KafkaPort(0), e.DownstreamPort(0)))
	}
	text.Promises = append(its, text.Promises...)
	return text, nil
}

// describe explains a contract, with a dead-letter store of its own or without. What is judged because of it the
// checkers say themselves; what can't apply to such a subject, as the invariants of a graph, is left out.
func describe(c history.Contract, store bool, answers []classed) ContractText {
	header := history.Header{Consumers: []history.Consumer{{Contract: c}}, Replay: true}
	if store {
		header.Store = &history.StoreContract{}
	}
	results, unjudged := assertions.Outlook(header), map[string]string{}
	for _, result := range results {
		unjudged[result.Name] = result.Why
	}
	text := ContractText{Promises: promises(c, answers, unjudged["halt-on-dlq-failure"])}
	for _, result := range results {
		about := assertions.Explain(result.Name)[0] // it is an invariant
		switch result.Unjudged {
		case assertions.Inapplicable:
		case "":
			text.Judged = append(text.Judged, Reason{result.Name, strings.TrimSuffix(about.Promise, "."), about.Scenario})
		case assertions.Unpromised:
			text.NotJudged = append(text.NotJudged, Reason{result.Name, result.Why, about.Contract})
		default:
			text.NotJudged = append(text.NotJudged, Reason{result.Name, result.Why, ""})
		}
	}
	return text
}

// records says what its records are made from.
func (s *SubjectFile) records() (sentences []string) {
	form := map[history.IDForm]string{history.IDUUID: "a fresh UUID", history.IDUUID4: "a fresh UUID of version 4",
		history.IDText: "a fresh id of 24 letters and digits", history.IDInt64: "a fresh whole number of 16 digits"}
	for i, one := range s.Made {
		where := ""
		if len(s.Made) > 1 {
			where = " in " + s.Input.own()[i]
		}
		written := map[string]string{format.Avro: ", as Avro", format.Protobuf: ", as Protobuf", format.Text: ", as text",
			format.Bytes: ", as bytes"}[one.From.Format]
		sentences = append(sentences, fmt.Sprintf("Its records%s are made from the %d of %s in turn%s, each with %s %s.",
			where, one.Samples.Len(), one.From.Source(), written, form[one.Samples.Form], one.From.ID.where()))
	}
	return sentences
}

// promises are what the contract says. unhalted is why it is not judged what the subject does when a dead letter can't
// be written, "" if it is.
func promises(c history.Contract, answers []classed, unhalted string) []string {
	attempts := "A record that fails for a while is tried any number of times."
	switch {
	case c.Unlimited:
		attempts = "A record that fails for a while is tried until it succeeds, and is never given up before."
	case c.MaxAttempts > 0:
		attempts = fmt.Sprintf("A record that keeps failing is tried %d times in all, the first included.", c.MaxAttempts)
	}
	if c.Calls > 1 {
		attempts += fmt.Sprintf(" Its client may repeat a call by itself: %d calls in an attempt at most.", c.Calls)
	}
	if c.LastCall != "" {
		attempts += fmt.Sprintf(" An attempt begins with %s, and ends with the answer to %s or with the first failure.",
			c.FirstCall, c.LastCall)
	}
	list := []string{attempts, counterPromise(c), backoffPromise(c.Backoff)}
	list = append(list, classesPromise(c, answers), orderPromise(c), map[history.Retry]string{
		history.RetryInPlace:    "Retries happen in the consumer, while it holds the record.",
		history.RetryRedelivery: "Retries are new deliveries of the record.",
		history.RetryTopics:     "Retries go through retry topics: a written copy carries the obligation on.",
	}[c.Retry])
	list = append(list, deadLetterPromises(c, unhalted)...)
	list = append(list, progressPromise(c))
	list = append(list, staysPromise(c))
	if c.StopGrace > 0 {
		list = append(list, fmt.Sprintf("After TERM it ends within %s, with %s.", c.StopGrace, stopCodes(c)))
	}
	if c.SkipsTombstones {
		list = append(list, "Records without a value are skipped and committed, by design.")
	}
	switch c.Poison {
	case history.PoisonDeadLetter:
		list = append(list, "Records with a value that can't be read are dead-lettered.")
	case history.PoisonHalt:
		list = append(list, "The consumer halts at a record with a value that can't be read, and commits nothing past it. "+
			"What is behind it is held.")
	case history.PoisonSkip:
		list = append(list, "Records with a value that can't be read are skipped and committed, by design.")
	}
	list = append(list, effectsPromises(c.Effects)...)
	if c.OffsetMetadata == history.MetadataRanges {
		list = append(list, "Commits carry the finished offsets beyond the committed one as ranges in their metadata; "+
			"after a restart or a rebalance these are skipped.")
	}
	if c.Isolation > 0 {
		list = append(list, fmt.Sprintf(
			"Records that need not wait for failing ones keep %.0f%% of their pace while those back off.", 100*c.Isolation))
	}
	return list
}

func classesPromise(c history.Contract, answers []classed) string {
	text := fmt.Sprintf("Retried: %s. Final at once: %s.", outcomeList(c.Retryable, answers),
		outcomeList(c.Permanent, answers))
	if len(c.Logical) > 0 {
		text += fmt.Sprintf(" Business failures: %s, which %s.", outcomeList(c.Logical, answers), logicalPromise(c))
	}
	return text
}

func effectsPromises(e *history.Effects) []string {
	if e == nil {
		return nil
	}
	list := []string{"A record that succeeded has its effect in the sink, again only after a disruption."}
	switch {
	case e.Once:
		list[0] = "A record that succeeded has its effect in the sink once, whatever happens."
	case e.PerCopy:
		list[0] = "A record that succeeded has its effect in the sink, again only if it was produced again."
	}
	if e.Atomic {
		list = append(list, "A record that did not succeed left no effect.")
	}
	return list
}

// orderPromise says, too, what the next record waits for: the dead letter is easily forgotten.
func orderPromise(c history.Contract) string {
	after := "once the one before is finished" + either(c.HasDLQ(), ", as a dead letter is when it is acknowledged", "")
	if c.OrderOfAttempts {
		after = "after the last attempt of the one before"
	}
	switch c.Ordering {
	case history.OrderingPartition:
		return "Records of a partition are processed in order: the next is begun " + after + "."
	case history.OrderingKey:
		return "Records with the same key are processed in order: the next is begun " + after + "."
	}
	return "Records are processed in any order."
}

func progressPromise(c history.Contract) string {
	switch {
	case c.GroupType == history.GroupShare:
		return "Records come from a share group; each is accepted or rejected only when it is done."
	case c.OffsetsOutside:
		return "Offsets are kept outside Kafka, and none is committed."
	case c.AutoCommit:
		return "Offsets are committed as time passes, whatever became of the records: a crash may lose some."
	}
	return "An offset is committed only when every record before it is done."
}

func counterPromise(c history.Contract) string {
	return map[history.Counter]string{
		history.CounterMemory:   "Attempts are counted in memory: a restart or the loss of the partition begins a new count.",
		history.CounterHeader:   "Attempts are counted in a header that every copy carries on.",
		history.CounterStore:    "Attempts are counted in a store, across restarts.",
		history.CounterDelivery: "Attempts are counted by the broker: each delivery of a record is one.",
	}[c.Counter]
}

func backoffPromise(b history.Backoff) string {
	if b.Initial <= 0 {
		return "Nothing is promised about the wait between attempts."
	}
	waits := make([]string, 3)
	for k := range waits {
		waits[k] = b.Wait(k + 1).String()
	}
	text := fmt.Sprintf("Between attempts it waits %s …", strings.Join(waits, ", "))
	if b.Cap > 0 {
		text += fmt.Sprintf(", at most %s", b.Cap)
	}
	if b.Jitter > 0 {
		text += fmt.Sprintf(", plus up to %s at random", b.Jitter)
	}
	text += fmt.Sprintf("; never earlier, and at most %s later", b.Late)
	if b.Usual > 0 {
		text += fmt.Sprintf(", half of the waits by no more than half of the wait or %s", b.Usual)
	}
	return text + "."
}

func deadLetterPromises(c history.Contract, unhalted string) []string {
	if c.ExitsExhausted {
		return []string{"When a record has failed for good it ends with an error, and commits nothing past that record; it " +
			"is then started again."}
	}
	if c.HasDLQ() && !c.WritesDLQ() {
		return append([]string{"What has failed for good it rejects; the broker then writes the dead letter."},
			fidelityPromises(c)...)
	}
	if !c.HasDLQ() {
		return []string{"There is no dead-letter topic: what fails for good is given up."}
	}
	stays := either(c.OffsetsOutside, "does not go past that record", "commits nothing past that record")
	list := []string{"When a dead letter can't be written it " + map[history.OnFailure]string{
		history.OnFailureHalt: stays + ", and says so.", history.OnFailureCrash: "ends with an error, and " + stays + ".",
		history.OnFailureRetry: "tries on, and " + stays + ".",
	}[c.OnFailure]}
	if c.SurfacedWithin > 0 {
		list = append(list, fmt.Sprintf("It makes that known within %s, also where the reason may pass.", c.SurfacedWithin))
	}
	if unhalted != "" {
		list = append(list, "Of that, it is judged only that no record is lost, because "+unhalted+".")
	}
	return append(list, fidelityPromises(c)...)
}

// fidelityPromises are about what is in a dead letter.
func fidelityPromises(c history.Contract) []string {
	list := []string{fmt.Sprintf("Dead letters keep %s.", kept(c))}
	if headers, own := strings.CutPrefix(c.Envelope, deadletter.OwnHeadersPrefix); own {
		headers = strings.NewReplacer("=", " in ", ",", ", ").Replace(headers)
		list = append(list, fmt.Sprintf("Dead letters have an envelope of the subject's own: %s%s.", headers,
			notHeld(c.Envelope)))
	} else if c.Envelope != "" {
		list = append(list, fmt.Sprintf("Dead letters carry the metadata of the dialect %q%s.", c.Envelope,
			notHeld(c.Envelope)))
	}
	if c.SamePartition {
		list = append(list, "A dead letter goes to the partition with its source's number.")
	}
	return list
}

// kept says what a dead letter has of its record.
func kept(c history.Contract) string {
	var parts []string
	for _, part := range []struct {
		name string
		is   bool
	}{{"key", !c.ChangesKey}, {"value", !c.ChangesValue}, {"headers", c.KeepsHeaders}} {
		if part.is {
			parts = append(parts, part.name)
		}
	}
	if len(parts) == 0 {
		return "nothing of the record as it was"
	}
	return "the record's " + enumeration(parts, "and")
}

// staysPromise says when a process may end by itself, or is ended.
func staysPromise(c history.Contract) string {
	if c.RestartsUnhealthy {
		c.RestartsUnhealthy = false
		return staysPromise(c) + " One that has turned unhealthy is ended with TERM and started again."
	}
	switch {
	case c.ExitsOnError:
		return "A process ends by itself only with an error; it is then started again."
	case c.ExitsExhausted:
		return "A process ends by itself only when a record has failed for good."
	case c.OnFailure == history.OnFailureCrash:
		return "A process ends by itself only when a dead letter can't be written; it is then started again."
	}
	return "A process never ends by itself, and stays in its group."
}

func stopCodes(c history.Contract) string {
	if len(c.StopCodes) == 0 {
		return "code 0, or 143 as a JVM does"
	}
	return fmt.Sprintf("one of the codes %v", c.StopCodes)
}

func logicalPromise(c history.Contract) string {
	switch {
	case c.LogicalEither:
		return "end the record's processing, or are dead-lettered: the contract does not say which (logical)"
	case c.LogicalDeadLetters:
		return "are dead-lettered"
	}
	return "end the record's processing without a dead letter"
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func outcomeList(list []history.Outcome, answers []classed) string {
	names := map[history.Outcome]string{history.OutcomeTimeout: "time-outs", history.OutcomeReset: "connection resets"}
	for _, one := range answers {
		names[one.outcome] = one.answer
	}
	var words []string
	for _, outcome := range list {
		if names[outcome] != "" && !slices.Contains(words, names[outcome]) {
			words = append(words, names[outcome])
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// notHeld says what the dialect's dead letters can't say of their record, and what therefore is not judged.
func notHeld(envelope string) string {
	dialect, err := deadletter.Named(envelope)
	if err != nil {
		return ""
	}
	traits := dialect.Traits()
	var named, missing []string
	for _, one := range []struct {
		what string
		has  bool
	}{{"topic", !traits.NoTopic}, {"partition", traits.Partition}, {"offset", traits.Offset}} {
		if one.has {
			named = append(named, one.what)
		} else {
			missing = append(missing, "the "+one.what)
		}
	}
	switch {
	case len(named) == 0 && traits.Attempts:
		return ", which does not say where the record came from"
	case len(named) == 0:
		return ", which says neither where the record came from nor how many attempts there were"
	case len(missing) == 0 && traits.Attempts:
		return ""
	case len(missing) == 0:
		return ", which does not say how many attempts there were"
	case !traits.Attempts:
		missing = append(missing, "the number of attempts")
	}
	return ", which names the source " + enumeration(named, "and") + " but " + noneOf(missing)
}

// enumeration puts the word before the last of some things, and commas between the others.
func enumeration(things []string, word string) string {
	last := len(things) - 1
	if last < 1 {
		return strings.Join(things, "")
	}
	return strings.Join(things[:last], ", ") + " " + word + " " + things[last]
}

// noneOf denies each of some things: "not x", "neither x nor y".
func noneOf(things []string) string {
	if len(things) == 1 {
		return "not " + things[0]
	}
	return "neither " + enumeration(things, "nor")
}
