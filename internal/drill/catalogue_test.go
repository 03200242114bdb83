package drill

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// TestCatalogue checks that every fault of the catalogue is listed, that its parameters have the defaults of its spec,
// and that every available fault can be injected.
func TestCatalogue(t *testing.T) {
	s, _ := newFake(t, nil)
	names := map[string]Breakable{}
	for _, one := range s.Catalogue() {
		names[one.Name] = one
		text, err := json.Marshal(one.Spec)
		must.Do(t, err)
		spec, err := scenarios.DecodeFault(text)
		if err != nil {
			t.Errorf("%s: its own spec is none: %v", one.Name, err)
			continue
		}
		if spec.At != 0 || spec.For != 0 || spec.When != "" || spec.Kind() != one.Kind {
			t.Errorf("%s: %s", one.Name, text)
		}
		if one.Refused == "" {
			if _, err := s.Break(t.Context(), ada, one.Spec); err != nil {
				t.Errorf("%s: %v", one.Name, err)
			}
		}
		if len(one.Parameters) == 0 || one.Summary == "" || one.Shows == "" {
			t.Errorf("%s explains nothing: %+v", one.Name, one)
		}
		for _, p := range one.Parameters {
			if p.Type == TypeChoice && len(p.Choices) == 0 || p.Path == "" ||
				p.Default != nil && valueAt(one.Spec, p.Path) == nil {
				t.Errorf("%s: %+v", one.Name, p)
			}
		}
	}
	for _, entry := range catalogue.Entries() {
		_, found := names[entry.Name]
		if own := catalogue.OfWorkload(entry) || strings.HasPrefix(entry.Name, catalogue.KindSchedule+"."); own == found {
			t.Errorf("%s: in the drill's catalogue: %v", entry.Name, found)
		}
	}
	for _, name := range []string{"store.crash", "registry.error"} {
		if names[name].Refused == "" {
			t.Errorf("%s: what is not there can be broken", name)
		}
	}
	for _, name := range []string{"network.down", "broker.kill", "kafka.error", "subject.signal", "downstream.outage"} {
		if refused := names[name].Refused; refused != "" {
			t.Errorf("%s is refused: %s", name, refused)
		}
	}
}

// Links and names of downstreams that only the subject's file asks for can be chosen, too.
func TestCatalogueOfASubject(t *testing.T) {
	choices := func(downstreams string) map[string][]string {
		file := filepath.Join(t.TempDir(), "subject.yaml")
		must.Do(t, os.WriteFile(file, []byte("name: s\nkind: process\ncommand: [s]\ndownstreams: "+downstreams+"\n"), 0o600))
		s, _ := newFake(t, func(o *Options) { o.SubjectFile = file })
		all := map[string][]string{}
		for _, entry := range s.Catalogue() {
			for _, p := range entry.Parameters {
				all[p.Path] = p.Choices
			}
		}
		return all
	}
	got := choices("[{name: payments, http: {}}, {name: shop, postgres: {}}, {name: results, kafka: {topic: r}}]")
	if want := []string{"brokers", "downstream", "broker 1", "downstream shop"}; !slices.Equal(got["network.link"], want) {
		t.Errorf("links: %q, want %q", got["network.link"], want)
	}
	if want := []string{"payments", "shop", "results"}; !slices.Equal(got["downstream.name"], want) {
		t.Errorf("names: %q, want %q", got["downstream.name"], want)
	}
	if got := choices("[{kafka: {topic: r}}]")["network.link"]; slices.Contains(got, "downstream") {
		t.Errorf("an output topic has the links %q", got)
	}
}

// TestParameters checks the types, the selection and the suggestions of parameters.
func TestParameters(t *testing.T) {
	s, _ := newFake(t, nil)
	find := func(entry, path string) Parameter {
		for _, one := range s.Catalogue() {
			if i := slices.IndexFunc(one.Parameters, func(p Parameter) bool {
				return p.Path == path
			}); one.Name == entry && i >= 0 {
				return one.Parameters[i]
			}
		}
		t.Errorf("%s has no parameter %s", entry, path)
		return Parameter{}
	}
	for _, c := range []struct {
		entry, path string
		want        Parameter
	}{
		{"network.latency", "network.latency", Parameter{Type: TypeDuration, Default: "200ms", Required: true}},
		{"network.latency", "network.toxicity", Parameter{Type: TypePercent, Default: "100%"}},
		{"network.bandwidth", "network.bandwidth", Parameter{Type: TypeSize, Default: "64KiB", Required: true}},
		{"network.down", "network.down", Parameter{Type: TypeFlag, Default: true, Required: true, Fixed: true}},
		{"network.down", "network.link", Parameter{Type: TypeText, Default: "broker 1", Required: true,
			Choices: []string{"brokers", "downstream", "broker 1"}}},
		{"kafka.error", "kafka.partition", Parameter{Type: TypeNumber}},
		{"kafka.error", "kafka.nth", Parameter{Type: TypeNumber, Min: 1}},
		{"subject.signal", "subject.signal", Parameter{Type: TypeChoice, Default: "KILL", Required: true,
			Choices: []string{"TERM", "KILL", "STOP"}}},
		{"downstream.rate_limit", "downstream.rate_limit.rate", Parameter{Type: TypeRate, Default: "100/s", Required: true}},
		{"network.latency", "for", Parameter{Type: TypeDuration}},
	} {
		got := find(c.entry, c.path)
		c.want.Path = c.path
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(c.want)
		if string(a) != string(b) {
			t.Errorf("%s: %s, want %s", c.entry, a, b)
		}
	}
	for _, one := range s.Catalogue() {
		if one.Name == "broker.restart" && slices.ContainsFunc(one.Parameters, func(p Parameter) bool {
			return p.Path == "for"
		}) {
			t.Error("an instant has a duration")
		}
	}
}

// TestWhatOneMayNotBreak checks the reasons given to the injector: on a foreign Kafka no fault can be injected, and on
// the injector's own Kafka the faults without a command cannot.
func TestWhatOneMayNotBreak(t *testing.T) {
	s, _ := newFake(t, func(o *Options) { o.Foreign = true })
	if why := s.State(RoleInjector).Unbreakable; !strings.Contains(why, "--i-own-this-cluster") {
		t.Errorf("on another's Kafka the injector is told %q", why)
	}
	if why := s.State(RoleResponder).Unbreakable; why != "" {
		t.Errorf("the responder is told %q", why)
	}
	s, _ = newFake(t, func(o *Options) {
		o.CanBreak = func(action string) error {
			if action == "kill" {
				return nil
			}
			return fmt.Errorf("no command to %s", action)
		}
	})
	if why := s.State(RoleInjector).Unbreakable; why != "" {
		t.Errorf("the owner is told %q", why)
	}
	for _, one := range s.Catalogue() {
		want := ""
		if one.Kind == "broker" && one.Name != "broker.kill" {
			want = "no command to " + strings.TrimPrefix(one.Name, "broker.")
		}
		// What the scenario does not have is refused for that.
		if one.Kind != "store" && one.Kind != "registry" && one.Refused != want {
			t.Errorf("%s is refused with %q, want %q", one.Name, one.Refused, want)
		}
	}
}
