package scenarios

// From what a subject file or the reference's settings say to the contract that invariants hold the subject to.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The words of SubjectFile.Observe and of the contract.
const (
	ObserveDownstream = "downstream"
	ObserveWire       = "wire"

	LogicalTerminal   = "terminal"
	LogicalDeadLetter = "dead-letter"
	CommitsOutcome    = "after-outcome"
	CommitsAuto       = "auto"
	CommitsNever      = "never"
	commitsOutcome    = "outcome"
	commitsTime       = "time"
	PartitionAny      = "any"
	PartitionSame     = "same"
	ErrorExit         = "exit"
	UnhealthyRestart  = "restart"
	SkipTombstone     = "tombstone"
	OrderOfAttempts   = "attempts"

	RetryAfterHonoured = "honoured"
	RetryAfterIgnored  = "ignored"
)

// commitInterval is the longest default of the known client libraries.
const commitInterval = 30 * time.Second

// defaultSubject is what a subject holds before its file is decoded over it. Each default promises the least that
// anyone would still call correct:
//
//	attempts.max 0          any number of attempts
//	attempts.counter memory a restart or the loss of the partition starts a fresh count: the most lenient
//	backoff.initial 0       no wait at all
//	backoff.multiplier 1    where there is a wait: it need not grow, and backoff.cap, backoff.jitter bound and spread
//	                        nothing
//	backoff.late 1s, usually half of the wait (see usualLate)
//	classes                 503, 429, time-outs and resets may be retried, 400 is final, 422 is a business failure
//	logical (either)        a business failure may end the record's processing or lead to a dead letter
//	ordering none           records may be processed in any order
//	retry in-place          no retry topics, and a record's offset is committed when it is done
//	retry_after ignored     a 429's Retry-After need not be waited for
//	dlq.enabled true        what fails for good is dead-lettered, with key, value and headers as they were: who parks
//	                        records says so
//	dlq.envelope none       the metadata of dead letters is not judged, nor is their partition (any)
//	dlq.written_by consumer the broker writes dead letters only where a share group is set up for it
//	dlq.on_failure halt     nothing is committed past a record that could not be dead-lettered: less would lose it
//	dlq.surfaced_within     5m where it may pass: librdkafka's message.timeout.ms, the longest that clients try by
//	                        themselves by default
//	commits.interval 30s    Kafka Streams commits no more often (commit.interval.ms), and nobody less
//	commits after-outcome   offsets follow outcomes: less would lose records at every crash
//	stop.grace 10s          as long as the common process managers wait
//	stop.codes []           0; 143, with which a JVM ends; or an end by TERM itself, once the group was left
//	on_error stay           no error ends a process by itself
//	on_unhealthy stay       nobody restarts an instance because of its health
//	skips                   nothing: every record is processed
func defaultSubject() SubjectFile {
	return SubjectFile{
		Dir: ".", Observe: ObserveDownstream, Ready: Ready{Timeout: units.Duration(30 * time.Second)},
		Contract: ContractSpec{
			Group: "{{.GroupID}}", Attempts: AttemptsSpec{Counter: string(history.CounterMemory)},
			Backoff:  BackoffSpec{Multiplier: 1},
			Ordering: string(history.OrderingNone), Retry: string(history.RetryInPlace),
			RetryAfter: RetryAfterIgnored,
			DLQ: DLQSpec{
				Enabled: true, Topic: "{{.DLQTopic}}", WrittenBy: WrittenByConsumer, Partition: PartitionAny,
				OnFailure: string(history.OnFailureHalt), KeepsKey: true, KeepsValue: true, KeepsHeaders: true,
			},
			Commits: Commits{After: commitsOutcome, Interval: units.Duration(commitInterval)},
			Stop:    StopSpec{Grace: units.Duration(10 * time.Second)},
		},
	}
}

// LeastContract returns the contract of a subject file that promises nothing of its own.
func LeastContract() ContractSpec { return defaultSubject().Contract }

const (
	// defaultLate is how late one attempt may be where the contract doesn't say. A virtual machine that collects
	// garbage or compiles, and a client whose fetch is under way, pause for some hundred milliseconds; which of the
	// waits that hits is chance.
	defaultLate = time.Second
	// usualLate is by how much at least half of the attempts may then be late: timers and the call itself take that
	// long. Half of the wait may always be, so that a wait of twice what was promised is late. refetchLate is the same
	// for a subject that reads a record again for each attempt: a fetch of its other partitions is answered within
	// fetch.max.wait.ms, which is 500 ms in Kafka's clients.
	usualLate, refetchLate = 20 * time.Millisecond, 500 * time.Millisecond
)

// HistoryContract returns the subject's contract. The error names a class that is no HTTP status, timeout or reset, or
// that is in two lists.
func (s *SubjectFile) HistoryContract() (history.Contract, error) {
	contract, err := s.Contract.contract(s.answers())
	contract.WireOnly, contract.ProcessUnseen = s.Observe == ObserveWire, s.External != nil
	contract.OutputAttempts, contract.Database = s.Kafka() != nil, s.Postgres() != nil
	if calls := s.attemptCalls(); calls != nil {
		contract.FirstCall, contract.LastCall = calls.First, calls.Last
	}
	return contract, err
}

// Contract returns the contract as invariants read it. Of the lists of classes, the ones left out hold what the
// downstream answers by default and no other list claims; a status that the downstream never answers is left out, for
// nothing can be judged of it.
func (c ContractSpec) Contract() (history.Contract, error) { return c.contract(usualAnswers()) }

// contract is Contract where these are the answers.
func (c ContractSpec) contract(answers []classed) (history.Contract, error) {
	contract := history.Contract{
		MaxAttempts: max(int(c.Attempts.Max), 0), Unlimited: c.Attempts.Max == Unlimited, Calls: c.Attempts.Calls,
		Counter:            history.Counter(c.Attempts.Counter),
		GroupType:          history.GroupType(c.GroupType),
		LogicalDeadLetters: c.Logical == LogicalDeadLetter, LogicalEither: c.Logical == "",
		Ordering: history.Ordering(c.Ordering), Retry: history.Retry(c.Retry),
		IgnoresRetryAfter: c.RetryAfter != RetryAfterHonoured,
		OnFailure:         history.OnFailure(c.DLQ.OnFailure), AutoCommit: c.Commits.After == commitsTime,
		OffsetsOutside: c.Commits.After == CommitsNever,
		CommitInterval: c.Commits.Interval.D(), StopGrace: c.Stop.Grace.D(),
		SkipsTombstones: slices.Contains(c.Skips, SkipTombstone), Poison: history.Poison(c.Poison),
		OffsetMetadata: c.OffsetMetadata, Isolation: c.Isolation.Share(),
		ExitsExhausted: c.OnExhausted == consumer.ExhaustedExit, OrderOfAttempts: c.OrderOf == OrderOfAttempts,
		StopCodes: c.Stop.Codes, ExitsOnError: c.OnError == ErrorExit,
		RestartsUnhealthy: c.OnUnhealthy == UnhealthyRestart,
	}
	if c.DLQ.Enabled {
		c.DLQ.promise(&contract)
	}
	if c.Effects != nil {
		contract.Effects = &history.Effects{
			Once: c.Effects.Repeats == RepeatsNever, PerCopy: c.Effects.Repeats == RepeatsProduced, Atomic: c.Effects.Atomic,
		}
	}
	if c.Backoff.Initial > 0 {
		contract.Backoff = history.Backoff{
			Initial: c.Backoff.Initial.D(), Multiplier: c.Backoff.Multiplier, Cap: c.Backoff.Cap.D(),
			Jitter: c.Backoff.Jitter.D(), Late: c.Backoff.Late.D(),
		}
		if c.Backoff.Late == 0 {
			contract.Backoff.Late, contract.Backoff.Usual = defaultLate, usualLate
			if contract.Retry != history.RetryInPlace {
				contract.Backoff.Usual = refetchLate
			}
		}
	}
	var err error
	contract.Retryable, contract.Permanent, contract.Logical, err = c.Classes.outcomes(answers)
	return contract, err
}

// promise writes down what is promised of dead letters. What the dialect can't hold is not.
func (d DLQSpec) promise(to *history.Contract) {
	to.DeadLetters, to.Envelope, to.SamePartition, to.SurfacedWithin = true, string(d.Envelope),
		d.Partition == PartitionSame, d.SurfacedWithin.D()
	to.BrokerLetters = d.WrittenBy == WrittenByBroker
	to.ChangesKey, to.ChangesValue, to.KeepsHeaders = !d.KeepsKey, !d.KeepsValue, d.KeepsHeaders
	if dialect, err := deadletter.Named(to.Envelope); err == nil {
		to.KeepsHeaders = to.KeepsHeaders && dialect.Traits().Headers
	}
	if d.Downstream != "" { // what is in a call is its own
		to.ChangesKey, to.ChangesValue, to.KeepsHeaders = true, true, false
	}
}

// defaultClasses are the classes of the downstream's answers, in the order of the lists.
func defaultClasses() [3][]history.Outcome {
	return [3][]history.Outcome{
		{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout, history.OutcomeReset},
		{history.OutcomePermanent},
		{history.OutcomeLogical},
	}
}

func (c ClassesSpec) outcomes(answers []classed) (retryable, permanent, logical []history.Outcome, err error) {
	lists := [3][]StatusOrName{c.Retryable, c.Permanent, c.Logical}
	classes, claimed := defaultClasses(), map[history.Outcome]StatusOrName{}
	for i, list := range lists {
		if list == nil {
			continue
		}
		classes[i] = []history.Outcome{}
		for _, written := range list {
			outcomes, err := written.outcomes(answers)
			if err != nil {
				return nil, nil, nil, err
			}
			for _, outcome := range outcomes {
				if _, twice := claimed[outcome]; twice {
					return nil, nil, nil, fmt.Errorf("%s is in two places of classes: an outcome has one class", written)
				}
				claimed[outcome] = written
				classes[i] = append(classes[i], outcome)
			}
		}
	}
	for i, list := range lists {
		if list == nil {
			classes[i] = slices.DeleteFunc(classes[i], func(o history.Outcome) bool { return claimed[o] != "" })
		}
	}
	return classes[0], classes[1], classes[2], nil
}

// lists are the lists of classes by their names.
func (c ClassesSpec) lists() map[string][]StatusOrName {
	return map[string][]StatusOrName{"retryable": c.Retryable, "permanent": c.Permanent, "logical": c.Logical}
}

// named returns the outcome that is named instead of its answer, OutcomeNone for an answer.
func (s StatusOrName) named() history.Outcome {
	switch s {
	case "timeout":
		return history.OutcomeTimeout
	case "reset":
		return history.OutcomeReset
	}
	return history.OutcomeNone
}

// outcomes returns the outcomes that are answered so; none for an answer that is never given.
func (s StatusOrName) outcomes(answers []classed) ([]history.Outcome, error) {
	if named := s.named(); named != history.OutcomeNone {
		return []history.Outcome{named}, nil
	}
	var outcomes []history.Outcome
	for _, one := range answers {
		if one.answer == string(s) {
			outcomes = append(outcomes, one.outcome)
		}
	}
	if outcomes != nil {
		return outcomes, nil
	}
	bySQLState := len(answers[0].answer) == len("40001")
	byCode := slices.Contains(grpcCodes(), answers[0].answer)
	status, err := strconv.Atoi(string(s))
	switch {
	case byCode && !slices.Contains(grpcCodes()[1:], string(s)):
		return nil, fmt.Errorf("%q is no class: write a status of gRPC such as UNAVAILABLE, timeout or reset", string(s))
	case byCode:
	case bySQLState && !sqlState.MatchString(string(s)):
		return nil, fmt.Errorf("%q is no class: write an SQLSTATE such as 40001, timeout or reset", string(s))
	case !bySQLState && (err != nil || status < 400 || status > 599):
		return nil, fmt.Errorf("%q is no class: write an HTTP status from 400 to 599, timeout or reset", string(s))
	}
	return nil, nil // it is never answered
}

const (
	// referenceLate is how much later than promised the reference consumer may begin an attempt.
	referenceLate = 250 * time.Millisecond
	// referenceSurfaces is within what time the reference consumer makes known that dead letters can't be written: it
	// reports each refusal, and silence after two seconds.
	referenceSurfaces = 3 * time.Second
	// referenceIsolation is the share of the fault-free pace that records keep which need not wait for those that fail.
	referenceIsolation = 0.5
	// isolationRoom is the least max_in_flight with which that can be promised: a record in backoff keeps its place
	// among those in flight, and with fewer of them a handful of failing records has them all.
	isolationRoom = 100
)

// ReferenceContract returns the contract that follows from the reference consumer's settings.
func ReferenceContract(r Reference) history.Contract {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	classes := defaultClasses()
	contract := history.Contract{
		// The design this consumer follows counts executions: max_retries 3 means three in all.
		MaxAttempts: r.MaxRetries, Counter: history.CounterMemory,
		Retryable: classes[0], Permanent: classes[1], Logical: classes[2],
		Ordering: history.Ordering(r.Ordering), Retry: history.Retry(r.Retry),
		OnFailure: history.OnFailure(cmp.Or(r.DLQOnFailure, consumer.FailureHalt)), StopGrace: r.StopGrace.D(),
		Isolation: referenceIsolation, CommitInterval: r.CommitInterval.D(),
	}
	late := referenceLate
	if contract.Retry == history.RetryTopics {
		// A copy carries its count. It lets the records behind it pass: first attempts are made in the order of the
		// setting, but no order is promised that a record which fails could break. And it is written and fetched while
		// it waits, which takes its time.
		contract.Counter, contract.Ordering, late = history.CounterHeader, history.OrderingNone, 2*referenceLate
	}
	if r.GroupProtocol == consumer.ProtocolShare {
		contract.GroupType, contract.Ordering, contract.Isolation = history.GroupShare, history.OrderingNone, 0
	}
	if contract.Retry == history.RetryRedelivery {
		contract.Counter = history.CounterDelivery
	}
	if r.MaxInFlight < isolationRoom {
		contract.Isolation = 0
	}
	if r.Transactions {
		contract.Isolation = 0 // a batch is committed as a whole, so all of it waits for its slowest record
	}
	if r.OffsetMetadata {
		contract.OffsetMetadata = history.MetadataRanges
	}
	// when a released record comes back is the broker's to say
	if r.RetryBackoffMS > 0 && contract.Retry != history.RetryRedelivery {
		contract.Backoff = history.Backoff{
			Initial: ms(r.RetryBackoffMS), Multiplier: 1, Cap: ms(r.MaxRetryBackoffMS), Jitter: ms(r.RetryJitterMS), Late: late,
		}
	}
	if contract.Backoff.Initial > 0 && r.ExponentialBackoff {
		contract.Backoff.Multiplier = 2
	}
	contract.ExitsExhausted = r.OnExhausted == consumer.ExhaustedExit
	if r.DLQEnabled {
		contract.DeadLetters, contract.Envelope, contract.BrokerLetters = true, string(r.Envelope), !r.WritesDLQ()
		contract.Poison = history.PoisonDeadLetter
		if contract.WritesDLQ() {
			contract.SurfacedWithin = referenceSurfaces
		}
		// a name that is none was reported when the settings were checked
		if dialect, err := deadletter.Named(string(r.Envelope)); err == nil {
			contract.KeepsHeaders = dialect.Traits().Headers
		}
	}
	return contract
}

// ReplayTopic returns the topic that the reference consumer of the group takes replayed dead letters from, "" if that
// is the input topic: hexkit's events come back through the topic of their service, which goes by the name of its
// group.
func ReplayTopic(r Reference, group string) string {
	if !r.DLQEnabled || r.Envelope != deadletter.HexkitName {
		return ""
	}
	return deadletter.HexkitRetryTopic(group)
}

// RetryTopics returns the names of the retry topics that the reference consumer reads and writes beside its input
// topic: "INPUT.retry-1" to "INPUT.retry-(max_retries−1)", each for the copies that have so many attempts behind them;
// none where it retries in place.
func RetryTopics(r Reference, input string) []string {
	if r.Retry != string(history.RetryTopics) {
		return nil
	}
	return consumer.RetryTopicNames(input, r.MaxRetries)
}
