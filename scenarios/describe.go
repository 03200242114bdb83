package scenarios

// A contract in sentences: what is promised, which invariants are judged because of it, and which can't be, and why.

import (
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// ContractText is a contract in sentences.
type ContractText struct {
	// Promises are sentences about the subject, in the order of the contract.
	Promises []string `json:"promises"`
	// Judged and NotJudged hold every invariant once, with the reason.
	Judged    []Reason `json:"judged"`
	NotJudged []Reason `json:"not_judged"`
}

// Reason says why an invariant is judged, or why not.
type Reason struct {
	Invariant string `json:"invariant"`
	Why       string `json:"why"`
}

// Lines returns the text for a terminal.
func (t ContractText) Lines() []string {
	lines := []string{"promises"}
	for _, promise := range t.Promises {
		lines = append(lines, "  "+promise)
	}
	for _, part := range []struct {
		title   string
		reasons []Reason
	}{{"is judged by", t.Judged}, {"can't be judged by", t.NotJudged}} {
		if len(part.reasons) == 0 {
			continue
		}
		lines = append(lines, part.title)
		for _, reason := range part.reasons {
			lines = append(lines, fmt.Sprintf("  %-22s %s", reason.Invariant, reason.Why))
		}
	}
	return lines
}

// DescribeContract explains a contract.
func DescribeContract(c history.Contract) ContractText {
	text := ContractText{Promises: promises(c)}
	for _, rule := range contractRules(c) {
		if rule.not != "" {
			text.NotJudged = append(text.NotJudged, Reason{Invariant: rule.name, Why: rule.not})
		} else {
			text.Judged = append(text.Judged, Reason{Invariant: rule.name, Why: rule.why})
		}
	}
	return text
}

func promises(c history.Contract) []string {
	attempts := "A record that fails for a while is tried any number of times."
	if c.MaxAttempts > 0 {
		attempts = fmt.Sprintf("A record that keeps failing is tried %d times in all, the first included.", c.MaxAttempts)
	}
	list := []string{attempts, counterPromise(c), backoffPromise(c.Backoff)}
	list = append(list, fmt.Sprintf("Retried: %s. Final at once: %s. Business failures: %s, which %s.",
		outcomeList(c.Retryable), outcomeList(c.Permanent), outcomeList(c.Logical),
		either(c.LogicalDeadLetters, "are dead-lettered", "end the record's processing without a dead letter")))
	list = append(list, orderPromise(c), map[history.Retry]string{
		history.RetryInPlace:    "Retries happen in the consumer, while it holds the record.",
		history.RetryRedelivery: "Retries are new deliveries of the record.",
		history.RetryTopics:     "Retries go through retry topics: a written copy carries the obligation on.",
	}[c.Retry])
	list = append(list, deadLetterPromises(c)...)
	list = append(list, progressPromise(c))
	if c.StopGrace > 0 {
		list = append(list, fmt.Sprintf("After TERM it ends within %s.", c.StopGrace))
	}
	if c.SkipsTombstones {
		list = append(list, "Records without a value are skipped and committed, by design.")
	}
	if c.OffsetMetadata == history.MetadataRanges {
		list = append(list, "Commits carry the finished offsets beyond the committed one as ranges in their metadata; after a restart or a rebalance these are skipped.")
	}
	if c.Isolation > 0 {
		list = append(list, fmt.Sprintf("Records that need not wait for failing ones keep %.0f%% of their pace while those back off.", 100*c.Isolation))
	}
	return list
}

// orderPromise says, too, what the next record waits for: the dead letter is easily forgotten.
func orderPromise(c history.Contract) string {
	after := either(c.OrderOfAttempts, "after the last attempt of the one before", "once the one before is finished, as a dead letter is when it is acknowledged")
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
	return text + fmt.Sprintf("; never earlier, and at most %s later.", b.Late)
}

func deadLetterPromises(c history.Contract) []string {
	if c.ExitsExhausted {
		return []string{"When a record has failed for good it ends with an error, and commits nothing past that record; it is then started again."}
	}
	list := []string{map[history.OnFailure]string{
		history.OnFailureHalt:  "When a dead letter can't be written it commits nothing past that record, and says so.",
		history.OnFailureCrash: "When a dead letter can't be written it ends with an error, and commits nothing past that record.",
		history.OnFailureRetry: "When a dead letter can't be written it tries on, and commits nothing past that record.",
	}[c.OnFailure]}
	if c.Envelope != "" {
		list = append(list, fmt.Sprintf("Dead letters keep key and value and carry the metadata of the dialect %q%s.", c.Envelope, notHeld(c.Envelope)))
	}
	if c.KeepsHeaders {
		list = append(list, "Dead letters keep the original headers.")
	}
	if c.SamePartition {
		list = append(list, "A dead letter goes to the partition with its source's number.")
	}
	return list
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func outcomeList(list []history.Outcome) string {
	names := map[history.Outcome]string{
		history.OutcomeTransient: "503", history.OutcomeRateLimited: "429", history.OutcomePermanent: "400",
		history.OutcomeLogical: "422", history.OutcomeTimeout: "time-outs", history.OutcomeReset: "connection resets",
	}
	var words []string
	for _, outcome := range list {
		words = append(words, names[outcome])
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// contractRule says of one invariant why a contract has it judged; not is set when it can't be.
type contractRule struct{ name, why, not string }

// The reasons for which an invariant can't be judged.
const (
	needsAttempts = "the subject does not call the oracle (observe: wire), so its attempts are not seen"
	needsCommits  = "offsets follow time, not outcomes (commits: auto), so nothing is promised about them"
	needsLetters  = "no dead letters are promised (dlq.envelope names their dialect)"
	sharesOrder   = "a share group hands records of one key to several members at once, so there is no order to promise (group_type: share)"
	sharesPace    = "in a share group no record waits behind another, so there is no pace to keep beside those that fail (group_type: share)"
	sharesWait    = "when a released record comes back is for the broker of the share group to say (retry: redelivery)"
)

// contractRules goes through all invariants in the order of the report.
func contractRules(c history.Contract) []contractRule {
	wire, auto, letters := either(c.WireOnly, needsAttempts, ""), either(c.AutoCommit, needsCommits, ""), either(c.Envelope == "", needsLetters, "")
	attempts := either(c.MaxAttempts == 0, "no number of attempts is promised (attempts.max)", "")
	share := c.GroupType == history.GroupShare
	wait := either(c.Backoff.Initial <= 0, "no wait is promised (backoff.initial)", "")
	pace := either(c.Isolation <= 0, "no share of the pace is promised to records beside those that fail (isolation)", "")
	order := either(c.Retry == history.RetryTopics, "records that go through retry topics keep no order (retry: topics)", "")
	wait = first(either(share && c.Retry == history.RetryRedelivery, sharesWait, ""), wait)
	pace = first(either(share, sharesPace, ""), pace)
	order = first(either(share, sharesOrder, ""), either(c.Ordering == history.OrderingNone || c.Ordering == "", "no order is promised (ordering)", ""), order)
	return []contractRule{
		{"no-loss", "every acknowledged record must reach an end: success, a dead letter or a business failure", ""},
		{"commit-after-dlq", "a record that ends in the dead-letter topic must be acknowledged there before its offset is committed", first(letters, auto)},
		{"commit-after-outcome", "an offset is committed only when every record before it is done", auto},
		haltRule(c, wire, first(letters, auto)),
		{"bounded-retries", fmt.Sprintf("%d attempts are promised", c.MaxAttempts), first(wire, attempts)},
		{"classification", "every outcome has one class, which says whether it is retried and dead-lettered", wire},
		{"backoff", fmt.Sprintf("a first wait of %s is promised", c.Backoff.Initial), first(wire, wait)},
		{"dlq-fidelity", fmt.Sprintf("dead letters keep key and value and follow the dialect %q", c.Envelope), letters},
		{"dlq-once", "a record makes one dead letter, and one more for each disruption that justifies it", letters},
		{"duplicates", "a record succeeds once, and once more for each disruption that justifies it", wire},
		{"ordering", fmt.Sprintf("ordering by %s is promised", c.Ordering), first(wire, order)},
		{"isolation", fmt.Sprintf("%.0f%% of the pace without faults are promised to records that need not wait for those that fail", 100*c.Isolation), first(wire, pace)},
		{"liveness", "once everything is healed the lag goes to zero, no partition stays paused and the group settles", ""},
		{"graceful-stop", fmt.Sprintf("after TERM it ends within %s, and what it had not finished is delivered again", c.StopGrace), ""},
		{"replay-round-trip", "in scenarios with a replay phase, every selected dead letter goes back once and reaches its end", letters},
		{"service-separation", "in scenarios with several services on one dead-letter topic, none of them has to do with a record of another's", ""},
		{"store-lifecycle", "in runs with a dead-letter store, its entries change only as the documents say, one worker at a time", ""},
		{"graph-conservation", "in scenarios with a graph of nodes, every document leaves it or lies in exactly one node's dead-letter topic", ""},
	}
}

func haltRule(c history.Contract, wire, letters string) contractRule {
	const name = "halt-on-dlq-failure"
	if c.ExitsExhausted {
		return contractRule{name, "on_exhausted is exit: a process that has exhausted a record's attempts must end with an error", wire}
	}
	return contractRule{name, fmt.Sprintf("dlq.on_failure is %s: no commit may pass a record that could not be dead-lettered", c.OnFailure), letters}
}

// first returns the first reason there is.
func first(reasons ...string) string {
	for _, reason := range reasons {
		if reason != "" {
			return reason
		}
	}
	return ""
}

// notHeld says what the dialect's letters can't say of their origin, and what therefore is not judged.
func notHeld(envelope string) string {
	dialect, err := deadletter.Named(envelope)
	if err != nil {
		return ""
	}
	switch traits := dialect.Traits(); {
	case !traits.Position && !traits.Attempts:
		return ", which names the source topic but neither partition, offset nor the number of attempts"
	case !traits.Position:
		return ", which names the source topic but neither partition nor offset"
	case !traits.Attempts:
		return ", which does not say how many attempts there were"
	}
	return ""
}
