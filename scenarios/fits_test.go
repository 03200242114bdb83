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
