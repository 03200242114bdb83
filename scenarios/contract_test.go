package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func loadSubject(t *testing.T, name string) *SubjectFile {
	t.Helper()
	subject, err := LoadSubject("testdata/subjects/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return subject
}

func TestContractOfASubject(t *testing.T) {
	contract, err := loadSubject(t, "good").HistoryContract()
	if err != nil {
		t.Fatal(err)
	}
	want := history.Contract{
		MaxAttempts: 4, Counter: history.CounterHeader,
		Backoff: history.Backoff{Initial: 100 * time.Millisecond, Multiplier: 2, Cap: 2 * time.Second,
			Jitter: 20 * time.Millisecond, Late: 300 * time.Millisecond},
		// 502 is never answered; 429 is permanent here, so no longer retryable by default.
		Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeTimeout, history.OutcomeReset},
		Permanent: []history.Outcome{history.OutcomePermanent, history.OutcomeRateLimited},
		Logical:   []history.Outcome{history.OutcomeLogical}, LogicalDeadLetters: true,
		Ordering: history.OrderingKey, Retry: history.RetryTopics, DeadLetters: true, Envelope: "plain", KeepsHeaders: true,
		SamePartition: true,
		OnFailure:     history.OnFailureRetry, StopGrace: 5 * time.Second, SurfacedWithin: 3 * time.Second,
		SkipsTombstones: true, IgnoresRetryAfter: true, CommitInterval: 30 * time.Second,
	}
	if !reflect.DeepEqual(contract, want) {
		t.Errorf("have %+v\nwant %+v", contract, want)
	}
}

func TestContractThatPromisesTheLeast(t *testing.T) {
	contract, err := loadSubject(t, "least").HistoryContract()
	want := history.Contract{
		Counter: history.CounterMemory,
		Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
			history.OutcomeReset},
		Permanent: []history.Outcome{history.OutcomePermanent}, Logical: []history.Outcome{history.OutcomeLogical},
		LogicalEither: true,
		Ordering:      history.OrderingNone, Retry: history.RetryInPlace, DeadLetters: true, KeepsHeaders: true,
		OnFailure: history.OnFailureHalt,
		StopGrace: 10 * time.Second, IgnoresRetryAfter: true, CommitInterval: 30 * time.Second,
	}
	if err != nil || !reflect.DeepEqual(contract, want) {
		t.Errorf("have %+v, %v\nwant %+v", contract, err, want)
	}
	if contract, _ := loadSubject(t, "wire").HistoryContract(); !contract.WireOnly {
		t.Error("observe: wire is not in the contract")
	}
}

// TestDefaultClassesYield: a list that is left out has the downstream's answers that no other list claims.
func TestDefaultClassesYield(t *testing.T) {
	classes := ClassesSpec{Logical: []StatusOrName{"422", "400"}}
	retryable, permanent, logical, err := classes.outcomes(usualAnswers())
	if err != nil || len(retryable) != 4 || len(permanent) != 0 ||
		!slices.Equal(logical, []history.Outcome{history.OutcomeLogical, history.OutcomePermanent}) {
		t.Errorf("%v %v %v %v", retryable, permanent, logical, err)
	}
	for _, wrong := range []ClassesSpec{{Retryable: []StatusOrName{"200"}}, {Permanent: []StatusOrName{"never"}},
		{Retryable: []StatusOrName{"400"}, Permanent: []StatusOrName{"400"}}} {
		if _, _, _, err := wrong.outcomes(usualAnswers()); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

func TestContractOfTheReference(t *testing.T) {
	reference := defaultReference()
	have := ReferenceContract(reference)
	want := history.Contract{
		MaxAttempts: 3, Counter: history.CounterMemory,
		Backoff: history.Backoff{Initial: time.Second, Multiplier: 2, Cap: 30 * time.Second, Jitter: 200 * time.Millisecond,
			Late: 250 * time.Millisecond},
		Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
			history.OutcomeReset},
		Permanent: []history.Outcome{history.OutcomePermanent}, Logical: []history.Outcome{history.OutcomeLogical},
		Ordering: history.OrderingKey, Retry: history.RetryInPlace, DeadLetters: true, Envelope: "plain", KeepsHeaders: true,
		OnFailure: history.OnFailureHalt, StopGrace: 5 * time.Second, SurfacedWithin: 3 * time.Second, Isolation: 0.5,
		CommitInterval: 100 * time.Millisecond, Poison: history.PoisonDeadLetter,
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	reference.ExponentialBackoff, reference.DLQEnabled, reference.StopGrace = false, false, units.Duration(time.Second)
	if have := ReferenceContract(reference); have.Backoff.Multiplier != 1 || have.Envelope != "" ||
		have.KeepsHeaders || have.StopGrace != time.Second {
		t.Errorf("have %+v", have)
	}
	reference.MaxInFlight = 99
	if have := ReferenceContract(reference); have.Isolation != 0 {
		t.Errorf("with %d places in all the others' pace is promised: %v", reference.MaxInFlight, have.Isolation)
	}
	reference.RetryBackoffMS = 0
	if have := ReferenceContract(reference); have.Backoff != (history.Backoff{}) {
		t.Errorf("without a wait the contract promises %+v", have.Backoff)
	}
}

func TestRender(t *testing.T) {
	values := Values{BootstrapServers: "127.0.0.1:9", InputTopic: "in", DLQTopic: "dead", GroupID: "g", Instance: 1,
		RunID: "r"}
	subject := loadSubject(t, "good")
	rendered, err := subject.Render(values)
	if err != nil {
		t.Fatal(err)
	}
	have := []string{
		rendered.Command[1], rendered.Args[0], rendered.Env["GROUP"], rendered.Env["STORE"],
		rendered.Files["conf/app.properties"],
		rendered.Contract.Group, rendered.Contract.DLQ.Topic, strings.Join(rendered.Contract.RetryTopics, "|"),
	}
	want := []string{"--kafka=127.0.0.1:9", "--instance=1", "g", "none", "topics=in\n", "g-x", "dead", "r.r1|r.r2"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
	if subject.Env["GROUP"] != "{{.GroupID}}" {
		t.Error("rendering changed the subject itself")
	}
	joined := &SubjectFile{Contract: ContractSpec{RetryTopics: TextList{"{{.RetryTopics}}", "c"}}}
	if rendered, err = joined.Render(Values{RetryTopics: "a,b"}); err != nil ||
		!slices.Equal(rendered.Contract.RetryTopics, TextList{"a", "b", "c"}) {
		t.Errorf("retry topics %q, %v", rendered.Contract.RetryTopics, err)
	}
	values.TellBrokers("127.0.0.1:9,127.0.0.1:10")
	apart := &SubjectFile{Command: []string{"{{.BootstrapHost}}", "{{.BootstrapPort}}"}}
	if rendered, err = apart.Render(values); err != nil || rendered.Command[0] != "127.0.0.1" || rendered.Command[1] != "9" {
		t.Errorf("the first address in parts is %q, %v", rendered.Command, err)
	}
	if _, err := (&SubjectFile{Name: "x", Command: []string{"{{.Nope}}"}}).Render(values); err == nil {
		t.Error("an unknown value was rendered")
	}
}

// TestEveryValueIsGivenBothWays: each template value has its environment variable, and each carries its own value.
func TestEveryValueIsGivenBothWays(t *testing.T) {
	var values Values
	fields := reflect.ValueOf(&values).Elem()
	for i := range fields.NumField() {
		if field := fields.Field(i); field.Kind() == reflect.String {
			field.SetString(fields.Type().Field(i).Name)
		}
	}
	values.Instance, values.Needs = 7, map[string]string{"cache": "needscache"}
	values.DownstreamURLs = map[string]string{"shop": "downstreamshopurl"}
	values.Ports = map[string]string{"metrics": "portmetrics"}
	environment := values.Environment()
	if len(environment) != fields.NumField() {
		t.Errorf("%d variables for %d values", len(environment), fields.NumField())
	}
	for name, value := range environment {
		if name == "DLQBENCH_INSTANCE" {
			value = "Instance"
		}
		if flat := strings.ReplaceAll(strings.TrimPrefix(name, "DLQBENCH_"), "_", ""); !strings.EqualFold(flat, value) {
			t.Errorf("%s carries %s", name, value)
		}
	}
}

func TestDescribeContract(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"good", "least", "wire", "never"} {
		contract, err := loadSubject(t, name).HistoryContract()
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("== " + name + "\n" + strings.Join(describe(contract, false, usualAnswers()).Lines(200), "\n") +
			"\n")
	}
	text.WriteString("== reference\n" + strings.Join(describe(ReferenceContract(defaultReference()), false,
		usualAnswers()).Lines(200), "\n") + "\n")
	golden(t, "testdata/contracts.golden", text.String())
}

// TestDescriptionAgreesWithTheJudges: what is said to be unjudged is not judged, for a reason that lies in the
// contract, and the other way round.
func TestDescriptionAgreesWithTheJudges(t *testing.T) {
	contracts := []history.Contract{ReferenceContract(defaultReference())}
	for _, name := range []string{"good", "least", "wire", "auto", "never", "container"} {
		contract, err := loadSubject(t, name).HistoryContract()
		if err != nil {
			t.Fatal(err)
		}
		contracts = append(contracts, contract)
	}
	for i, contract := range contracts {
		description := describe(contract, false, usualAnswers())
		said := map[string]bool{}
		for _, reason := range description.Judged {
			said[reason.Invariant] = true
		}
		for _, reason := range description.NotJudged {
			said[reason.Invariant] = false
		}
		for _, result := range judgeNothing(t, contract) {
			judged, told := said[result.Name]
			possible := result.Unjudged != assertions.Inapplicable
			byContract := result.Unjudged == assertions.Unpromised || result.Unjudged == assertions.Unseen
			if told != possible || told && judged == byContract {
				t.Errorf("contract %d: %s is told of: %v, judged: %v, but the judge says %s (%s): %s", i, result.Name, told, judged,
					result.Status, result.Unjudged, result.Why)
			}
		}
	}
}

// TestScenariosThatAreNamed: those that an explanation names as an example are shipped.
func TestScenariosThatAreNamed(t *testing.T) {
	for _, name := range assertions.Names() {
		needs := assertions.Explain(name)[0].Scenario
		if needs == "" {
			continue
		}
		_, example, _ := strings.Cut(strings.TrimSuffix(needs, ")"), "(")
		if _, shipped := Shipped(example); !shipped {
			t.Errorf("%s: there is no scenario %q", name, example)
		}
	}
}

// judgeNothing judges an empty history by the contract.
func judgeNothing(t *testing.T, contract history.Contract) []assertions.Result {
	t.Helper()
	header := history.Header{
		Format: history.FormatVersion, RunID: "r", Instances: 1, Records: 1,
		Consumers: []history.Consumer{{Instances: 1, Contract: contract}},
		Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 1},
			{Name: "dlq", Role: history.RoleDLQ, Partitions: 1}},
	}
	verdict, _, err := assertions.Judge(history.FromEvents(header, nil))
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Invariants
}

// TestDialectsAreThoseThatThereAre holds the words of dlq.envelope to the dialects.
func TestDialectsAreThoseThatThereAre(t *testing.T) {
	for _, name := range append(deadletter.Names(), "plane") {
		text := "name: x\nkind: process\ncommand: [x]\ncontract: {dlq: {envelope: " + name + "}}\n"
		if _, err := ParseSubject("x.yaml", []byte(text)); (err == nil) != slices.Contains(deadletter.Names(), name) {
			t.Errorf("envelope %s: %v", name, err)
		}
	}
}

// TestEnvelopesOfTheReference: it can write every dialect, and its contract promises what the dialect can hold, and
// says what it can't.
func TestEnvelopesOfTheReference(t *testing.T) {
	for _, name := range append(deadletter.Names(), "plane") {
		scenario, err := Parse("x.yaml",
			[]byte("name: x\ndescription: x\nsubject: {reference: {envelope: "+name+
				"}}\nworkload: {rate: 10/s, duration: 1s}\n"))
		if known := slices.Contains(deadletter.Names(), name); (err == nil) != known {
			t.Errorf("envelope %s: %v", name, err)
		} else if !known {
			continue
		}
		dialect, err := deadletter.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		contract, traits := ReferenceContract(*scenario.Subject.Reference), dialect.Traits()
		if contract.Envelope != name || contract.KeepsHeaders != traits.Headers {
			t.Errorf("%s: the contract is %+v", name, contract)
		}
		said := strings.Join(describe(contract, false, usualAnswers()).Lines(200), "\n")
		if held := notHeld(name); !strings.Contains(said, fmt.Sprintf("the dialect %q%s.", name, held)) ||
			strings.Contains(held, "offset") == traits.Offset || strings.Contains(held, "attempts") == traits.Attempts {
			t.Errorf("%s: it says\n%s", name, said)
		}
	}
}

// TestWhatAnEnvelopeDoesNotHold checks that the description of a contract says which parts of the origin are named.
func TestWhatAnEnvelopeDoesNotHold(t *testing.T) {
	const (
		names      = ", which names the source "
		noAttempts = ", which does not say how many attempts there were"
	)
	for fields, want := range map[string]string{
		"topic partition offset attempts": "",
		"topic partition offset":          noAttempts,
		"topic partition attempts":        names + "topic and partition but not the offset",
		"topic partition":                 names + "topic and partition but neither the offset nor the number of attempts",
		"topic offset attempts":           names + "topic and offset but not the partition",
		"topic attempts":                  names + "topic but neither the partition nor the offset",
		"topic":                           names + "topic but neither the partition, the offset nor the number of attempts",
		"partition offset attempts value": names + "partition and offset but not the topic",
		"partition attempts value":        names + "partition but neither the topic nor the offset",
		"attempts value":                  ", which does not say where the record came from",
		"value":                           ", which says neither where the record came from nor how many attempts there were",
	} {
		places := map[string]string{}
		for field := range strings.FieldsSeq(fields) {
			places[field] = "$." + field
		}
		envelope, err := deadletter.OwnHeadersName(places)
		if err != nil {
			t.Fatal(err)
		}
		if have := notHeld(envelope); have != want {
			t.Errorf("%s: it says %q, want %q", fields, have, want)
		}
	}
}

// TestContractOfTheReferenceWithRetryTopics: the copy carries the count, no order is kept, and the names are those that
// the consumer itself takes.
func TestContractOfTheReferenceWithRetryTopics(t *testing.T) {
	reference := defaultReference()
	if names := RetryTopics(reference, "in"); names != nil {
		t.Errorf("retrying in place it has the retry topics %v", names)
	}
	reference.Retry, reference.OffsetMetadata = "topics", true
	have := ReferenceContract(reference)
	if have.Retry != history.RetryTopics || have.Counter != history.CounterHeader ||
		have.Ordering != history.OrderingNone || have.OffsetMetadata != history.MetadataRanges ||
		have.Backoff.Late != 500*time.Millisecond {
		t.Errorf("have %+v", have)
	}
	if names := RetryTopics(reference, "in"); !slices.Equal(names, []string{"in.retry-1", "in.retry-2"}) {
		t.Errorf("retry topics %v", names)
	}
}

// TestEnvelopes: an envelope governs metadata alone, whatever its form; without a dead-letter topic nothing of dead
// letters is promised.
func TestEnvelopes(t *testing.T) {
	for written, want := range map[string]struct {
		letters, headers bool
		envelope         string
	}{
		"{}":               {letters: true, headers: true},
		"{envelope: none}": {letters: true, headers: true},
		"{envelope: spring, keeps_headers: false}":            {letters: true, envelope: "spring"},
		"{envelope: {offset: x-offset, topic: x-orig-topic}}": {true, true, "headers:topic=x-orig-topic,offset=x-offset"},
		"{enabled: false}": {},
	} {
		subject, err := ParseSubject("s.yaml", []byte("name: s\nkind: process\ncommand: [s]\ncontract: {dlq: "+written+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		have, err := subject.HistoryContract()
		if err != nil || have.HasDLQ() != want.letters || have.KeepsHeaders != want.headers ||
			have.Envelope != want.envelope {
			t.Errorf("%s: have %+v, %v", written, have, err)
		}
	}
	for written, want := range map[string]string{
		"{envelope: sprnig}":             "sprnig",
		"{envelope: {offset: x-offset}}": "topic",
		"{envelope: {topic: x, offset: x}}": "s.yaml:4:28: topic and offset are both in \"x\": each needs a place " +
			"of its own",
		"{envelope: {value: original}}":               "not a path into the value",
		"{envelope: {value: $.a..b}}":                 "not a path of names",
		"{envelope: {value: $.a, value_base64: $.b}}": "exclude each other",
		"{envelope: {topic: x, partitoin: p}}":        "partitoin",
		"{envelope: {topic: 'a,b'}}":                  "s.yaml:4",
		"{enabled: false, envelope: plain}":           "enabled: false",
		"{envelope: 5}":                               "s.yaml:4",
	} {
		_, err := ParseSubject("s.yaml", []byte("name: s\nkind: process\ncommand: [s]\ncontract: {dlq: "+written+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", written, err)
		}
	}
}

// The ports of an instance are those that its file uses, wherever it does; a value without ports has none.
func TestPortsByName(t *testing.T) {
	t.Parallel()
	subject, err := ParseSubject("subject.yaml", []byte(`{name: it, kind: process, command: [it, "--http={{.Ports.http}}"],
 env: {METRICS: "{{.Ports.metrics}}:{{.Ports.http}}"}, files: {a.conf: "grpc={{.Ports.grpc}}"},
 needs: [{name: side, command: [side, "{{ .Ports.admin }}"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"admin", "grpc", "http", "metrics"}; !slices.Equal(subject.PortNames, want) {
		t.Errorf("ports %v, want %v", subject.PortNames, want)
	}
	for _, one := range []struct {
		ports map[string]string
		want  string
	}{{map[string]string{"http": "1", "metrics": "2"}, "2:1"}, {nil, ":"}} {
		if rendered, err := subject.Render(Values{Ports: one.ports}); err != nil || rendered.Env["METRICS"] != one.want {
			t.Errorf("%v: rendered %q, %v", one.ports, rendered.Env["METRICS"], err)
		}
	}
}
