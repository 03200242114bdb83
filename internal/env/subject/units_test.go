package subject

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestReportsError(t *testing.T) {
	for _, test := range []struct {
		what, line string
		want       bool
	}{
		{"zerolog", `{"level":"error","time":"2026-01-02T03:04:05Z","message":"writing the dead letter"}`, true},
		{"zerolog fatal", `{"level":"fatal","message":"x"}`, true},
		{"zerolog panic", `{"level":"panic","message":"x"}`, true},
		{"zerolog info about an error", `{"level":"info","error":"ERROR java.lang.Exception: x","message":"retrying"}`,
			false},
		{"zerolog warning", `{"level":"warn","error":"connection refused","message":"attempt failed: x"}`, false},
		{"zerolog console", "3:04PM ERR writing the dead letter error=\"NOT_ENOUGH_REPLICAS\"", true},
		{"zerolog console info", "3:04PM INF ERR is a word", false},
		{"slog", `{"time":"2026-01-02T03:04:05Z","level":"ERROR","msg":"x"}`, true},
		{"slog text", "time=2026-01-02T03:04:05Z level=ERROR msg=\"x\"", true},
		{"logrus", `time="2026-01-02" level=error msg="dead letter"`, true},
		{"logrus info", `time="2026-01-02" level=info msg="ERROR: none"`, false},
		{"logback", "03:04:05.678 [main] ERROR c.e.orders.Consumer - cannot write dead letter", true},
		{"logback info",
			"03:04:05.678 [ERROR-handler-1] INFO c.e.orders.Consumer - handled java.lang.IllegalStateException: x", false},
		{"logback warning", "03:04:05.678 [main] WARN c.e.Consumer - failed: Exception: x", false},
		{"logback JSON", `{"@timestamp":"2026","message":"x","level":"ERROR","level_value":40000}`, true},
		{"log4j", "[2026-01-02 03:04:05,678] ERROR [Producer clientId=p] x (org.apache.kafka)", true},
		{"java.util.logging", "SEVERE: x", true},
		{"ECS", `{"log.level":"error","message":"x"}`, true},
		{"stackdriver", `{"severity":"CRITICAL","message":"x"}`, true},
		{"pino", `{"level":50,"msg":"x"}`, true},
		{"pino info", `{"level":30,"msg":"Error: x"}`, false},
		{"python", "2026-01-02 03:04:05,678 ERROR consumer: dead letter refused", true},
		{"python basic", "ERROR:root:dead letter refused", true},
		{"python critical", "CRITICAL:root:x", true},
		{"python info", "INFO:root:processed, x-error-reason kept, Error: none", false},
		{"python JSON", `{"asctime":"2026","levelname":"ERROR","message":"x"}`, true},
		{"python traceback", "Traceback (most recent call last):", true},
		{"python exception", "ValueError: bad value", true},
		{"python exception without a message", "confluent_kafka.error.KafkaException", true},
		{"an error's name", "loaded ValueError and ErrorHandler", false},
		{"wrapped", "2026/01/02 03:04:05 publishing: Error: broken pipe", true},
		{"a count of errors", "errors: 0, terror: none", false},
		{"java exception", `Exception in thread "main" java.lang.IllegalStateException: x`, true},
		{"java cause", "Caused by: org.apache.kafka.common.errors.TimeoutException: x", true},
		{"java frame", "\tat org.apache.kafka.clients.ErrorHandler.handle(ErrorHandler.java:42)", false},
		{"go panic", "panic: runtime error: index out of range", true},
		{"go fatal", "fatal error: all goroutines are asleep - deadlock!", true},
		{"go log", "2026/01/02 03:04:05 writing dead letter failed: NOT_ENOUGH_REPLICAS", true},
		{"go log, fine", "2026/01/02 03:04:05 consumer started, 0 errors", false},
		{"rust", "thread 'main' panicked at src/main.rs:1:2", true},
		{"env_logger", "[2026-01-02T03:04:05Z ERROR orders] x", true},
		{"bracketed", "2026/01/02 [error] 7#7: x", true},
		{"glog", "E0102 03:04:05.678901       1 main.go:42] x", true},
		{"glog info", "I0102 03:04:05.678901       1 main.go:42] ERROR x", false},
		{"librdkafka", "%3|1735787045.678|FAIL|rdkafka#consumer-1| [thrd:x]: Connect failed", true},
		{"librdkafka info", "%6|1735787045.678|GETSUBSCRIPTIONS|rdkafka#consumer-1| ERROR", false},
		{"a topic's name", "2026/01/02 03:04:05 consuming ORDERS.ERROR and ERROR-QUEUE and ERROR_LOG", false},
		{"plain text", "all is well", false},
		{"Java's producer tries again", "04:05.678 WARN  o.a.k.c.producer.internals.Sender - [Producer clientId=p] Got " +
			"error produce response with correlation id 7 on topic-partition dlq-0, retrying (2147483646 attempts left). " +
			"Error: NOT_ENOUGH_REPLICAS", true},
		{"a warning with Java's class",
			`{"level":"WARN","message":"x: org.apache.kafka.common.errors.NotLeaderOrFollowerException: y"}`, true},
		{"librdkafka's warning", "%4|1735787045.678|PRODUCE|rdkafka#producer-1| dlq [0]: TOPIC_AUTHORIZATION_FAILED", true},
		{"a warning of something else", "2026-01-02 WARN ORDER_STATE is missing, NOT_ENOUGH items, NOT_ENOUGH_REPLICAS_YET",
			false},
		{"a warning without Kafka", `{"level":"warn","message":"slow"}`, false},
		{"a code at another level", "2026-01-02 INFO NOT_ENOUGH_REPLICAS is retried", false},
		{"empty", "", false},
		{"broken JSON", `{"level":"error"`, false},
	} {
		if got := readLine([]byte(test.line)).reports; got != test.want {
			t.Errorf("%s: %v, want %v: %s", test.what, got, test.want, test.line)
		}
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add([]byte(`{"level":"error"}`))
	f.Add([]byte("%3|"))
	f.Add([]byte("[error]"))
	f.Fuzz(func(_ *testing.T, line []byte) {
		readLine(plain(line))
	})
}

func TestCutText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string {
			return string(b)
		})).Draw(t, "line"))
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		text := cutText(line, limit)
		if len(text) > limit || !utf8.ValidString(text) {
			t.Fatalf("%q became %q, %d bytes", line, text, len(text))
		}
		if utf8.Valid(line) && (!bytes.HasPrefix(line, []byte(text)) || len(text) < min(len(line), limit-utf8.UTFMax+1)) {
			t.Fatalf("%q became %q", line, text)
		}
	})
}

func newTestOutput(t *testing.T, line, failure func([]byte)) *output {
	t.Helper()
	report := func(line []byte, _ int16) { failure(line) }
	if failure == nil {
		report = nil
	}
	out := must.Get(newOutput(filepath.Join(t.TempDir(), "log"), nil, &settable{}, line, report))(t)
	t.Cleanup(func() { _ = out.close() })
	return out
}

// What a message repeats of a long stack trace are the exceptions, and not the frames of the last one.
func TestLastLinesHaveTheCause(t *testing.T) {
	var out output
	said := "Exception in thread \"main\" org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\n" +
		strings.Repeat("\tat org.apache.kafka.clients.consumer.KafkaConsumer.<init>(KafkaConsumer.java:645)\n", 20) +
		"Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls\n" +
		strings.Repeat("\tat org.apache.kafka.clients.ClientUtils.parse(ClientUtils.java:58)\n", 20) + "\t... 12 more\n" +
		"at the end\n"
	out.split([]byte(said))
	want := "  Exception in thread \"main\" org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\n" +
		"  Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls\n  at the end\n"
	if got := out.lastLines(); got != want {
		t.Errorf("last lines:\n%swant:\n%s", got, want)
	}
	said = "Error: load config\n\nCaused by:\n    0: missing env var: TOKEN\n    1: environment variable not found\n\n" +
		"Stack backtrace:\n   0: <E as anyhow::context::ext::StdError>::ext_context\n   1: worker::config::Config::from_env\n" +
		"             at ./src/config.rs:31:9\n" + strings.Repeat("   2: core::ops::function::FnOnce::call_once\n", 20) +
		"   8: main\n   9: __libc_start_main_impl\n  10: _start\n"
	var rust output
	rust.split([]byte(said))
	if got := rust.lastLines(); !strings.Contains(got, "0: missing env var: TOKEN") || strings.Contains(got, "_start") {
		t.Errorf("last lines:\n%s", got)
	}
}

// However the output is split into reads, the lines are the same.
func TestOutputLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-z ]{0,30}`), 0, 20).Draw(rt, "lines")
		text := strings.Join(lines, "\n")
		var seen []string
		out := newTestOutput(t, func(line []byte) { seen = append(seen, string(line)) }, nil)
		out.copy(&choppy{rest: []byte(text), sizes: rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(rt, "sizes")})
		want := strings.TrimSuffix(text, "\n")
		if got := strings.Join(seen, "\n"); got != want && text != "" && text != "\n" {
			rt.Fatalf("read %q from %q", got, text)
		}
		if data, err := os.ReadFile(out.file.Name()); err != nil || string(data) != text {
			rt.Fatalf("the file has %q, %v; want %q", data, err, text)
		}
	})
}

// choppy returns its content in small pieces.
type choppy struct {
	rest  []byte
	sizes []int
	next  int
}

func (c *choppy) Read(into []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, os.ErrClosed
	}
	n := copy(into, c.rest[:min(len(c.rest), c.sizes[c.next%len(c.sizes)])])
	c.next++
	c.rest = c.rest[n:]
	return n, nil
}

func TestErrorsAreCappedPerSecond(t *testing.T) {
	out := newTestOutput(t, nil, nil)
	start, count := time.Unix(100, 0), 0
	for i := range 300 {
		if out.mayReport(start.Add(time.Duration(i) * 10 * time.Millisecond)) {
			count++
		}
	}
	if count != 3*errorsPerSecond {
		t.Errorf("%d of 300 errors in 3 s are reported, want %d", count, 3*errorsPerSecond)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	var seen []int
	out := newTestOutput(t, func(line []byte) { seen = append(seen, len(line)) }, nil)
	out.copy(strings.NewReader(strings.Repeat("x", 3*longestLine) + "\nshort\n"))
	if fmt.Sprint(seen) != fmt.Sprint([]int{longestLine, 5}) {
		t.Errorf("lines have %v bytes", seen)
	}
}

func TestReadGuarded(t *testing.T) {
	groups, run, elsewhere := readGuarded(
		strings.NewReader("run r1\n+12\n+13\n+1\n+0\n+-1\n-12\nnonsense\n\n+99999999999999999999\n+14"))
	if fmt.Sprint(groups) != "map[13:true 14:true]" || run != "r1" || elsewhere {
		t.Errorf("left are %v of run %q, elsewhere: %v", groups, run, elsewhere)
	}
	if _, _, elsewhere := readGuarded(strings.NewReader("run r1\nelsewhere\n+12\n")); !elsewhere {
		t.Error("that there is work elsewhere was not heard")
	}
}

// A subject may log every record, so reading a line must cost little.
func BenchmarkReportsError(b *testing.B) {
	for name, line := range map[string]string{
		"zerolog": `{"level":"info","partition":3,"offset":123456,"time":"2026-01-02T03:04:05Z","message":"record processed"}`,
		"logback": "03:04:05.678 [main] INFO  c.e.orders.Consumer - processed record 123456 of partition 3",
		"plain":   "2026/01/02 03:04:05 processed record 123456 of partition 3: " + strings.Repeat("x", 1000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if readLine([]byte(line)).reports {
					b.Fatal("no error")
				}
			}
		})
	}
}
