package scenarios

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A scenario is refused, before anything is started, for a subject that can't show what it is about.
func TestUnfit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	for name, of := range map[string]struct{ promised, about, without string }{
		"kip-848":            {"group_protocol: consumer", "the group protocol of KIP-848", ""},
		"transactions":       {"transactions: true", "offsets and dead letters in one transaction", ""},
		"producer-fenced":    {"transactions: true", "offsets and dead letters in one transaction", ""},
		"share-group":        {"group_type: share", "a share group", ""},
		"hexkit-dlq-off":     {"dlq: {enabled: false}", "what a consumer without a dead-letter topic does", ""},
		"retry-topics":       {"retry: topics, retry_topics: a", "retry topics", ""},
		"smoke":              {"ordering: none", "", ""},
		"spring-envelope":    {"dlq: {envelope: spring}", "dead letters in the envelope spring", ""},
		"hexkit-dlq":         {"dlq: {envelope: hexkit}", "dead letters in the envelope hexkit", ""},
		"group-api-errors":   {"group_protocol: classic", "the classic group protocol", "group_protocol: streams"},
		"static-membership":  {"commits: never", "", ""},
		"consumer-kill":      {"commits: never", "", ""},
		"commit-failure":     {"commits: auto", "offsets that are committed to Kafka", "commits: never"},
		"coordinator-loss":   {"commits: auto", "a consumer group", "commits: never"},
		"coordinator-reload": {"commits: never, group_protocol: classic", "a consumer group", "commits: never"},
		"scale-up-and-down":  {"commits: never, group_protocol: consumer", "a consumer group", "commits: never"},
	} {
		text, _ := Shipped(name)
		parse := func(contract string) error {
			subject := "name: orders\nkind: process\ncommand: [orders]\ncontract: {" + contract + "}\n"
			if err := os.WriteFile(file, []byte(subject), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := ParseForSubject(name, text, nil, file)
			return err
		}
		if err := parse(of.promised); err != nil {
			t.Errorf("%s, for a subject that promises %s: %v", name, of.promised, err)
		}
		err := parse(cmp.Or(of.without, "attempts: {max: 3}"))
		if of.about == "" {
			if err != nil {
				t.Errorf("%s is for any subject, not: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), name+" is about "+of.about) {
			t.Errorf("%s, for a subject that does not promise %s: %v", name, of.promised, err)
		}
	}
}

// What a scenario starts itself is not the subject. The refusal is the only problem: others only follow from it.
// A shipped scenario has no threshold on what the contract leaves unseen or rules out. One that the user sets stays.
func TestThresholdsFitTheSubject(t *testing.T) {
	base := "name: x\nkind: process\ncommand: [x]\n"
	for _, one := range []struct {
		name, scenario, subject, set string
		want                         []string
	}{
		{"of an ordinary consumer", "poison-mix", "contract: {dlq: {envelope: plain}}", "",
			[]string{"count.unfinished == 0", "share.dead_lettered > 5%"}},
		{"without dead letters", "poison-mix", "contract: {dlq: {enabled: false}}", "", []string{"count.unfinished == 0"}},
		{"without dead letters, set by the user", "poison-mix", "contract: {dlq: {enabled: false}}",
			`expect.thresholds=["share.dead_lettered > 5%"]`, []string{"share.dead_lettered > 5%"}},
		{"with calls", "smoke", "contract: {dlq: {envelope: plain}}", "",
			[]string{"count.unfinished == 0", "share.succeeded > 80%"}},
		{"without calls", "smoke", "observe: wire\ncontract: {dlq: {envelope: plain}}", "", []string{"count.unfinished == 0"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "subject.yaml")
			if err := os.WriteFile(file, []byte(base+one.subject+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var sets []string
			if one.set != "" {
				sets = []string{one.set}
			}
			text, _ := Shipped(one.scenario)
			scenario, source, err := ParseForSubject(one.scenario, text, sets, file)
			if err != nil {
				t.Fatal(err)
			}
			if got := scenario.Expect.Thresholds; !slices.Equal(got, one.want) {
				t.Errorf("thresholds %q, want %q", got, one.want)
			}
			if again, err := Parse("again", source); err != nil || !slices.Equal(again.Expect.Thresholds, one.want) {
				t.Errorf("the stored scenario: %v, %v", again, err)
			}
		})
	}
}

// Faults on instances that a scenario has hit those that its subject has. Numbers that the user sets stay.
func TestFaultsFitTheInstances(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"one.yaml": service + "instances: 1\n", "two.yaml": service + "instances: 2\n", "any.yaml": service,
		"fixed.yaml": service + "listen: {kafka: 9092}\n",
	})
	kill, _ := Shipped("consumer-kill")
	const own = "name: own\ndescription: x\nworkload: {rate: 10/s, duration: 5s}\nsubject: {reference: {instances: 2}}\n" +
		"faults: [{at: 1s, for: 1s, kafka: {api: Fetch, instance: %, close: true}}]\n"
	mine := func(instance string) []byte { return []byte(strings.Replace(own, "%", instance, 1)) }
	for _, one := range []struct {
		text               []byte
		subject, set, says string
		count              int
		want               []int
	}{
		{kill, "any.yaml", "", "", 3, []int{1, 2}},
		{kill, "one.yaml", "", "", 1, []int{0, 0}},
		{kill, "fixed.yaml", "", "", 1, []int{0, 0}},
		{kill, "two.yaml", "", "", 2, []int{1, 0}},
		{kill, "", "subject.reference.instances=1", "", 1, []int{0, 0}},
		{kill, "any.yaml", "subject.reference.instances=2", "", 2, []int{1, 0}},
		{kill, "any.yaml", "subject.instances=1", "", 1, []int{0, 0}},
		{kill, "one.yaml", "faults[1].subject.instance=2", "there is no instance 2: the subject has 1 instance", 0, nil},
		{mine("1"), "one.yaml", "", "", 1, []int{0}},
		{mine("2"), "one.yaml", "", "there is no instance 2", 0, nil},
		{mine("2"), "", "", "there is no instance 2", 0, nil},
		{mine("x"), "one.yaml", "", "instance", 0, nil},
		{kill, "one.yaml", "subject.reference.instances=two", "--subject", 0, nil},
		{[]byte(strings.Replace(string(mine("1")), "faults: [{at: 1s, ", "drill: {faults: [{from: 1s, to: 2s, ", 1) + "}\n"), "one.yaml",
			"", "", 1, []int{0}},
	} {
		file, sets := one.subject, []string(nil)
		if file != "" {
			file = filepath.Join(dir, file)
		}
		if one.set != "" {
			sets = []string{one.set}
		}
		scenario, source, err := ParseForSubject("x.yaml", one.text, sets, file)
		if one.says != "" {
			if err == nil || !strings.Contains(err.Error(), one.says) {
				t.Errorf("for %q, with %s: %v, want %q", one.subject, one.set, err, one.says)
			}
			continue
		}
		if err != nil || scenario.InstanceCount() != one.count || !slices.Equal(targets(scenario), one.want) {
			t.Errorf("for %q, with %s: %v, want %d instances and faults on %v", one.subject, one.set, err, one.count, one.want)
			continue
		}
		if again, err := Parse("again", source); err != nil || !slices.Equal(targets(again), one.want) {
			t.Errorf("for %q, with %s, the stored scenario: %v", one.subject, one.set, err)
		}
	}
}

// targets are the instances that the faults name.
func targets(s *Scenario) (numbers []int) {
	for _, fault := range s.Written() {
		if fault.Subject != nil && fault.Subject.Instance != nil {
			numbers = append(numbers, *fault.Subject.Instance)
		}
		if fault.Kafka != nil && fault.Kafka.Instance != nil {
			numbers = append(numbers, *fault.Kafka.Instance)
		}
	}
	return numbers
}

// Every shipped scenario that a consumer with more instances can be run in, one with a single instance can, too. Only
// those that add instances are refused.
func TestShippedScenariosForOneInstance(t *testing.T) {
	dir := inFolder(t, map[string]string{"one.yaml": service + "instances: 1\n", "any.yaml": service,
		"fixed.yaml": service + "listen: {kafka: 9092}\n"})
	for _, name := range Names() {
		text, _ := Shipped(name)
		many, _, err := ParseForSubject(name, text, nil, filepath.Join(dir, "any.yaml"))
		if err != nil {
			continue
		}
		for _, file := range []string{"one.yaml", "fixed.yaml"} {
			one, _, err := ParseForSubject(name, text, nil, filepath.Join(dir, file))
			if adds := many.MaxInstances() > many.InstanceCount(); adds != (err != nil) {
				t.Errorf("%s with %s: %v", name, file, err)
			} else if err == nil && len(targets(one)) != len(targets(many)) {
				t.Errorf("%s with %s has faults on %v, not on one for each of %v", name, file, targets(one), targets(many))
			}
		}
	}
}

func TestUnfitKind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(file, []byte("name: orders\nkind: process\ncommand: [orders]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, about := range map[string]string{
		"store-lifecycle": "dlqbench's own dead-letter store", "pipestream-graph": "a graph of nodes",
		"hexkit-shared-dlq": "several services", "hexkit-dlq": "dead letters in the envelope hexkit",
	} {
		text, _ := Shipped(name)
		_, _, err := ParseForSubject(name, text, nil, file)
		if err == nil || !strings.Contains(err.Error(), name+" is about "+about) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What fails at a schema registry concerns only subjects that ask one. A scenario without a subject leaves open who is
// judged, but the reference consumer can't be.
func TestUnfitWithoutRegistry(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"plain.yaml": service, "samples.yaml": service + "input: {samples: s.jsonl, id: {at: $.id}}\n",
		"s.jsonl":   `{"id":"a"}`,
		"avro.yaml": service + "input: {samples: s.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}\n",
		"skip.yaml": service + "contract: {poison: skip}\ninput: {samples: s.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}\n",
		"halt.yaml": service + "contract: {poison: halt}\ninput: {samples: s.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}\n",
		"a.avsc":    `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
	})
	shipped, _ := Shipped("registry-outage")
	const own = "name: own\ndescription: x\nworkload: {rate: 10/s, duration: 5s}\n"
	failing := strings.Replace(own, "5s}", "5s, outcomes: {success: 1, permanent: 1}}", 1)
	unknown := own + "faults: [{at: 1s, for: 1s, registry: {unknown_id: true}}]\n"
	for _, c := range []struct{ text, subject, want string }{
		{string(shipped), "avro.yaml", ""}, {string(shipped), "skip.yaml", ""}, {string(shipped), "", ""},
		{string(shipped), "plain.yaml", "registry-outage is about the schema registry, which the subject does not ask"},
		{string(shipped), "samples.yaml", "add input.format and input.schema"},
		{unknown, "avro.yaml", ""}, {unknown, "skip.yaml", "it would skip good records"},
		{unknown, "halt.yaml", "it would halt at good records"}, {failing + "replay: {}\n", "halt.yaml", ""},
		{strings.Replace(failing, "5s", "5s, garbage: 1%", 1) + "replay: {}\n", "halt.yaml", "handles nothing behind it"},
		{own + "faults: [{at: 1s, for: 1s, registry: {error: 404}}]\n", "avro.yaml", "500"},
		{unknown + "subject: {reference: {instances: 2}}\n", "", "the subject asks no schema registry"},
		{own + "subject: {reference: {instances: 2}}\nfaults: [{at: 1s, for: 1s, network: {link: registry, down: true}}]\n",
			"",
			`there is no link "registry"`},
	} {
		file := c.subject
		if file != "" {
			file = filepath.Join(dir, file)
		}
		scenario, _, err := ParseForSubject("x.yaml", []byte(c.text), nil, file)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, for %q: %v, want %q", c.text, c.subject, err, c.want)
		}
		if err == nil && (scenario.NeedsSubject() == "") != (c.subject != "") {
			t.Errorf("for %q it needs: %q", c.subject, scenario.NeedsSubject())
		}
	}
}

// The list has every shipped scenario once, below a heading. A subject leaves some without anything to show.
func TestList(t *testing.T) {
	all, err := List(nil)
	if err != nil || len(all) != len(Names()) {
		t.Fatalf("%d of %d scenarios are listed: %v; a scenario without a group is not", len(all), len(Names()), err)
	}
	for _, one := range all {
		if one.Line() == "" || one.Unfit != "" {
			t.Errorf("%+v", one)
		}
	}
	subject, err := ParseSubject("subject.yaml", []byte("name: orders\nkind: process\ncommand: [orders]\n"))
	if err != nil {
		t.Fatal(err)
	}
	some, err := List(subject)
	if err != nil {
		t.Fatal(err)
	}
	unfit := map[string]bool{}
	for _, one := range some {
		unfit[one.Name] = one.Unfit != ""
	}
	if unfit["smoke"] || !unfit["share-group"] || !unfit["store-lifecycle"] {
		t.Errorf("unfit are %v", unfit)
	}
}
