package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// inspect runs the inspection and returns its output. It expects the given exit code.
func (k *kafka) inspect(code int, arguments ...string) string {
	k.Helper()
	got, out := dlqbench(k.T, k.TempDir(), append([]string{"inspect", "--bootstrap", k.address}, arguments...)...)
	if got != code {
		k.Errorf("%v: exit code %d, want %d:\n%s", arguments, got, code, out)
	}
	return out
}

// produceLarge creates the record's topic, with a limit of 16 MiB, and produces the record.
func (k *kafka) produceLarge(record *kgo.Record) {
	k.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(k.address), kgo.ProducerBatchMaxBytes(16<<20)))(k)
	defer client.Close()
	most := "16777216"
	must.Get(kadm.NewClient(client).CreateTopic(k.Context(), 1, 1, map[string]*string{"max.message.bytes": &most},
		record.Topic))(k)
	must.Do(k, client.ProduceSync(k.Context(), record).FirstErr())
}

func (k *kafka) wants(out string, texts ...string) {
	k.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			k.Errorf("it does not say %q:\n%.4000s", text, out)
		}
	}
}

// foreign produces one dead letter of each dialect, and a record that is not a dead letter, into the topic elsewhere.
func (k *kafka) foreign() {
	k.Helper()
	for _, name := range deadletter.Names() {
		dialect := must.Get(deadletter.Named(name))(k)
		letter := dialect.Seal(&kgo.Record{Key: []byte("k"), Value: []byte(`{"v":1}`)}, deadletter.Failure{
			Reason: "refused by " + name, Class: "SomeError", Attempts: 3, Topic: "orders", Partition: 1, Offset: 7,
			Service: "billing", Instance: "n1", Group: "g",
			Handler: "h", Time: time.Now(), SourceTime: time.Now(), SourceTimeType: deadletter.CreateTime,
		})
		letter.Topic, letter.Partition = "elsewhere", 0
		k.produce(letter)
	}
	k.produce(&kgo.Record{Topic: "elsewhere", Partition: 1, Value: []byte("no dead letter\x1b[31m\u202e")})
}

func TestInspectShowsEveryDialect(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	k.foreign()
	letters := len(deadletter.Names())
	table := k.inspect(exitPass, "--topic", "elsewhere")
	for i, name := range deadletter.Names() {
		line := ""
		for candidate := range strings.Lines(table) {
			if strings.HasPrefix(candidate, fmt.Sprintf("0@%d ", i)) {
				line = candidate
			}
		}
		k.wants(line, " "+name+" ", "orders", "refused by "+name)
		if dialect, _ := deadletter.Named(name); dialect.Traits().Offset {
			k.wants(line, "orders-1@7")
		}
	}
	k.wants(table, `raw `, `value no dead letter\x1b[31m\u{202E}`, fmt.Sprintf(
		"%d dead letters read, %d shown, 1 of them raw", letters+1, letters+1))
	k.wantRecords("orders", 0)

	some := k.inspect(exitPass, "--topic", "elsewhere", "--where",
		`dialect in ["spring", "raw"] || group == "g" && reason contains "share"`)
	k.wants(some, "refused by spring\n", "refused by share-group", "raw", "3 shown")
	k.wants(k.inspect(exitPass, "--topic", "elsewhere", "--where", `class == "SomeError" && service == "billing"`,
		"--limit", "1"), "1 shown")
	named := k.inspect(exitPass, "--topic", "orders.dlq", "--dialect", "spring", "--limit", "1")
	k.wants(named, "lacks kafka_dlt-original-topic, kafka_dlt-original-partition")
}

func TestInspectWritesJSONLines(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	k.foreign()
	stack := strings.Repeat("\tat a.b.C(C.java:1)\n", 10<<20/20)
	huge := deadletter.Spring{}.Seal(
		&kgo.Record{Key: []byte{0xff}, Headers: []kgo.RecordHeader{{Key: "null"}, {Key: "twice", Value: []byte("1")},
			{Key: "twice", Value: []byte("\xfe")}}},
		deadletter.Failure{Reason: "\x1b]0;title\a \u009b31m\u202e\U000e0041", Class: "C", Stack: stack, Topic: "orders",
			Attempts: 1, Time: time.Now()})
	huge.Topic, huge.Partition = "large", 0
	k.produceLarge(huge)
	decoded := map[string]deadLetterLine{}
	for line := range strings.Lines(k.inspect(exitPass, "--topic", "elsewhere", "--json") + k.inspect(exitPass, "--topic",
		"large", "--json")) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(char rune) bool {
			return char != ' ' && !unicode.IsPrint(char)
		}) {
			t.Errorf("a line holds what a terminal acts on: %.300q", line)
		}
		var one deadLetterLine
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %.300s", err, line)
		}
		decoded[one.Dialect+one.Topic] = one
	}
	if n := len(deadletter.Names()) + 2; len(decoded) != n {
		t.Errorf("%d dead letters, want %d", len(decoded), n)
	}
	whole := decoded["springlarge"]
	if whole.Failure.Stack != stack || whole.Failure.Reason != "\x1b]0;title\a \u009b31m\u202e\U000e0041" ||
		string(whole.Key) != `{"base64":"/w=="}` || string(whole.Value) != "null" {
		t.Errorf("the large dead letter is not whole: %d bytes of stack, reason %q, key %s, value %s",
			len(whole.Failure.Stack), whole.Failure.Reason, whole.Key, whole.Value)
	}
	if len(whole.Headers) < 3 || string(whole.Headers[0].Value) != "null" ||
		string(whole.Headers[2].Value) != `{"base64":"/g=="}` {
		t.Errorf("headers %.300s", fmt.Sprint(whole.Headers))
	}
	if raw := decoded["rawelsewhere"]; string(raw.Value) != `"no dead letter\u001b[31m\u202e"` ||
		raw.Failure.Partition != nil {
		t.Errorf("the raw dead letter is %+v", raw)
	}
	if plain := decoded["plainelsewhere"]; plain.Failure.Offset == nil || *plain.Failure.Offset != 7 ||
		plain.Failure.Attempts != 3 || string(plain.Value) != `"{\"v\":1}"` {
		t.Errorf("the plain dead letter is %+v", plain)
	}
	table := k.inspect(exitPass, "--topic", "large")
	k.wants(table, `\x1b]0;title\x07 \u{009B}31m\u{202E}`)
	if longest := slices.Max(lengths(table)); longest > 400 {
		t.Errorf("a line of the table has %d bytes", longest)
	}
}

type deadLetterLine struct {
	Topic, Dialect string
	Key, Value     json.RawMessage
	Headers        []struct{ Value json.RawMessage }
	Failure        struct {
		Reason, Stack string
		Partition     *int32
		Offset        *int64
		Attempts      int32
	}
}

func lengths(text string) []int {
	var all []int
	for line := range strings.Lines(text) {
		all = append(all, len(line))
	}
	return all
}

func TestInspectFails(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	k.wants(k.inspect(exitUsage), "--topic")
	k.wants(k.inspect(exitUsage, "--topic", "orders.dlq", "--where", `reason == `), "(1:10)")
	k.wants(k.inspect(exitUsage, "--topic", "orders.dlq", "--where", `stack == "x"`), "unknown name stack (1:1)",
		"service")
	k.wants(k.inspect(exitUsage, "--topic", "orders.dlq", "--where", `attempts`), "bool")
	k.wants(k.inspect(exitUsage, "--topic", "orders.dlq", "--dialect", "sping"), "known are plain")
	k.wants(k.inspect(exitUsage, "--topic", "orders.dlq", "--limit", "-1"), "--limit")
	k.wants(k.inspect(exitEnvironment, "--topic", "nowhere"), "there is no topic nowhere on these brokers")
	if code, out := dlqbench(t, t.TempDir(), "inspect", "--bootstrap", "127.0.0.1:1", "--topic",
		"t"); code != exitEnvironment || !strings.Contains(out, "connection refused") {
		t.Errorf("exit code %d without a broker:\n%s", code, out)
	}
	if code, out := dlqbench(t, t.TempDir(), "inspect", "--topic", "t"); code != exitUsage ||
		!strings.Contains(out, "--bootstrap") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
