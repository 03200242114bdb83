package faults

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// parse reads a fault as a scenario writes it; unknown keys are errors.
func parse(t *testing.T, text string) Spec {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	var spec Spec
	if err := decoder.Decode(&spec); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return spec
}

func roomy() Setting {
	return Setting{Steady: 10 * time.Second, Brokers: 3, Instances: 3, DLQBroker: 3, Oracle: true, Topics: []string{}}
}

func TestExamplesAreSound(t *testing.T) {
	for _, entry := range Catalogue() {
		spec := parse(t, entry.Example)
		if defects := spec.Validate(roomy()); len(defects) > 0 {
			t.Errorf("%s: %+v", entry.Name, defects)
		}
		kind, key, _ := strings.Cut(entry.Name, ".")
		if spec.Kind() != kind || !strings.Contains(entry.Example, key+":") {
			t.Errorf("the example of %s is %s", entry.Name, entry.Example)
		}
		if what, target := spec.Describe(); what == "" || target == "" {
			t.Errorf("%s is described as %q of %q", entry.Name, what, target)
		}
		if entry.Summary == "" || entry.Does == "" || entry.Made == "" || len(entry.Effects) == 0 {
			t.Errorf("%s is not explained: %+v", entry.Name, entry)
		}
	}
}

// TestEveryKeyIsInTheCatalogue holds the catalogue to the types, both ways.
func TestEveryKeyIsInTheCatalogue(t *testing.T) {
	explained := map[string]bool{}
	for _, entry := range Catalogue() {
		for _, key := range entry.Keys {
			explained[key] = true
		}
	}
	written := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		kind := jsonName(field)
		for _, setting := range reflect.VisibleFields(field.Type.Elem()) {
			written[kind+"."+jsonName(setting)] = true
		}
	}
	if len(written) < 15 || !reflect.DeepEqual(explained, written) {
		t.Errorf("explained %v\nwritten %v", explained, written)
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]int{"network": 5, "kafka.error": 1, "latency": 1, "restart": 2, "nothing": 0, "": 0} {
		if have := Lookup(name); len(have) != want {
			t.Errorf("%q finds %d entries, want %d", name, len(have), want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for text, want := range map[string][2]string{
		"{at: 1s, network: {link: brokers, latency: 50ms}}":                                    {"brokers delayed by 50ms", "brokers"},
		"{at: 1s, network: {link: broker 2, latency: 50ms, jitter: 5ms}}":                      {"broker 2 delayed by 50ms plus up to 5ms", "broker 2"},
		"{at: 1s, network: {link: dlq, bandwidth: 64KiB}}":                                     {"dlq limited to 64KiB/s", "dlq"},
		"{at: 1s, network: {link: dlq, timeout: true}}":                                        {"dlq silent: data swallowed, connections open", "dlq"},
		"{at: 1s, network: {link: dlq, down: true}}":                                           {"dlq down: connections closed and refused", "dlq"},
		"{at: 1s, network: {link: downstream, reset: true}}":                                   {"downstream resets its connections", "downstream"},
		"{at: 1s, kafka: {api: OffsetCommit, error: NOT_COORDINATOR}}":                         {"OffsetCommit answered NOT_COORDINATOR", "every instance"},
		"{at: 1s, kafka: {api: OffsetCommit, instance: 1, delay_response: 1s}}":                {"OffsetCommit by instance 1 answered 1s late", "instance 1"},
		"{at: 1s, kafka: {api: Produce, topic: dlq, probability: 12.5%, drop_response: true}}": {"Produce to dlq carried out, the answer lost (12.5% of the requests)", "dlq"},
		"{at: 1s, broker: {broker: 2, stop: true}}":                                            {"broker 2 stopped", "broker 2"},
		"{at: 1s, broker: {broker: 2, restart: true}}":                                         {"broker 2 restarted", "broker 2"},
		"{at: 1s, subject: {instance: 0, signal: STOP}}":                                       {"STOP to instance 0", "instance 0"},
		"{at: 1s, subject: {all: true, every: 2s, restart: true}}":                             {"every instance restarted, one every 2s", "every instance"},
		"{at: 1s, downstream: {outage: true}}":                                                 {"every attempt answered 503", "downstream"},
		"{at: 1s}":                                                                             {"", ""},
	} {
		what, target := parse(t, text).Describe()
		if want != [2]string{what, target} {
			t.Errorf("%s: %q of %q", text, what, target)
		}
	}
}

func TestLength(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"{at: 1s, for: 2s, downstream: {outage: true}}":                              2 * time.Second,
		"{at: 1s, subject: {instance: 0, signal: KILL}}":                             0,
		"{at: 1s, subject: {instance: 0, signal: KILL, restart_after: 1s}}":          time.Second,
		"{at: 1s, subject: {all: true, every: 2s, restart: true}}":                   4 * time.Second,
		"{at: 1s, subject: {all: true, every: 2s, signal: KILL, restart_after: 3s}}": 7 * time.Second,
		"{at: 1s, for: 500ms, subject: {all: true, every: 2s, signal: STOP}}":        4500 * time.Millisecond,
		"{at: 1s, for: 500ms, subject: {instance: 1, signal: STOP}}":                 500 * time.Millisecond,
	} {
		if have := parse(t, text).Length(3); have != want {
			t.Errorf("%s lasts %s, want %s", text, have, want)
		}
	}
	if have := parse(t, "{at: 1s, subject: {all: true, every: 2s, restart: true}}").Length(0); have != 0 {
		t.Errorf("with no known number of instances it lasts %s", have)
	}
}

func TestValidate(t *testing.T) {
	small := Setting{Steady: 5 * time.Second, Brokers: 2, Instances: 2, Topics: []string{"retry-1"}}
	for text, want := range map[string]string{ // the paths of the defects, in order
		"{at: 1s, for: 1s}": "",
		"{at: 1s, for: 1s, downstream: {outage: true}, broker: {broker: 1, stop: true}}":    "",
		"{at: 5s, for: 1s, network: {link: brokers, down: true}}":                           "/at",
		"{at: 4s, for: 1001ms, network: {link: brokers, down: true}}":                       "/for",
		"{at: 4s, for: 1s, network: {link: brokers, down: true}}":                           "none",
		"{at: 1s, network: {link: brokers, down: true}}":                                    "",
		"{at: 1s, for: 1s, network: {link: broker 3, down: true}}":                          "/network/link",
		"{at: 1s, for: 1s, network: {link: broker 02, down: true}}":                         "/network/link",
		"{at: 1s, for: 1s, network: {link: broker 2x, down: true}}":                         "/network/link",
		"{at: 1s, for: 1s, network: {link: dlq, down: true}}":                               "/network/link",
		"{at: 1s, for: 1s, network: {link: downstream, down: true}}":                        "/network/link",
		"{at: 1s, for: 1s, network: {link: brokers, down: true, reset: true}}":              "/network/reset",
		"{at: 1s, for: 1s, network: {link: brokers, jitter: 1s, down: true}}":               "/network/jitter",
		"{at: 1s, for: 1s, network: {link: brokers}}":                                       "/network",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: retry-1, delay_response: 1s}}":      "none",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: retry-2, delay_response: 1s}}":      "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: input, delay_response: 1s}}":        "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: OffsetCommit, topic: dlq, delay_response: 1s}}":     "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Produce, error: NO_SUCH}}":                          "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Produce, error: NONE}}":                             "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Produce, delay_response: 1s, drop_response: true}}": "/kafka/drop_response",
		"{at: 1s, for: 1s, kafka: {api: Produce, probability: 0%, delay_response: 1s}}":     "/kafka/probability",
		"{at: 1s, for: 1s, kafka: {api: Produce, instance: 2, delay_response: 1s}}":         "/kafka/instance",
		"{at: 1s, for: 1s, broker: {broker: 3, stop: true}}":                                "/broker/broker",
		"{at: 1s, for: 1s, broker: {broker: 1}}":                                            "/broker", // and see below
		"{at: 1s, for: 1s, broker: {broker: 1, restart: true}}":                             "/for",
		"{at: 1s, subject: {instance: 1, signal: KILL}}":                                    "none",
		"{at: 1s, subject: {instance: 2, signal: KILL}}":                                    "/subject/instance",
		"{at: 1s, subject: {instance: 1, signal: STOP}}":                                    "",
		"{at: 1s, subject: {signal: KILL}}":                                                 "/subject",
		"{at: 1s, subject: {instance: 1, all: true, signal: KILL}}":                         "/subject/instance",
		"{at: 1s, subject: {instance: 1, every: 1s, signal: KILL}}":                         "/subject/every",
		"{at: 1s, subject: {instance: 1, restart: true, restart_after: 1s}}":                "/subject/restart_after",
		"{at: 1s, for: 2s, subject: {instance: 1, signal: KILL, restart_after: 1s}}":        "/for",
		"{at: 4s, subject: {instance: 1, signal: KILL, restart_after: 2s}}":                 "/at",
		"{at: 1s, subject: {all: true, every: 4s, restart: true}}":                          "none",
		"{at: 1001ms, subject: {all: true, every: 4s, restart: true}}":                      "/at",
		"{at: 1s, for: 1s, downstream: {outage: true}}":                                     "/downstream",
	} {
		paths := []string{}
		for _, defect := range parse(t, text).Validate(small) {
			if defect.Message == "" {
				t.Errorf("%s: a defect without a message at %q", text, defect.Path)
			}
			paths = append(paths, defect.Path)
		}
		have := "none"
		if len(paths) > 0 {
			have = strings.Join(paths, " ")
		}
		if have != want {
			t.Errorf("%s: defects at %q, want %q", text, have, want)
		}
	}
}

// TestUnknownSettingsAreNotChecked: what a scenario has wrong elsewhere must not make a fault look wrong.
func TestUnknownSettingsAreNotChecked(t *testing.T) {
	unknown := Setting{DLQBroker: 1, Oracle: true}
	for _, text := range []string{
		"{at: 1h, for: 1h, network: {link: broker 9, down: true}}", "{at: 1h, subject: {instance: 15, signal: KILL}}",
		"{at: 1h, for: 1s, kafka: {api: Produce, topic: whatever, delay_response: 1s}}", "{at: 1h, for: 1s, broker: {broker: 9, stop: true}}",
	} {
		if defects := parse(t, text).Validate(unknown); len(defects) > 0 {
			t.Errorf("%s: %+v", text, defects)
		}
	}
}

func TestErrorNames(t *testing.T) {
	names := ErrorNames()
	for _, name := range []string{"UNKNOWN_SERVER_ERROR", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS", "FENCED_INSTANCE_ID"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
	if slices.Contains(names, "NONE") || len(names) < 100 {
		t.Errorf("%d names: %v", len(names), names)
	}
}
