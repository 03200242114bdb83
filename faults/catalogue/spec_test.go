package catalogue

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
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

func roomy() faults.Setting {
	return faults.Setting{Steady: 10 * time.Second, Brokers: 3, Instances: 3, DLQBroker: 3, Stub: true,
		Topics: []string{}, Registry: true,
		StoreProcesses: map[string]int{"router": 2, "worker": 2}, StoreProbe: true}
}

// ofFaults returns the catalogue's entries for the list of faults.
func ofFaults() []faults.Entry {
	return slices.DeleteFunc(Entries(), OfWorkload)
}

func TestExamplesAreSound(t *testing.T) {
	for _, entry := range ofFaults() {
		spec := parse(t, entry.Example)
		if defects := spec.Validate(roomy()); len(defects) > 0 {
			t.Errorf("%s: %+v", entry.Name, defects)
		}
		kind, key, _ := strings.Cut(entry.Name, ".")
		if spec.Kind() != kind && kind != KindSchedule || !strings.Contains(entry.Example, key+":") {
			t.Errorf("the example of %s is %s", entry.Name, entry.Example)
		}
		if traits := spec.Traits(); traits.What == "" || traits.Target == "" || traits.Idle.Why == "" {
			t.Errorf("%s is described as %q of %q, without effect as %q", entry.Name, traits.What, traits.Target,
				traits.Idle.Why)
		}
	}
}

func TestEveryEntryExplains(t *testing.T) {
	names := map[string]bool{}
	for _, entry := range Entries() {
		if entry.Summary == "" || entry.Does == "" || entry.Made == "" ||
			!strings.Contains(entry.Shows, "orrect consumer") && entry.Name != "schedule.when" ||
			len(entry.Effects) == 0 && !OfWorkload(entry) || len(entry.Keys) == 0 || names[entry.Name] {
			t.Errorf("%s is not explained, or twice: %+v", entry.Name, entry)
		}
		names[entry.Name] = true
		for _, text := range []string{entry.Summary, entry.Does, entry.Made, entry.Shows} {
			if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ")") {
				t.Errorf("%s has half a sentence: %q", entry.Name, text)
			}
		}
		var written map[string]any
		if err := yaml.Unmarshal([]byte(YAML(entry)), &written); err != nil || len(written) != 1 {
			t.Errorf("%s: %v in\n%s", entry.Name, err, YAML(entry))
		}
	}
}

// TestEveryKeyIsInTheCatalogue compares the catalogue with the types, in both directions.
func TestEveryKeyIsInTheCatalogue(t *testing.T) {
	explained := map[string]bool{}
	for _, entry := range ofFaults() {
		for _, key := range entry.Keys {
			explained[key] = true
		}
	}
	for _, key := range []string{"at", "when", "after"} {
		if !explained[key] {
			t.Errorf("%s is not explained", key)
		}
		delete(explained, key)
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
	for name, want := range map[string]int{"network": 9, "kafka.error": 1, "latency": 1, "restart": 3, "store": 6,
		"when": 1, "workload": 11, "bursts": 1, "nothing": 0, "": 0} {
		if have := Lookup(name); len(have) != want {
			t.Errorf("%q finds %d entries, want %d", name, len(have), want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for text, want := range map[string][2]string{
		"{at: 1s, network: {link: brokers, latency: 50ms}}": {"brokers delayed by 50ms",
			"brokers"},
		"{at: 1s, network: {link: broker 2, latency: 50ms, jitter: 5ms}}": {"broker 2 delayed by 50ms " +
			"plus up to 5ms", "broker 2"},
		"{at: 1s, network: {link: dlq, bandwidth: 64KiB}}": {"dlq limited to 64KiB/s",
			"dlq"},
		"{at: 1s, network: {link: dlq, timeout: true}}": {"dlq silent: data " +
			"swallowed, connections open", "dlq"},
		"{at: 1s, network: {link: dlq, down: true}}": {"dlq down: connections " +
			"closed and refused", "dlq"},
		"{at: 1s, network: {link: downstream, reset: true}}": {"downstream resets its " +
			"connections", "downstream"},
		"{at: 1s, kafka: {api: OffsetCommit, error: NOT_COORDINATOR}}": {"OffsetCommit answered " +
			"NOT_COORDINATOR", "every instance"},
		"{at: 1s, kafka: {api: OffsetCommit, instance: 1, delay_response: 1s}}": {"OffsetCommit by instance " +
			"1 answered 1s late", "instance 1"},
		"{at: 1s, kafka: {api: Produce, topic: dlq, probability: 12.5%, drop_response: true}}": {"Produce to dlq carried " +
			"out, the answer lost (12.5% of the requests)", "dlq"},
		"{at: 1s, broker: {broker: 2, stop: true}}": {"broker 2 stopped",
			"broker 2"},
		"{at: 1s, broker: {broker: 2, restart: true}}": {"broker 2 restarted",
			"broker 2"},
		"{at: 1s, subject: {instance: 0, signal: STOP}}": {"STOP to instance 0",
			"instance 0"},
		"{at: 1s, subject: {all: true, every: 2s, restart: true}}": {"every instance " +
			"restarted, one every 2s", "every instance"},
		"{at: 1s, downstream: {outage: true}}": {"every attempt answered 503",
			"downstream"},
		"{network: {link: broker 2, slow_close: 1s}}": {"broker 2 closes its " +
			"connections 1s late", "broker 2"},
		"{network: {link: dlq, slicer: {size: 8B}}}": {"dlq cut into pieces of 8B",
			"dlq"},
		"{network: {link: dlq, slicer: {size: 8B, delay: 1ms}}}": {"dlq cut into pieces of " +
			"8B, 1ms apart", "dlq"},
		"{network: {link: dlq, direction: responses, limit_data: 64KiB}}": {"responses on dlq closes " +
			"each connection after 64KiB", "dlq"},
		"{network: {link: brokers, toxicity: 30%, half_open: true}}": {"brokers half open: the " +
			"far side of its connections is gone without a word (30% of the connections)", "brokers"},
		"{network: {link: brokers, direction: requests, timeout: true}}": {"requests on brokers " +
			"silent: data swallowed, connections open", "brokers"},
		"{kafka: {api: Fetch, topic: input, partition: 3, delay_request: 1s}}": {"Fetch from input/3 held " +
			"back for 1s", "input"},
		"{kafka: {api: OffsetCommit, topic: input, client_id: x, version: 7, close: true}}": {"OffsetCommit v7 for " +
			"input by client x answered by closing the connection", "input"},
		"{kafka: {api: Heartbeat, group: other, nth: 2, drop_request: true}}": {"2nd Heartbeat of group " +
			"other lost on the way to the broker", "every instance"},
		"{kafka: {api: Metadata, group: subject, every_nth: 13, throttle: 1s}}": {"Metadata throttled by 1s " +
			"(every 13th of the requests)", "every instance"},
		"{broker: {broker: 2, kill: true}}": {"broker 2 killed",
			"broker 2"},
		"{broker: {broker: 2, pause: true}}": {"broker 2 paused: " +
			"connections open, nothing answered", "broker 2"},
		"{broker: {broker: 2, move_leaders: true}}": {"the partitions of broker " +
			"2 get other leaders", "broker 2"},
		"{broker: {move_coordinator: true}}": {"the subject's group gets " +
			"another coordinator", "coordinator"},
		"{subject: {scale_up: 1}}": {"1 further instance started",
			"instances"},
		"{subject: {scale_down: 2}}": {"2 instances ended by TERM",
			"instances"},
		"{downstream: {slow: 1s}}": {"every attempt answered " +
			"1s later", "downstream"},
		"{downstream: {hang: true}}": {"no attempt answered, " +
			"connections open", "downstream"},
		"{downstream: {rate_limit: {rate: 100/s}}}": {"attempts above 100/s " +
			"answered 429", "downstream"},
		"{downstream: {errors: {transient: 20%, reset: 1%}}}": {"attempts answered with " +
			"errors: 20% 503, 1% with a reset", "downstream"},
		"{downstream: {error_text: long}}": {"failures with long " +
			"error texts", "downstream"},
		"{store: {unhealthy: cpu}}": {"the workers' health " +
			"probe says that something is wrong: cpu", "health probe"},
		"{store: {restart: true}}": {"the store's database " +
			"restarted", "database"},
		"{store: {crash: true}}": {"the store's database " +
			"crashed", "database"},
		"{store: {process: worker 1, clock_ahead: 10m}}": {"the clock of worker 1 is " +
			"10m0s ahead", "worker 1"},
		"{store: {process: worker 1, clock_behind: 10m}}": {"the clock of worker 1 is " +
			"10m0s behind", "worker 1"},
		"{store: {repeat_letters: 50%}}": {"50% of the dead letters " +
			"written again, in another order", "dlq"},
		"{at: 1s}": {"", ""},
	} {
		if traits := parse(t, text).Traits(); want != [2]string{traits.What, traits.Target} {
			t.Errorf("%s: %q of %q", text, traits.What, traits.Target)
		}
	}
}

func TestDefaultNames(t *testing.T) {
	for text, want := range map[string]string{
		"{kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}": "produce-error",
		"{kafka: {api: ConsumerGroupHeartbeat, drop_response: true}}":     "consumer-group-heartbeat-drop-response",
		"{network: {link: broker 2, half_open: true}}":                    "broker-2-half-open",
		"{network: {link: downstream, latency: 1s}}":                      "downstream-latency",
		"{broker: {broker: 2, stop: true}}":                               "broker-2-stop",
		"{broker: {move_coordinator: true}}":                              "move-coordinator",
		"{broker: {broker: 1, move_leaders: true}}":                       "broker-1-move-leaders",
		"{subject: {instance: 1, signal: KILL}}":                          "kill-instance-1",
		"{subject: {all: true, restart: true}}":                           "restart-all",
		"{subject: {scale_up: 1}}":                                        "scale-up",
		"{subject: {scale_down: 1}}":                                      "scale-down",
		"{downstream: {outage: true}}":                                    "downstream-outage",
		"{downstream: {rate_limit: {rate: 1/s}}}":                         "downstream-rate-limit", "{}": "",
		"{store: {crash: true}}":                        "store-crash",
		"{store: {process: worker 1, clock_ahead: 1s}}": "store-clock-ahead-worker-1",
		"{store: {repeat_letters: 1%}}":                 "store-repeat-letters",
	} {
		if have := parse(t, text).Traits().Name; have != want {
			t.Errorf("%s is called %q, want %q", text, have, want)
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
	small := faults.Setting{
		Steady: 5 * time.Second, Brokers: 2, Instances: 2, MaxInstances: 3, Topics: []string{"retry-1"},
		Partitions: map[string]int{"input": 6, "retry": 3, "dlq": 1},
	}
	for text, want := range map[string]string{ // the paths of the defects, in order
		"{at: 1s, for: 1s}": "",
		"{at: 1s, for: 1s, downstream: {outage: true}, broker: {broker: 1, stop: true}}":        "",
		"{at: 5s, for: 1s, network: {link: brokers, down: true}}":                               "/at",
		"{at: 4s, for: 1001ms, network: {link: brokers, down: true}}":                           "/for",
		"{at: 4s, for: 1s, network: {link: brokers, down: true}}":                               "none",
		"{at: 1s, network: {link: brokers, down: true}}":                                        "",
		"{at: 1s, for: 1s, network: {link: broker 3, down: true}}":                              "/network/link",
		"{at: 1s, for: 1s, network: {link: broker 02, down: true}}":                             "/network/link",
		"{at: 1s, for: 1s, network: {link: broker 2x, down: true}}":                             "/network/link",
		"{at: 1s, for: 1s, network: {link: dlq, down: true}}":                                   "/network/link",
		"{at: 1s, for: 1s, network: {link: downstream, down: true}}":                            "/network/link",
		"{at: 1s, for: 1s, network: {link: brokers, down: true, reset: true}}":                  "/network/reset",
		"{at: 1s, for: 1s, network: {link: brokers, jitter: 1s, down: true}}":                   "/network/jitter",
		"{at: 1s, for: 1s, network: {link: brokers}}":                                           "/network",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: retry-1, delay_response: 1s}}":          "none",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: retry-2, delay_response: 1s}}":          "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Produce, topic: input, delay_response: 1s}}":            "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: OffsetCommit, topic: dlq, delay_response: 1s}}":         "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Produce, error: NO_SUCH}}":                              "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Produce, error: NONE}}":                                 "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Produce, delay_response: 1s, drop_response: true}}":     "/kafka/drop_response",
		"{at: 1s, for: 1s, kafka: {api: Produce, probability: 0%, delay_response: 1s}}":         "/kafka/probability",
		"{at: 1s, for: 1s, kafka: {api: Produce, instance: 2, delay_response: 1s}}":             "none",
		"{at: 1s, for: 1s, broker: {broker: 3, stop: true}}":                                    "/broker/broker",
		"{at: 1s, for: 1s, broker: {broker: 1}}":                                                "/broker", // and see below
		"{at: 1s, for: 1s, broker: {broker: 1, restart: true}}":                                 "/for",
		"{at: 1s, subject: {instance: 1, signal: KILL}}":                                        "none",
		"{at: 1s, subject: {instance: 2, signal: KILL}}":                                        "/subject/instance",
		"{at: 1s, subject: {instance: 1, signal: STOP}}":                                        "",
		"{at: 1s, subject: {signal: KILL}}":                                                     "/subject",
		"{at: 1s, subject: {instance: 1, all: true, signal: KILL}}":                             "/subject/instance",
		"{at: 1s, subject: {instance: 1, every: 1s, signal: KILL}}":                             "/subject/every",
		"{at: 1s, subject: {instance: 1, restart: true, restart_after: 1s}}":                    "/subject/restart_after",
		"{at: 1s, for: 2s, subject: {instance: 1, signal: KILL, restart_after: 1s}}":            "/for",
		"{at: 4s, subject: {instance: 1, signal: KILL, restart_after: 2s}}":                     "/at",
		"{at: 1s, subject: {all: true, every: 4s, restart: true}}":                              "none",
		"{at: 1001ms, subject: {all: true, every: 4s, restart: true}}":                          "/at",
		"{when: backoff, for: 1s, network: {link: brokers, down: true}}":                        "/when",
		"{when: firstretry, for: 1s, network: {link: brokers, down: true}}":                     "/when",
		"{when: lag > 10, at: 4s, for: 9s, network: {link: brokers, down: true}}":               "none",
		"{when: lag > 10, at: 5s, for: 1s, network: {link: brokers, down: true}}":               "/at",
		"{when: instance 2 assigned, after: 9s, for: 1s, network: {link: brokers, down: true}}": "none",
		"{when: instance 3 assigned, for: 1s, network: {link: brokers, down: true}}":            "/when",
		"{at: 1s, after: 1s, for: 1s, network: {link: brokers, down: true}}":                    "/after",
		"{at: 1s, for: 1s, network: {link: brokers, direction: both, latency: 1s}}":             "none",
		"{at: 1s, for: 1s, network: {link: brokers, direction: requests, slicer: {size: 1B}}}":  "none",
		"{at: 1s, for: 1s, network: {link: brokers, direction: requests, limit_data: 1B}}":      "none",
		"{at: 1s, for: 1s, network: {link: brokers, direction: requests, half_open: true}}":     "/network/direction",
		"{at: 1s, for: 1s, network: {link: brokers, direction: both, slow_close: 1s}}":          "/network/direction",
		"{at: 1s, for: 1s, network: {link: brokers, toxicity: 0%, down: true}}":                 "/network/toxicity",
		"{at: 1s, for: 1s, network: {link: brokers, slicer: {size: 0B}}}":                       "/network/slicer/size",
		"{at: 1s, for: 1s, network: {link: brokers, slicer: {size: 1B}, limit_data: 1B}}":       "/network/slicer",
		"{at: 1s, for: 1s, kafka: {api: Heartbeat, topic: input, close: true}}":                 "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Metadata, topic: dlq, close: true}}":                    "none",
		"{at: 1s, for: 1s, kafka: {api: Metadata, topic: dlq, partition: 0, close: true}}":      "/kafka/partition",
		"{at: 1s, for: 1s, kafka: {api: EndTxn, partition: 0, close: true}}":                    "/kafka/partition",
		"{at: 1s, for: 1s, kafka: {api: Fetch, partition: 0, close: true}}":                     "/kafka/partition",
		"{at: 1s, for: 1s, kafka: {api: Fetch, topic: input, partition: 5, close: true}}":       "none",
		"{at: 1s, for: 1s, kafka: {api: Fetch, topic: input, partition: 6, close: true}}":       "/kafka/partition",
		"{at: 1s, for: 1s, kafka: {api: Fetch, topic: dlq, close: true}}":                       "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: TxnOffsetCommit, topic: dlq, close: true}}":             "/kafka/topic",
		"{at: 1s, for: 1s, kafka: {api: Fetch, topic: retry, close: true}}":                     "none",
		"{at: 1s, for: 1s, kafka: {api: Produce, group: subject, close: true}}":                 "/kafka/group",
		"{at: 1s, for: 1s, kafka: {api: FindCoordinator, group: other, close: true}}":           "none",
		"{at: 1s, for: 1s, kafka: {api: InitProducerId, group: other, close: true}}":            "/kafka/group",
		"{at: 1s, for: 1s, kafka: {api: Produce, nth: 1, every_nth: 2, close: true}}":           "/kafka/every_nth",
		"{at: 1s, for: 1s, kafka: {api: Produce, error: DUPLICATE_SEQUENCE_NUMBER}}":            "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Fetch, error: OFFSET_OUT_OF_RANGE}}":                    "/kafka/error",
		"{at: 1s, for: 1s, kafka: {api: Produce, throttle: 1s, close: true}}":                   "/kafka/throttle",
		"{at: 1s, for: 1s, kafka: {api: Produce, instance: 3, close: true}}":                    "/kafka/instance",
		"{at: 1s, broker: {broker: 1, kill: true}}":                                             "",
		"{at: 1s, broker: {broker: 1, pause: true}}":                                            "",
		"{at: 1s, broker: {broker: 1, move_leaders: true}}":                                     "none",
		"{at: 1s, for: 1s, broker: {broker: 1, move_leaders: true}}":                            "none",
		"{at: 1s, broker: {move_leaders: true}}":                                                "/broker",
		"{at: 1s, broker: {move_coordinator: true}}":                                            "none",
		"{at: 1s, broker: {broker: 1, move_coordinator: true}}":                                 "/broker/broker",
		"{at: 1s, for: 1s, broker: {move_coordinator: true}}":                                   "/for",
		"{at: 1s, for: 1s, broker: {stop: true}}":                                               "/broker",
		"{at: 1s, for: 1s, broker: {broker: 1, stop: true, pause: true}}":                       "/broker/stop",
		"{at: 1s, for: 1s, subject: {scale_up: 1}}":                                             "none",
		"{at: 1s, subject: {scale_up: 1}}":                                                      "",
		"{at: 1s, for: 1s, subject: {scale_up: 1, instance: 0}}":                                "/subject/instance",
		"{at: 1s, for: 1s, subject: {scale_down: 1, all: true}}":                                "/subject/all",
		"{at: 1s, for: 1s, subject: {scale_down: 2}}":                                           "none",
		"{at: 1s, for: 1s, subject: {scale_down: 3}}":                                           "/subject/scale_down",
		"{at: 1s, for: 1s, subject: {scale_up: 1, scale_down: 1}}":                              "/subject/scale_up",
		"{at: 1s, for: 1s, downstream: {outage: true}}":                                         "/downstream",
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

func TestValidateInARoomySetting(t *testing.T) {
	classic := roomy()
	classic.NoRetryTopics, classic.Reference = true, &faults.ReferenceSetting{GroupProtocol: "classic", MaxAttempts: 3}
	modern := roomy()
	modern.NoDeadLetters = true
	modern.Reference = &faults.ReferenceSetting{GroupProtocol: "consumer", MaxAttempts: 1}
	static := roomy()
	static.Reference = &faults.ReferenceSetting{GroupProtocol: "consumer", MaxAttempts: 3, Static: true}
	sharing := roomy()
	sharing.Reference = &faults.ReferenceSetting{GroupProtocol: "share", MaxAttempts: 3}
	transacting := roomy()
	transacting.Reference = &faults.ReferenceSetting{GroupProtocol: "classic", MaxAttempts: 3, Transactions: true}
	silent := classic
	silent.NoDeadLetters = true
	lone := faults.Setting{Brokers: 2, DLQBroker: 2, Stub: true}
	one := faults.Setting{Brokers: 1, Stub: true}
	for _, c := range []struct {
		in         faults.Setting
		text, want string // the defect's path and a part of its message
	}{
		{classic, "{kafka: {api: ConsumerGroupHeartbeat, close: true}}", "/kafka/api: group_protocol: consumer"},
		{classic, "{kafka: {api: TxnOffsetCommit, close: true}}", "/kafka/api: no transactions"},
		{classic, "{kafka: {api: EndTxn, close: true}}", "/kafka/api: no transactions"},
		{classic, "{kafka: {api: JoinGroup, close: true}}", ""},
		{classic, "{kafka: {api: InitProducerId, close: true}}", ""},
		{classic, "{kafka: {api: Produce, topic: retry, close: true}}", "/kafka/topic: no retry topics"},
		{classic, "{kafka: {api: JoinGroup, group: other, close: true}}", "/kafka/group: one group only"},
		{classic, "{kafka: {api: JoinGroup, group: subject, close: true}}", ""},
		{classic, "{when: first-dead-letter, broker: {broker: 1, restart: true}}", ""},
		{classic, "{kafka: {api: ShareFetch, close: true}}", "/kafka/api: group_protocol: share"},
		{sharing, "{kafka: {api: ShareAcknowledge, group: subject, close: true}}", ""},
		{sharing, "{kafka: {api: Fetch, close: true}}", "/kafka/api: there is no Fetch"},
		{sharing, "{kafka: {api: OffsetCommit, close: true}}", "/kafka/api: there is no OffsetCommit"},
		{transacting, "{kafka: {api: TxnOffsetCommit, close: true}}", ""},
		{transacting, "{kafka: {api: OffsetCommit, close: true}}", "/kafka/api: TxnOffsetCommit"},
		{modern, "{kafka: {api: ConsumerGroupHeartbeat, close: true}}", ""},
		{modern, "{kafka: {api: SyncGroup, close: true}}", "/kafka/api: KIP-848"},
		{modern, "{kafka: {api: Heartbeat, close: true}}", "/kafka/api: KIP-848"},
		{modern, "{kafka: {api: Produce, topic: retry, close: true}}", ""},
		{modern, "{kafka: {api: Produce, topic: dlq, close: true}}", "/kafka/topic: dlq_enabled"},
		{modern, "{when: first-retry, broker: {broker: 1, restart: true}}", "/when: max_retries: 1"},
		{modern, "{when: first-dead-letter, broker: {broker: 1, restart: true}}", "/when: dlq_enabled"},
		{static, "{for: 1s, subject: {scale_up: 1}}", "/subject: session times out"},
		{static, "{subject: {instance: 0, signal: KILL}}", ""},
		{silent, "{kafka: {api: Produce, close: true}}", "/kafka/api: writes nothing"},
		{roomy(), "{kafka: {api: EndTxn, close: true}}", ""},
		{roomy(), "{broker: {broker: 3, move_leaders: true}}", "/broker/broker: holds the DLQ topic alone"},
		{roomy(), "{broker: {broker: 1, move_leaders: true}}", ""},
		{lone, "{broker: {broker: 1, move_leaders: true}}", "/broker/move_leaders: cluster.brokers to 3"},
		{lone, "{broker: {move_coordinator: true}}", "/broker/move_coordinator: cluster.brokers to 3"},
		{one, "{broker: {move_coordinator: true}}", "/broker/move_coordinator: cluster.brokers to 2"},
		{roomy(), "{downstream: {outage: true, hang: true}}", "/downstream/outage: exclude"},
		{roomy(), "{downstream: {rate_limit: {rate: 0/s}}}", "/downstream/rate_limit/rate: no attempt passes"},
		{roomy(), "{downstream: {rate_limit: {rate: 1/s, retry_after: 1500ms}}}",
			"/downstream/rate_limit/retry_after: whole seconds"},
		{roomy(), "{downstream: {rate_limit: {rate: 1/s, retry_after: 2s}}}", ""},
		{roomy(), "{downstream: {errors: {}}}", "/downstream/errors: all shares are 0%"},
		{roomy(), "{downstream: {errors: {transient: 60%, reset: 41%}}}", "/downstream/errors: add up to 101%"},
		{roomy(), "{downstream: {errors: {transient: 70%, permanent: 10%, logical: 10%, timeout: 7%, reset: 3%}}}", ""},
		{roomy(), "{downstream: {error_text: hostile}}", ""},
	} {
		spec := parse(t, c.text)
		if spec.Broker == nil || !spec.Broker.Restart && !spec.Broker.MoveCoordinator {
			spec.For = units.Duration(time.Second)
		}
		path, part, _ := strings.Cut(c.want, ": ")
		defects := spec.Validate(c.in)
		switch {
		case c.want == "" && len(defects) > 0, c.want != "" && len(defects) != 1:
			t.Errorf("%s: %+v, want %q", c.text, defects, c.want)
		case c.want != "" && (defects[0].Path != path || !strings.Contains(defects[0].Message, part)):
			t.Errorf("%s: %+v, want %q", c.text, defects[0], c.want)
		}
	}
}

// TestUnknownSettingsAreNotChecked: a defect elsewhere in a scenario must not make a fault look wrong.
func TestUnknownSettingsAreNotChecked(t *testing.T) {
	unknown := faults.Setting{DLQBroker: 1, Stub: true}
	for _, text := range []string{
		"{at: 1h, for: 1h, network: {link: broker 9, down: true}}", "{at: 1h, subject: {instance: 15, signal: KILL}}",
		"{at: 1h, for: 1s, kafka: {api: Produce, topic: whatever, delay_response: 1s}}",
		"{at: 1h, for: 1s, broker: {broker: 9, stop: true}}",
	} {
		if defects := parse(t, text).Validate(unknown); len(defects) > 0 {
			t.Errorf("%s: %+v", text, defects)
		}
	}
}

// TestPatience: a fault that acts only when it meets something stays in force until it has.
func TestPatience(t *testing.T) {
	for text, want := range map[string]bool{
		"{network: {link: dlq, down: true}}":            true,
		"{kafka: {api: Fetch, close: true}}":            true,
		"{downstream: {outage: true}}":                  true,
		"{subject: {scale_up: 1}}":                      true,
		"{subject: {scale_down: 1}}":                    false,
		"{subject: {instance: 0, signal: STOP}}":        false,
		"{broker: {broker: 1, stop: true}}":             false,
		"{store: {crash: true}}":                        false,
		"{store: {unhealthy: cpu}}":                     true,
		"{store: {process: worker 0, clock_ahead: 1m}}": true,
		"{at: 1s}": false,
	} {
		if got := parse(t, text).Traits().Patient; got != want {
			t.Errorf("%s: patient %v, want %v", text, got, want)
		}
	}
}

// A fault that hits one instance waits for an event of that instance.
func TestTriggerOfAFault(t *testing.T) {
	one, two := 1, 2
	for _, test := range []struct {
		spec  Spec
		waits bool
		want  int
	}{
		{Spec{Subject: &subject.Subject{Instance: &one, Restart: true}}, false, 0},
		{Spec{When: "backoff", Subject: &subject.Subject{Instance: &one, Restart: true}}, true, 1},
		{Spec{When: "first-retry", Kafka: &kafka.Kafka{Instance: &two, Close: true}}, true, 2},
		{Spec{When: "first-dead-letter", Subject: &subject.Subject{All: true, Restart: true}}, true, history.None},
		{Spec{When: "first-dead-letter", Downstream: &downstream.Downstream{Outage: true}}, true, history.None},
		{Spec{When: "lag > 3", Subject: &subject.Subject{Instance: &one, Restart: true}}, true, history.None},
		{Spec{When: "instance 2 assigned", Subject: &subject.Subject{Instance: &one, Restart: true}}, true, 2},
	} {
		trigger, err := test.spec.Trigger()
		if err != nil || (trigger != nil) != test.waits || test.waits && trigger.Instance != test.want {
			t.Errorf("%q gives %+v, %v", test.spec.When, trigger, err)
		}
	}
}
