package learn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// looked is a run with six records: the even ones succeed, the odd ones fail.
func looked() *seen {
	s := newSeen()
	for number := range int32(6) {
		r := s.record(number)
		r.offset, r.planned = int64(number), history.OutcomeSuccess
		r.tries = []try{{begin: time.Second, end: 2 * time.Second, outcome: history.OutcomeSuccess}}
		if number%2 == 1 {
			r.planned, r.tries[0].outcome = history.OutcomePermanent, history.OutcomePermanent
		}
	}
	s.committed[place{}] = 6
	return s
}

func records(numbers ...int32) (all []run.OtherRecord) {
	for _, number := range numbers {
		all = append(all, run.OtherRecord{Record: number, Found: &kgo.Record{Headers: []kgo.RecordHeader{
			{Key: "x-reason", Value: []byte("200 OK")}}}})
	}
	return all
}

func TestTopicsThatItWritesTo(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name             string
		others           map[string][]run.OtherRecord
		letters, results []string
	}{
		{"nothing", map[string][]run.OtherRecord{"asked-for": nil}, nil, nil},
		{"both", map[string][]run.OtherRecord{"receipts": records(0, 2, 4), "bad": records(1, 3, history.None)},
			[]string{"bad"}, []string{"receipts"}},
		{"results, also of what can't be read", map[string][]run.OtherRecord{"out": records(0, 2, 4, history.None)}, nil,
			[]string{"out"}},
		{"only what can't be read", map[string][]run.OtherRecord{"bad": records(history.None)}, []string{"bad"}, nil},
		{"results of both kinds, and dead letters", map[string][]run.OtherRecord{"events": records(0, 1, 2, 3),
			"bad": records(1, 3)}, []string{"bad"}, []string{"events"}},
		{"all are dead-lettered", map[string][]run.OtherRecord{"orders.dlq": records(0, 1, 2, 3)}, []string{"orders.dlq"}, nil},
		{"dead letters that it reads, too", map[string][]run.OtherRecord{"orders-dlt": records(1, 3)}, []string{"orders-dlt"},
			nil},
		{"one with records of both kinds", map[string][]run.OtherRecord{"bad": records(0, 1, 2, 3)}, []string{"bad"}, nil},
		{"a retry topic, which it reads", map[string][]run.OtherRecord{"again": records(1)}, nil, nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			wrote := looked().destinations(run.Sighting{Others: one.others, Read: []string{"orders", "again", "orders-dlt"}},
				false)
			if !slices.Equal(wrote.letters, one.letters) || !slices.Equal(wrote.results, one.results) {
				t.Errorf("letters %v, results %v, want %v and %v", wrote.letters, wrote.results, one.letters, one.results)
			}
		})
	}
}

// A topic with a record for each one that succeeded holds effects, which are promised. One that lacks any does not.
func TestATopicWithEffects(t *testing.T) {
	t.Parallel()
	s := looked()
	for i := range s.records {
		s.records[i].planned = history.OutcomeSuccess
	}
	all := map[string][]run.OtherRecord{"audit": records(0, 1, 2, 3, 4), "out": records(0, 1, 2, 2, 3, 4, 5, history.None)}
	if topic := s.hasEffects(run.Sighting{Others: all}, []string{"audit", "out"}); topic != "out" {
		t.Errorf("effects in %q", topic)
	}
	subject, err := scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it], "+
		"contract: {effects: {topic: out}}}"))
	if err != nil || least(subject).EffectsTopic() != "out" {
		t.Errorf("the watched run has no such topic: %v", err)
	}
	s.committed[place{}] = 4 // what is not committed may have its effect later
	if topic := s.hasEffects(run.Sighting{Others: all}, []string{"audit", "out"}); topic != "" {
		t.Errorf("effects in %q, of 4 records", topic)
	}
}

// A consumer that only reads, because it can't decode any record, is not watched for minutes.
func TestAConsumerThatOnlyReads(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	k := &look{Config: &Config{File: "subject.yaml"}, subject: subject}
	idle := func(change func(*seen, *run.Sighting)) error {
		s, sight := newSeen(), run.Sighting{}
		s.record(0).offset, s.header.Consumers = 0, []history.Consumer{{Group: "g"}}
		s.said = []string{"ERROR no magic byte"}
		change(s, &sight)
		return k.idle(s, sight)
	}
	if err := idle(func(*seen, *run.Sighting) {}); !errors.Is(err, ErrNothingSeen) ||
		!strings.Contains(err.Error(), "no magic byte") {
		t.Errorf("%v", err)
	}
	if err := idle(func(s *seen, _ *run.Sighting) { s.commits = 18 }); !errors.Is(err, ErrNothingSeen) {
		t.Errorf("commits of where it begins: %v", err)
	}
	for name, change := range map[string]func(*seen, *run.Sighting){
		"a commit":      func(s *seen, _ *run.Sighting) { s.committed[place{}] = 1 },
		"a share group": func(s *seen, _ *run.Sighting) { s.shared, s.commits = true, 1 },
		"a call":        func(_ *seen, sight *run.Sighting) { sight.Calls = []run.DownstreamCall{{}} },
		"a write":       func(_ *seen, sight *run.Sighting) { sight.Others = map[string][]run.OtherRecord{"bad": records(0)} },
		"a dead letter": func(s *seen, _ *run.Sighting) { s.deadLetters = []deadLetter{{}} },
	} {
		if err := idle(change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A topic that gets several records for each one tells what happens to it, such as that it is queued, tried and sent:
// none of these is an attempt.
func TestATopicWithEventsHoldsNoAttempts(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		others map[string][]run.OtherRecord
		want   string
	}{
		"one record for each":     {map[string][]run.OtherRecord{"out": records(0, 2, 4)}, "kafka: {topic: out}"},
		"one was delivered again": {map[string][]run.OtherRecord{"out": records(0, 0, 2, 4)}, "kafka: {topic: out}"},
		"three for each":          {map[string][]run.OtherRecord{"events": records(0, 0, 0, 2, 2, 2, 4, 4, 4)}, "observe: wire"},
		"events, and results": {map[string][]run.OtherRecord{"events": records(0, 0, 2, 2, 4, 4), "out": records(0, 2, 4)},
			"kafka: {topic: out}"},
	} {
		text := "name: it\nkind: process\ncommand: [it]\ndownstreams: [{http: {}}]\n"
		subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte(text)))(t)
		k := &look{Config: &Config{File: "subject.yaml"}, text: []byte(text), subject: subject, rewrites: true,
			found: map[string]string{}}
		s := looked()
		s.commits = 1
		for i := range s.records {
			s.records[i].tries = nil
		}
		wrote := s.destinations(run.Sighting{Others: one.others}, false)
		if err := k.putDownstreams(s, nil, &wrote); err != nil || !strings.Contains(string(k.text), one.want) {
			t.Errorf("%s: %v\n%s", name, err, k.text)
		}
		if _, has := one.others["events"]; has != slices.Contains(wrote.results, "events") {
			t.Errorf("%s: further topics are %v", name, wrote.results)
		}
	}
}

// A consumer that takes the answer 200 for a failure shows it by dead letters, by further calls, or by its end.
func TestAnAnswerThatIsNotExpected(t *testing.T) {
	t.Parallel()
	letters := run.Sighting{Others: map[string][]run.OtherRecord{"orders.dlq": records(0, 1, 2, 3, 4)}}
	unusual := run.Sighting{Others: map[string][]run.OtherRecord{"bad": records(0, 1, 2, 3, 4)}}
	for _, one := range []struct {
		name   string
		sight  run.Sighting
		change func(*seen)
		want   string
	}{
		{"taken", run.Sighting{Others: map[string][]run.OtherRecord{"orders.dlq": records(1, 3)}}, func(*seen) {}, ""},
		{"dead-lettered", letters, func(*seen) {}, `A dead letter says "200 OK"`},
		{"dead-lettered under an unusual name", unusual, func(*seen) {}, `A dead letter says "200 OK"`},
		{"called again", run.Sighting{}, func(s *seen) {
			for i := range s.records {
				s.records[i].tries = append(s.records[i].tries, try{})
			}
		}, "of 3 records whose call was answered with success, 3 were"},
		{"it ends", run.Sighting{}, func(s *seen) {
			s.crashes, s.committed, s.said = []crash{{code: 1}}, map[place]int64{},
				[]string{"Traceback (most recent call last):", "KeyError: 'charge'"}
		}, `Its log says "KeyError: 'charge'"`},
		{"one of many", run.Sighting{Others: map[string][]run.OtherRecord{"orders.dlq": records(0, 1)}}, func(*seen) {}, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := looked()
			one.change(s)
			for advice, downstream := range map[string]scenarios.Downstream{
				"with --answer": {HTTP: &scenarios.HTTPDownstream{}}, "{statements: …}": {Postgres: &scenarios.PostgresDownstream{}},
			} {
				k := &look{Config: &Config{File: "subject.yaml"},
					subject: &scenarios.SubjectFile{Downstreams: []scenarios.Downstream{downstream}}}
				err := k.accepted(s, s.destinations(one.sight, false), one.sight)
				if (one.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrAnswer) ||
					!strings.Contains(err.Error(), one.want) || !strings.Contains(err.Error(), advice)) {
					t.Errorf("%v, want %q and %q", err, one.want, advice)
				}
			}
		})
	}
}

// A consumer that takes none of the records shows nothing of what it does with them.
func TestRecordsThatAreRefused(t *testing.T) {
	t.Parallel()
	letter := &kgo.Record{Value: []byte(`{"at": 5, "id": "x", "last_error": "expected version 4"}`)}
	for name, one := range map[string]struct {
		tried bool
		about []int32
		want  string
	}{
		"all":                    {about: []int32{0, 1, 2, 3, 4, 5}, want: `A dead letter says "expected version 4"`},
		"all, after an attempt":  {about: []int32{0, 1, 2, 3, 4, 5}, tried: true},
		"those that should fail": {about: []int32{1, 3, 5}},
		"one of three":           {about: []int32{0, 1, 3, 5}},
	} {
		s, sight := looked(), run.Sighting{Others: map[string][]run.OtherRecord{}}
		for i := range s.records {
			if !one.tried {
				s.records[i].tries = nil
			}
		}
		for _, number := range one.about {
			sight.Others["orders.dlq"] = append(sight.Others["orders.dlq"], run.OtherRecord{Record: number, Found: letter})
		}
		k := &look{Config: &Config{File: "subject.yaml"}, subject: &scenarios.SubjectFile{}}
		err := k.readable(s, s.destinations(sight, false), sight)
		if errors.Is(err, ErrRecords) != (one.want != "") || err != nil && (!strings.Contains(err.Error(), one.want) ||
			!strings.Contains(err.Error(), "(--answer, or downstreams) and what it needs, such as tables")) {
			t.Errorf("%s: %v, want %q", name, err, one.want)
		}
	}
}

// A consumer that is given a schema registry, and records without a schema, may want some that have one.
func TestRecordsWithoutASchema(t *testing.T) {
	t.Parallel()
	registry := map[string]string{"A": "b", "REGISTRY": "{{.SchemaRegistryURL}}/apis"}
	avro := &scenarios.Input{MadeFrom: scenarios.MadeFrom{FormatSpec: scenarios.FormatSpec{Format: "avro"}}}
	keyed := &scenarios.Input{MadeFrom: avro.MadeFrom}
	keyed.Key = &scenarios.FormatSpec{Format: "avro"}
	framing := []string{"ERROR", "Unknown magic byte!"}
	for _, one := range []struct {
		want    string
		subject scenarios.SubjectFile
		said    []string
	}{
		{"registry (REGISTRY): if its records have a schema", scenarios.SubjectFile{Env: registry}, nil},
		{"", scenarios.SubjectFile{Env: registry, Input: avro}, nil},
		{"if its keys have one", scenarios.SubjectFile{Env: registry, Input: avro}, framing},
		{"", scenarios.SubjectFile{Env: registry, Input: keyed}, framing},
	} {
		want := one.want
		if got := unschooled(&one.subject, one.said); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A topic that has records of both kinds whatever the answer holds results: after the last answer, the first is tried
// again, and the topic is taken for that.
func TestATopicOfBothKinds(t *testing.T) {
	t.Parallel()
	sight := run.Sighting{Others: map[string][]run.OtherRecord{"events": records(0, 1, 2, 3, 4)}}
	var statuses []int
	k := &look{Config: &Config{File: "subject.yaml"}, report: &Report{}, found: map[string]string{}, rewrites: true,
		text: []byte("name: it\nkind: process\ncommand: [it]\ndownstreams: [{http: {}}]\n")}
	var err error
	if k.subject, err = scenarios.ParseSubject("subject.yaml", k.text); err != nil {
		t.Fatal(err)
	}
	tried := errors.New("the next look")
	k.Run = func(context.Context, run.Options) (*run.Outcome, error) {
		statuses = append(statuses, k.status)
		return nil, tried
	}
	s := looked()
	for range 3 {
		wrote := s.destinations(sight, k.mixed)
		refused := k.accepted(s, wrote, sight)
		if !errors.Is(refused, ErrAnswer) {
			t.Fatalf("before all answers were tried, it is taken for results: %v", refused)
		}
		if err := k.otherwise(t.Context(), s, sight, &wrote, refused); !errors.Is(err, tried) {
			t.Fatal(err)
		}
	}
	if !slices.Equal(statuses, []int{201, 204, 0}) {
		t.Errorf("tried the answers %v", statuses)
	}
	wrote := s.destinations(sight, k.mixed)
	if err := k.accepted(s, wrote, sight); err != nil || !slices.Equal(wrote.results, []string{"events"}) {
		t.Errorf("%v, results %v", err, wrote.results)
	}
	if err := k.otherwise(t.Context(), s, sight, &wrote, ErrAnswer); !errors.Is(err, ErrAnswer) {
		t.Errorf("tried once more: %v", err)
	}
}

// A consumer that joins a group and fetches from no topic may read topics by a pattern that none matches. It is not
// ready then, and the error says what helps.
func TestTopicsByAPattern(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, want string
		groups     []run.JoinedGroup
		err        error
	}{
		{"it joined", "joined the group shop. If it reads topics by a pattern", []run.JoinedGroup{{Name: "shop"}},
			errors.New("not ready")},
		{"it did not, and the run ended", "is Kafka's address", nil, nil},
		{"it did not start", "not ready", nil, errors.New("not ready")},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			k := &look{Config: &Config{File: "subject.yaml"}}
			if err := k.unread(one.groups, "runs/1", one.err); err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v, want %q", err, one.want)
			}
		})
	}
}

// Where nothing answers attempts, such as with an output topic alone, a topic with records of both kinds has results.
func TestResultsWithoutAttempts(t *testing.T) {
	t.Parallel()
	s := looked()
	for i := range s.records {
		s.records[i].tries = nil
	}
	wrote := s.destinations(run.Sighting{Others: map[string][]run.OtherRecord{"out": records(0, 1, 2, 3)}}, false)
	if len(wrote.letters) > 0 || !slices.Equal(wrote.results, []string{"out"}) {
		t.Errorf("letters %v, results %v", wrote.letters, wrote.results)
	}
}

func TestNamesAreWrittenDown(t *testing.T) {
	t.Parallel()
	header := history.Header{Consumers: []history.Consumer{{Group: "r1"}},
		Topics: []history.Topic{{Name: "declared", Role: history.RoleInput}}}
	for _, one := range []struct {
		name            string
		file            string
		inputs, retries []string
		groups          []run.JoinedGroup
		want            []string
	}{
		{"one topic", "", []string{"orders"}, nil, []run.JoinedGroup{{Name: "shop"}},
			[]string{"topic: orders", "group: shop"}},
		{"several, with retry topics by their numbers", "", []string{"eu", "us"}, []string{"orders-retry-10", "orders-retry-9"},
			[]run.JoinedGroup{{Name: "shop-retry"}, {Name: "shop"}},
			[]string{"topics: [eu, us]", "retry_topics: [orders-retry-9, orders-retry-10]", "retry: topics", "group: shop\n",
				"It joins 2 groups"}},
		{"a group of the retries with the shorter name", "", []string{"orders"}, []string{"orders-retry-9"},
			[]run.JoinedGroup{{Name: "retry", Topics: []string{"orders-retry-9"}}, {Name: "shop-orders",
				Topics: []string{"orders"}}, {Name: "dlt", Topics: []string{"orders-dlt"}}},
			[]string{"group: shop-orders", "It reads the input with this group."}},
		{"a group of the retries, and an input that the file names", "input: {topic: declared}\n", nil,
			[]string{"orders-retry-9"}, []run.JoinedGroup{{Name: "retry", Topics: []string{"orders-retry-9"}}, {Name: "shop-orders",
				Topics: []string{"declared"}}},
			[]string{"group: shop-orders", "It reads the input with this group."}},
		{"the group that it was given", "env: {G: \"{{.GroupID}}\"}\n", []string{"orders"}, nil,
			[]run.JoinedGroup{{Name: "r1"}}, []string{"topic: orders"}},
		{"a share group", "", []string{"orders"}, nil, []run.JoinedGroup{{Name: "shop", Share: true}},
			[]string{"group_type: share", "group: shop"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			k := &look{Config: &Config{File: "subject.yaml"}, report: &Report{}, found: map[string]string{},
				text: []byte("name: it\nkind: process\ncommand: [it]\n" + one.file)}
			var err error
			if k.subject, err = scenarios.ParseSubject("subject.yaml", k.text); err != nil {
				t.Fatal(err)
			}
			read := append(slices.Clone(one.inputs), one.retries...)
			if one.inputs == nil {
				read = append(read, "declared")
			}
			must.Do(t, errors.Join(k.putInputs(one.inputs, ""),
				k.putGroup(header, run.Sighting{Read: read, Groups: one.groups}),
				k.putRetries(one.retries, listeners{of: k.ownGroup(header), groups: one.groups})))
			for _, want := range one.want {
				if !strings.Contains(string(k.text), want) {
					t.Errorf("it lacks %q:\n%s", want, k.text)
				}
			}
			if len(one.want) == 1 && strings.Contains(string(k.text), "group") && one.file == "" {
				t.Errorf("a group that was not seen:\n%s", k.text)
			}
		})
	}
}

// A service reads three topics with a group each, and all of their names are like those of retry topics. One of them is
// an input, and a contract is about one group.
func TestAGroupForEachInput(t *testing.T) {
	t.Parallel()
	header := history.Header{Topics: []history.Topic{{Name: "r7.input", Role: history.RoleInput}}}
	all := []string{"demo-standard-retry", "demo-stateless-retry", "demo-stateful-retry"}
	groups := []run.JoinedGroup{{Name: "statelessGroup", Topics: all[1:2]}, {Name: "standardGroup", Topics: all[:1]},
		{Name: "statefulGroup", Topics: all[2:]}}
	sight, left, others := ofOneGroup(run.Sighting{Read: all, Groups: groups}, header)
	if inputs, retries := sortedOut(sight.Read, header); !slices.Equal(inputs, all[:1]) || len(retries) > 0 ||
		!slices.Equal(left, all[1:]) {
		t.Errorf("inputs %v, retries %v, left %v", inputs, retries, left)
	}
	for _, said := range []string{"demo-stateful-retry with the group statefulGroup", "file of its own"} {
		if !strings.Contains(others, said) {
			t.Errorf("%q lacks %q", others, said)
		}
	}
	for name, same := range map[string]run.Sighting{
		"one group reads all": {Read: []string{"eu", "us"}, Groups: []run.JoinedGroup{{Name: "shop", Topics: []string{"eu", "us"}}}},
		"patterns":            {Read: []string{"eu", "us"}, Groups: []run.JoinedGroup{{Name: "a"}, {Name: "b"}}},
		"a group for retries": {Read: []string{"eu", "eu-retry"}, Groups: []run.JoinedGroup{{Name: "a", Topics: []string{"eu"}},
			{Name: "b", Topics: []string{"eu-retry"}}}},
		"the same topic": {Read: []string{"eu"}, Groups: []run.JoinedGroup{{Name: "a", Topics: []string{"eu"}},
			{Name: "b", Topics: []string{"eu"}}}},
	} {
		if of, _, others := ofOneGroup(same, header); !slices.Equal(of.Read, same.Read) || others != "" {
			t.Errorf("%s: reads %v, %q", name, of.Read, others)
		}
	}
	if _, retries := sortedOut([]string{"r7.input", "again-retry"}, header); !slices.Equal(retries, []string{"again-retry"}) {
		t.Errorf("retries beside a known input: %v", retries)
	}
}

// Names that are made from those of a run are written so that they hold in the next one.
func TestNamesOfTheRun(t *testing.T) {
	t.Parallel()
	header := history.Header{RunID: "r7", Topics: []history.Topic{{Name: "r7.input"}, {Name: "r7.input.dlq"}}}
	sight := general(run.Sighting{Read: []string{"r7.input", "r7.input-retry-1", "r7.input-dlt", "audit"},
		Others: map[string][]run.OtherRecord{"r7.input-dlt": records(1), "r7.out": records(2)}}, header)
	inputs, retries := sortedOut(sight.Read, header)
	if !slices.Equal(inputs, []string{"audit"}) || !slices.Equal(retries, []string{"{{.InputTopic}}-retry-1"}) {
		t.Errorf("inputs %v, retries %v", inputs, retries)
	}
	if len(sight.Others) != 2 || len(sight.Others["{{.InputTopic}}-dlt"]) != 1 || len(sight.Others["{{.RunID}}.out"]) != 1 {
		t.Errorf("others %v", sight.Others)
	}
	header.Topics[0].Name = "transfers"
	sight = general(run.Sighting{Read: []string{"transfers-retry"}}, header)
	if sight.Read[0] != "transfers-retry" {
		t.Errorf("a name that stays became %s", sight.Read[0])
	}
}

// A file that says where dead letters go, or that there are none, is believed.
func TestDeadLettersThatAreKnown(t *testing.T) {
	t.Parallel()
	for file, known := range map[string]bool{
		"": false, "contract: {dlq: {on_failure: retry}}\n": false,
		"contract: {dlq: {enabled: false}}\n": true, "contract: {dlq: {topic: orders.dlq}}\n": true,
		"env: {DLQ: \"{{.DLQTopic}}\"}\n": true, "env: {DLQ: \"{{ .DLQTopic }}\"}\n": true,
	} {
		k := &look{Config: &Config{}, text: []byte("name: it\nkind: process\ncommand: [it]\n" + file)}
		var err error
		if k.subject, err = scenarios.ParseSubject("subject.yaml", k.text); err != nil {
			t.Fatal(err)
		}
		if k.knowsLetters() != known {
			t.Errorf("%q: known %v, want %v", file, !known, known)
		}
	}
}

// A first look is taken at a consumer whose file does not say both what it reads and as whom.
func TestNamesThatAreKnown(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		file         string
		input, group bool
	}{
		{"", false, false},
		{"input: {topic: orders}\n", true, false},
		{"input: {topics: [eu, us]}\ncontract: {group: shop}\n", true, true},
		{"env: {T: \"{{.InputTopics}}\", G: \"{{.GroupID}}\"}\n", true, true},
		{"env: {G: \"{{.GroupID}}\"}\n", false, true},
		{"contract: {dlq: {topic: \"{{.InputTopic}}.DLT\"}, group: \"{{.GroupID}}\"}\n", false, false},
		{"env:\n  A: b\n  # T: \"{{.InputTopic}}\"\n  # G: \"{{.GroupID}}\"\n", false, false},
		{"env:\n  T: \"{{.InputTopic}}\" # read in main.go\n  G: |\n    # a comment of its own\n    {{.GroupID}}\n", true, true},
	} {
		k := &look{Config: &Config{}, text: []byte("name: it\nkind: process\ncommand: [it]\n" + one.file)}
		var err error
		if k.subject, err = scenarios.ParseSubject("subject.yaml", k.text); err != nil {
			t.Fatal(err)
		}
		if k.knowsInput() != one.input || k.knowsGroup() != one.group {
			t.Errorf("%q: knows its input %v, its group %v", one.file, k.knowsInput(), k.knowsGroup())
		}
	}
}

// What a file says of downstreams is replaced only if it says nothing but their kinds and names.
func TestDownstreamsThatAreReplaced(t *testing.T) {
	t.Parallel()
	for file, open := range map[string]bool{
		"": false, "downstreams: [{http: {}}]": true, "downstreams: [{name: bank, http: {}}, {postgres: {}}]": true,
		"downstreams: [{http: {tls: true}}]": true, "downstreams: [{http: {id: {in: path}}}]": false,
		"downstreams: [{http: {}}, {postgres: {unanswered: commit}}]":         false,
		"downstreams: [{http: {}}, {name: m, optional: true, http: {}}]":      false,
		"downstreams: [{http: {}}, {kafka: {topic: \"{{.RunID}}.results\"}}]": false,
	} {
		k := &look{Config: &Config{}}
		var err error
		if k.subject, err = scenarios.ParseSubject("subject.yaml",
			[]byte("name: it\nkind: process\ncommand: [it]\n"+file+"\n")); err != nil {
			t.Fatal(err)
		}
		if k.open() != open {
			t.Errorf("%q: replaced %v, want %v", file, !open, open)
		}
		if k.Made = true; !k.open() {
			t.Errorf("%q: a file that was made for it is not open", file)
		}
	}
}

// The spread of waits is asked about if it is more than a busy machine makes of a wait of that length.
func TestJitterIsAskedAbout(t *testing.T) {
	t.Parallel()
	ms := func(all ...int) (waits []time.Duration) {
		for _, one := range all {
			waits = append(waits, time.Duration(one)*time.Millisecond)
		}
		return waits
	}
	l := &learned{subject: &scenarios.SubjectFile{}}
	if text := l.jitter(ms(50, 55, 60, 65, 70)); !strings.Contains(text, "jitter: 20ms") {
		t.Errorf("nothing is asked about waits of 50 to 70 ms: %q", text)
	}
	if text := l.jitter(ms(100, 101, 102, 104, 180)); text != "" {
		t.Errorf("one late wait among steady ones: %q", text)
	}
}

// If a route may be about an unreadable record, the routes are those of calls that are made without such records.
func TestRoutesWithoutUnreadableRecords(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	s := looked()
	s.records[2].flags, s.records[2].sent = history.Garbage, 3*time.Second
	looks := errors.New("one more look")
	for when, again := range map[time.Duration]bool{2 * time.Second: false, 4 * time.Second: true} {
		k := &look{Config: &Config{File: "subject.yaml"}, report: &Report{}, subject: subject, rewrites: true}
		k.Run = func(_ context.Context, options run.Options) (*run.Outcome, error) {
			if load := options.Scenario.Workload; load.Garbage > 0 || load.Malformed.Share > 0 {
				t.Errorf("it sends records that can't be read: %+v", load)
			}
			return nil, looks
		}
		call := workload.Called{At: when, Method: "GET", Path: "/rates", Record: history.None}
		_, err := k.readableCalls(t.Context(), s, trafficOf([]run.DownstreamCall{{Called: call}}))
		if again != errors.Is(err, looks) {
			t.Errorf("a route first called at %s: %v", when, err)
		}
		k.rewrites = false
		if _, err := k.readableCalls(t.Context(), s, trafficOf([]run.DownstreamCall{{Called: call}})); err != nil {
			t.Errorf("routes that are not written are looked for: %v", err)
		}
	}
}
