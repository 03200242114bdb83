package deadletter

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// told returns a failure with every field set.
func told() Failure {
	return Failure{
		Reason: "connection refused", Class: "java.io.IOException", Code: "503",
		Stack: "java.io.IOException: refused\n\tat A.b(A.java:1)\n",
		Cause: "java.net.ConnectException", CauseReason: "no route", Attempts: 3, MaxAttempts: 4, Topic: "orders",
		Partition: 2, Offset: 41, Epoch: 7,
		Time: sealedAt, SourceTime: sealedAt.Add(-time.Minute), SourceTimeType: CreateTime, Service: "billing", Instance: "1",
		Stage:   "VALUE_CONVERTER",
		Handler: "org.example.Sink", Group: "billing-group", EventID: "290de3f3-1a99-4c61-b71a-4074b65a4918",
		EventType: "order.created", CorrelationID: "a648c68c-f14b-4d0a-8fc8-31824987613c",
	}
}

func hostile() Failure {
	f := told()
	f.Reason, f.Class, f.Stack, f.Cause, f.CauseReason, f.Group = "é\r\n\x00\xff😀\"<b>", "Fehlerklasse-ß", "", "", "", ""
	f.Attempts, f.Partition, f.Offset, f.SourceTime, f.SourceTimeType = 1, math.MaxInt32, math.MaxInt64, time.Time{}, ""
	return f
}

// event returns a record with its own headers, some of them with the names that hexkit and Watermill use.
func event() *kgo.Record {
	return &kgo.Record{Key: []byte("abc123"), Value: []byte(`{"user_id":"abc123"}`), Headers: []kgo.RecordHeader{
		header("trace", "t1"), header("type", "user_registered"),
		header("correlation_id", "a648c68c-f14b-4d0a-8fc8-31824987613c"),
		header("event_id", "290de3f3-1a99-4c61-b71a-4074b65a4918"), header("_watermill_message_uuid", "01890a5d"),
		header("trace", "t2"),
	}}
}

// otherDialects returns the dialects tested in this file. plain and pipestream have separate tests.
func otherDialects() []named {
	return slices.DeleteFunc(dialects(), func(one named) bool {
		return one.name == PlainName || one.name == PipestreamName
	})
}

// freshUUIDs masks the UUID4s other than the event's own, because a golden file cannot hold them.
func freshUUIDs(text string) string {
	return regexp.MustCompile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}").ReplaceAllStringFunc(
		text, func(id string) string {
			if strings.Contains(dump(event()), id) {
				return id
			}
			return "<a fresh UUID4>"
		})
}

func TestLettersAreTheseBytes(t *testing.T) {
	for _, one := range otherDialects() {
		t.Run(one.name, func(t *testing.T) {
			var out strings.Builder
			for _, c := range []struct {
				name   string
				record *kgo.Record
				failed Failure
			}{
				{"an event", event(), told()},
				{"null key and value, a failure of which little is known", &kgo.Record{},
					Failure{Reason: "r", Attempts: 1, Topic: "t", Time: sealedAt}},
				{"hostile texts and great numbers", &kgo.Record{Key: []byte{0xff}, Value: []byte("\xfe\x00"),
					Headers: []kgo.RecordHeader{{Key: "null"}}}, hostile()},
				{"put back as it was, and failed again", one.dialect.Seal(event(), hostile()), told()},
			} {
				letter := one.dialect.Seal(c.record, c.failed)
				failure, missing := one.dialect.Open(letter)
				fmt.Fprintf(&out, "# %s\n%sopened %+v\nmissing %v\nprepared %s\n", c.name, dump(letter), failure, missing,
					dump(one.dialect.Prepare(letter)))
			}
			text := freshUUIDs(out.String())
			checkGolden(t, one.name, text)
		})
	}
}

// anyFailure draws a failure with every field set.
func anyFailure() *rapid.Generator[Failure] {
	return rapid.Custom(func(t *rapid.T) Failure {
		text := rapid.OneOf(rapid.String(), rapid.Just("\r\n\x00\xff\xfe é"), rapid.Just(strings.Repeat("é", 700)))
		name := rapid.StringMatching(`[a-zA-Z][a-zA-Z.]{0,20}`)
		at := func(label string) time.Time { return time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, label)).UTC() }
		return Failure{
			Reason: text.Draw(t, "reason"), Class: "C" + text.Draw(t, "class"), Code: name.Draw(t, "code"),
			Stack: text.Draw(t, "stack"),
			Cause: name.Draw(t, "cause"), CauseReason: text.Draw(t, "cause reason"),
			Attempts:    rapid.Int32Range(1, 32000).Draw(t, "attempts"),
			MaxAttempts: rapid.Int32Range(1, 32000).Draw(t, "most"), Topic: name.Draw(t, "topic"),
			Partition: rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition"),
			Offset:    rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset"), Epoch: rapid.Int32Range(-1, 99).Draw(t, "epoch"),
			Time:       at("time"),
			SourceTime: at("source time"), SourceTimeType: rapid.SampledFrom([]string{CreateTime, LogAppendTime}).Draw(t,
				"type"),
			Service: name.Draw(t, "service"), Instance: name.Draw(t, "instance"), Stage: name.Draw(t, "stage"),
			Handler: name.Draw(t, "handler"),
			Context: rapid.SampledFrom([]string{"", `{"endpoint":"http://pay","systemState":{"cpuUsage":0.75}}`}).Draw(t,
				"context"),
			Group: name.Draw(t, "group"), EventID: name.Draw(t, "event"), EventType: name.Draw(t, "kind"),
			CorrelationID: name.Draw(t, "chain"),
		}
	})
}

// heldBy returns the part of the failure that a dead letter of the dialect holds, and the record's headers that a
// replay returns.
func heldBy(t *rapid.T, name string, f Failure, record *kgo.Record, letter Failure) (Failure, []kgo.RecordHeader) {
	utf8 := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
	own := slices.Clone(record.Headers)
	held := Failure{Topic: f.Topic, Partition: f.Partition, Offset: f.Offset, Epoch: -1, Time: f.Time,
		Reason: utf8(f.Reason)}
	switch name {
	case SpringName, SpringRetryableName:
		held.Class, held.Cause, held.Stack, held.Group = utf8(f.Class), f.Cause, utf8(f.Stack), f.Group
		held.SourceTime, held.SourceTimeType = f.SourceTime, f.SourceTimeType
		if name == SpringRetryableName {
			held.Attempts = f.Attempts
		}
	case SmallRyeName:
		held.Class, held.Cause, held.CauseReason = utf8(f.Class), f.Cause, utf8(f.CauseReason)
	case ConnectName:
		held.Time, held.SourceTime = time.Time{}, f.SourceTime
		held.Class, held.Stack, held.Service, held.Instance, held.Stage, held.Handler = utf8(f.Class), utf8(f.Stack),
			f.Service, f.Instance, f.Stage, f.Handler
	case StreamsName:
		held.Time, held.SourceTime = time.Time{}, f.SourceTime
		held.Class, held.Stack = utf8(f.Class), utf8(f.Stack)
	case ShareGroupName:
		held.Group, held.Attempts, own = f.Group, f.Attempts, nil
	case WatermillName:
		held.Partition, held.Offset, held.Service, held.Instance = -1, -1, f.Service, f.Instance
	case HexkitName:
		held.Partition, held.Offset, own = -1, -1, nil
		held.Reason, held.Class, held.Service = string(asciiText(f.Reason)), string(asciiText(f.Class)), f.Service
		held.ID, held.EventID = letter.ID, letter.EventID
	case ManagementName:
		each := func(text string) string { return string([]rune(text)) }
		held = f
		held.Reason, held.Class, held.Stack, held.Cause, held.CauseReason = each(f.Reason), each(f.Class),
			each(f.Stack), "", ""
		held.Epoch, held.Stage, held.Handler, held.CorrelationID, held.ID = -1, "", "", "", letter.ID
	default:
		t.Fatalf("say here in heldBy which parts of a failure the dead letters of %s hold", name)
	}
	return held, own
}

func TestLettersTellWhatWasSealed(t *testing.T) {
	for _, one := range otherDialects() {
		t.Run(one.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				record, said := records().Draw(t, "record"), anyFailure().Draw(t, "failure")
				before := dump(record)
				letter := one.dialect.Seal(record, said)
				if dump(record) != before {
					t.Fatal("sealing changed the record")
				}
				opened, missing := one.dialect.Open(letter)
				want, own := heldBy(t, one.name, said, record, opened)
				if len(missing) > 0 || opened != want {
					t.Fatalf("opened\n%+v, missing %v, want\n%+v", opened, missing, want)
				}
				sealed := dump(letter)
				back := one.dialect.Prepare(letter)
				if !bytes.Equal(back.Key, record.Key) || !bytes.Equal(back.Value, record.Value) ||
					(back.Key == nil) != (record.Key == nil) || (back.Value == nil) != (record.Value == nil) {
					t.Fatalf("prepared %s", dump(back))
				}
				if one.name != HexkitName && !equalHeaders(back, &kgo.Record{Headers: own}) {
					t.Fatalf("prepared %swant the headers %q", dump(back), own)
				}
				if one.name != HexkitName && (back.Topic != said.Topic || back.Partition != want.Partition) {
					t.Fatalf("prepared for %s-%d", back.Topic, back.Partition)
				}
				if dump(letter) != sealed {
					t.Fatal("opening or preparing changed the dead letter")
				}
			})
		})
	}
}

func TestLettersOfAllDialectsDoNotGrow(t *testing.T) {
	for _, one := range otherDialects() {
		t.Run(one.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				failed := anyFailure().Draw(t, "failure")
				letter := one.dialect.Seal(records().Draw(t, "record"), failed)
				again := one.dialect.Seal(one.dialect.Prepare(letter), failed)
				raw := one.dialect.Seal(letter, failed)
				if sizeOf(again) > sizeOf(letter) || sizeOf(raw) > sizeOf(letter) {
					t.Fatalf("%d bytes, then %d after a replay and %d without one", sizeOf(letter), sizeOf(again), sizeOf(raw))
				}
				first, third := one.dialect.Prepare(letter), one.dialect.Prepare(raw)
				if freshUUIDs(dump(first)) != freshUUIDs(dump(third)) {
					t.Fatalf("the original was changed on the way:\n%s%s", dump(first), dump(third))
				}
			})
		})
	}
}

// A missing, duplicate or damaged field is reported, and no other field is lost with it.
func TestOpenNamesTheFieldThatIsDamaged(t *testing.T) {
	for _, one := range otherDialects() {
		if one.name == ManagementName {
			continue
		}
		whole := one.dialect.Seal(event(), told())
		names := one.dialect.Traits().Fields
		if _, all := one.dialect.Open(&kgo.Record{}); !slices.Equal(all, names) {
			t.Errorf("%s: an empty dead letter lacks %v, want %v", one.name, all, names)
		}
		for i := range whole.Headers {
			name := whole.Headers[i].Key
			if !slices.Contains(names, name) {
				continue
			}
			without := &kgo.Record{Headers: slices.Delete(slices.Clone(whole.Headers), i, i+1)}
			doubled := &kgo.Record{Headers: append(slices.Clone(whole.Headers),
				kgo.RecordHeader{Key: name, Value: []byte("\xff\xff\xff")})}
			mended := &kgo.Record{Headers: append(slices.Clone(doubled.Headers), whole.Headers[i])}
			if one.dialect.Traits().Before {
				slices.Reverse(doubled.Headers)
				slices.Reverse(mended.Headers)
			}
			for _, c := range []struct {
				what   string
				letter *kgo.Record
				want   []string
			}{{"missing", without, []string{name}}, {"doubled with what can't be decoded", doubled, []string{name}},
				{"doubled, the last one whole", mended, nil}} {
				if one.name == SpringRetryableName && c.letter == doubled && (name == springBackoff || name == springFirstTime) {
					continue // a number of three bytes
				}
				if _, missing := one.dialect.Open(c.letter); !slices.Equal(missing, c.want) {
					t.Errorf("%s: %s %s: missing %v, want %v", one.name, name, c.what, missing, c.want)
				}
			}
		}
	}
}

func TestHexkitGoesToTheRetryTopicOfItsService(t *testing.T) {
	letter := Hexkit{}.Seal(event(), told())
	record := Hexkit{}.Prepare(letter)
	id, _ := last(record.Headers, hexkitEventID)
	parsed, err := uuid.Parse(string(id.Value))
	if err != nil || parsed.Version() != 4 || strings.Contains(dump(letter), string(id.Value)) ||
		strings.Contains(dump(event()), string(id.Value)) {
		t.Errorf("event_id %q is no fresh UUID4 (%v)", id.Value, err)
	}
	if record.Topic != "retry-billing" || record.Partition != -1 || len(record.Headers) != 4 {
		t.Errorf("prepared %s", dump(record))
	}
	for name, want := range map[string]string{hexkitType: "user_registered", hexkitCorrelationID: told().CorrelationID,
		hexkitOriginalTopic: "orders"} {
		if header, _ := last(record.Headers, name); string(header.Value) != want {
			t.Errorf("%s is %q, want %q", name, header.Value, want)
		}
	}
	again := told()
	again.Topic = record.Topic
	if failure, _ := (Hexkit{}).Open(Hexkit{}.Seal(record, again)); failure.Topic != "orders" ||
		failure.EventID != string(id.Value) {
		t.Errorf("failed again in the retry topic: %+v", failure)
	}
	if record := (Hexkit{}).Prepare(&kgo.Record{Value: []byte("{}")}); record.Topic != "" {
		t.Errorf("a dead letter without a service goes to %q", record.Topic)
	}
}

func TestASCIIIsPythonsBackslashReplace(t *testing.T) {
	for text, want := range map[string]string{"plain \r\n": "plain \r\n", "é": `\xe9`, "\u0153": `\u0153`,
		"😀": `\U0001f600`, "a\xffb": `a\xffb`, "": ""} {
		if got := string(asciiText(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// The bytes of java.math.BigInteger.valueOf(n).toByteArray().
func TestBigIntegersAreTheShortest(t *testing.T) {
	for n, want := range map[int64]string{
		0: "\x00", 1: "\x01", 127: "\x7f", 128: "\x00\x80", 255: "\x00\xff", 256: "\x01\x00", -1: "\xff", -128: "\x80",
		-129:          "\xff\x7f",
		1772366400000: "\x01\x9c\xa9\x45\x0a\x00", math.MaxInt64: "\x7f\xff\xff\xff\xff\xff\xff\xff",
		math.MinInt64: "\x80\x00\x00\x00\x00\x00\x00\x00",
	} {
		var e envelope
		e.bigInteger("n", n)
		if got := string(e.headers[0].Value); got != want {
			t.Errorf("%d is %x, want %x", n, got, want)
		}
		if back, ok := decodeBigInteger(e.headers[0].Value); !ok || back != n {
			t.Errorf("%d came back as %d, %v", n, back, ok)
		}
	}
	for _, damaged := range []string{"", "123456789"} {
		if n, ok := decodeBigInteger([]byte(damaged)); ok {
			t.Errorf("%q is %d", damaged, n)
		}
	}
}

func TestSpringCountsTheNextAttempt(t *testing.T) {
	for _, c := range []struct {
		value string
		want  int32
	}{{"\x00\x00\x00\x04", 3}, {"\x04", 3}, {"\xff", 254}, {"\x00\x00\x00\x01", 0}, {"\x01", 0}, {"\xff\xff\xff\xff", 0},
		{"4", 51}, {"", 0}, {"\x00\x04", 0}, {"\x7f\xff\xff\xff", math.MaxInt32 - 1}} {
		failure, missing := SpringRetryable{}.Open(&kgo.Record{Headers: []kgo.RecordHeader{header(springAttempts, c.value)}})
		if failure.Attempts != c.want || slices.Contains(missing, springAttempts) != (c.want == 0) {
			t.Errorf("%x: %d attempts, missing %v", c.value, failure.Attempts, missing)
		}
	}
	f := told()
	f.Attempts = math.MaxInt32
	if failure, _ := (SpringRetryable{}).Open(SpringRetryable{}.Seal(event(), f)); failure.Attempts != math.MaxInt32-1 {
		t.Errorf("the largest number became %d", failure.Attempts)
	}
}

func TestManagementPayloads(t *testing.T) {
	for _, value := range []string{
		`{"a":1}`, `{"a": 1}`, "null", "[]", `"text"`, "1e5", "", "no JSON", "\xff\xfe", "{\"a\":\"\xff\"}",
		`{"html":"<b>&"}`, "{\"u\":\"\u2028\"}", `{"a":1}` + "\n", `"\u0041"`,
	} {
		letter := Management{}.Seal(&kgo.Record{Value: []byte(value)}, told())
		if got := (Management{}).Prepare(letter).Value; string(got) != value {
			t.Errorf("%q came back as %q from %s", value, got, letter.Value)
		}
	}
	whole := string(Management{}.Seal(event(), told()).Value)
	for what, c := range map[string]struct{ change, to, missing string }{
		"no id":            {`"id":"`, `"idd":"`, "id"},
		"no error":         {`"error":`, `"err":`, "error"},
		"another encoding": {`"encoding":"json"`, `"encoding":"gzip"`, "originalEvent"},
		"offset below 0":   {`"offset":41`, `"offset":-1`, "originalEvent.metadata.offset"},
	} {
		changed := strings.Replace(whole, c.change, c.to, 1)
		failure, missing := Management{}.Open(&kgo.Record{Value: []byte(changed)})
		if changed == whole || !slices.Equal(missing, []string{c.missing}) || failure.Topic != "orders" {
			t.Errorf("%s: missing %v of %s", what, missing, changed)
		}
	}
	for _, broken := range []string{"", "{", whole[:len(whole)-1], "[" + whole + "]",
		strings.Replace(whole, `"offset":41`, `"offset":"41"`, 1)} {
		if _, missing := (Management{}).Open(&kgo.Record{Value: []byte(broken)}); len(missing) != len(
			Management{}.Traits().Fields) {
			t.Errorf("missing %v of %q", missing, broken)
		}
		if back := (Management{}).Prepare(&kgo.Record{Value: []byte(broken)}); string(back.Value) != broken ||
			back.Topic != "" {
			t.Errorf("%q went back as %s", broken, dump(back))
		}
	}
}

// anothersEntry is an entry as the management schema shows it, from another system with its own metadata.
const anothersEntry = `{
  "id": "7d0a1f7e-6a3c-4f5b-9f0e-6a8e4f2f9d10",
  "eventId": "0b9f3f3e-1c2d-4f5b-9f0e-6a8e4f2f9d10",
  "subscriberId": "billing",
  "originalEvent": {
    "eventId": "0b9f3f3e-1c2d-4f5b-9f0e-6a8e4f2f9d10", "pattern": "invoice.created", "version": "1.0",
    "source": {"type": "workflow", "id": "wf-1", "name": "Invoices"},
    "timestamp": "2026-02-11T12:00:00Z", "payload": {"amount": 99.99}, "metadata": {"traceId": "t", "headers": {"a": "b"}, "offset": "none"}
  },
  "error": {
    "message": "Failed to connect to payment service: Connection timed out", "type": "NetworkError", "code": "CONNECTION_TIMEOUT", "stackTrace": "Error: Failed to connect...",
    "context": {"serviceName": "payment-service", "endpoint": "https://api.payments.example.com/process", "requestId": "req-123456", "timeoutMs": 5000}
  },
  "retryHistory": [{"timestamp": "2026-02-11T12:00:01Z", "error": {"message": "refused"}, "processingDuration": 12}],
  "retryCount": 3, "maxRetries": 5, "status": "pending",
  "createdAt": "2026-02-11T12:00:07.5+0100", "updatedAt": "2026-02-11T12:05:30"
}`

// The original event is found in the entry of another producer, whatever its metadata, and is replayed in the form of
// the entry.
func TestManagementOpensEntriesOfOthers(t *testing.T) {
	letter := &kgo.Record{Key: []byte("k"), Value: []byte(anothersEntry)}
	name, opener := Detect(letter)
	failure, missing := opener.Open(letter)
	want := Failure{
		ID: "7d0a1f7e-6a3c-4f5b-9f0e-6a8e4f2f9d10", EventID: "0b9f3f3e-1c2d-4f5b-9f0e-6a8e4f2f9d10",
		EventType: "invoice.created", Group: "billing",
		Reason: "Failed to connect to payment service: Connection timed out", Class: "NetworkError",
		Code: "CONNECTION_TIMEOUT", Stack: "Error: Failed to connect...", Service: "payment-service",
		Context:  `{"endpoint":"https://api.payments.example.com/process","requestId":"req-123456","timeoutMs":5000}`,
		Attempts: 4, MaxAttempts: 6, Partition: -1, Offset: -1, Epoch: -1,
		SourceTime: time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC), Time: time.Date(2026, 2, 11, 12, 5, 30, 0, time.UTC),
	}
	if name != ManagementName || failure != want {
		t.Errorf("%s: opened\n%+v, want\n%+v", name, failure, want)
	}
	if position := []string{"originalEvent.metadata.topic", "originalEvent.metadata.partition",
		"originalEvent.metadata.offset"}; !slices.Equal(missing, position) {
		t.Errorf("missing %v, want %v", missing, position)
	}
	_, event, _ := strings.Cut(anothersEntry, `"originalEvent": `)
	event, _, _ = strings.Cut(event, ",\n  \"error\"")
	if back := opener.Prepare(letter); string(back.Value) != event || string(back.Key) != "k" ||
		len(back.Headers) != 0 || back.Topic != "" {
		t.Errorf("prepared %swant the value %s", dump(back), event)
	}
	placed := strings.Replace(anothersEntry, `{"traceId": "t", "headers": {"a": "b"}, "offset": "none"}`,
		`{"topic": "invoices", "partition": 2, "offset": 41}`, 1)
	failure, missing = Management{}.Open(&kgo.Record{Value: []byte(placed)})
	if failure.Topic != "invoices" || failure.Partition != 2 || failure.Offset != 41 || missing != nil {
		t.Errorf("opened %+v, missing %v", failure, missing)
	}
	for _, broken := range []string{"yesterday", "2026-02-11", "12:00"} {
		text := strings.Replace(anothersEntry, "2026-02-11T12:05:30", broken, 1)
		if _, missing := (Management{}).Open(&kgo.Record{Value: []byte(text)}); len(missing) != len(
			Management{}.Traits().Fields) {
			t.Errorf("%s is taken for a time", broken)
		}
	}
}

func TestManagementKeepsItsIDs(t *testing.T) {
	first := Management{}.Seal(event(), told())
	later := told()
	later.Time, later.Attempts, later.Reason = sealedAt.Add(time.Hour), 4, "still refused"
	a, _ := Management{}.Open(first)
	b, _ := Management{}.Open(Management{}.Seal(first, later))
	if a.ID != b.ID || a.EventID != b.EventID || b.EventID != told().EventID || b.Attempts != 4 ||
		b.Reason != "still refused" || b.Topic != "orders" {
		t.Errorf("%+v became %+v", a, b)
	}
}

func TestDetect(t *testing.T) {
	for _, one := range dialects() {
		letter := one.dialect.Seal(event(), told())
		if name, _ := Detect(letter); name != one.name {
			t.Errorf("a dead letter of %s is taken for %s", one.name, name)
		}
		for i := range letter.Headers {
			damaged := &kgo.Record{Key: letter.Key, Value: letter.Value, Headers: slices.Delete(slices.Clone(letter.Headers),
				i, i+1)}
			if name, _ := Detect(damaged); name != one.name {
				t.Errorf("a dead letter of %s without %s is taken for %s", one.name, letter.Headers[i].Key, name)
			}
		}
	}
	for what, letter := range map[string]*kgo.Record{
		"nothing": {}, "an event": event(),
		"a record with headers that Plain uses": {Headers: []kgo.RecordHeader{header("offset", "1"), header("partition", "2"),
			header("epoch", "3")}},
		"a replayed event of hexkit": Hexkit{}.Prepare(Hexkit{}.Seal(event(), told())),
		"JSON": {Value: []byte(
			`{"id":"1","status":"pending","error":{},"createdAt":"2026-01-01T00:00:00Z"}`)},
		"garbage": {Value: []byte("\x00\xff\x10\x08\x00")},
	} {
		name, opener := Detect(letter)
		failure, missing := opener.Open(letter)
		if name != RawName || failure != unknownFailure(letter) || missing != nil ||
			dump(opener.Prepare(letter)) != dump(&kgo.Record{
				Key: letter.Key, Value: letter.Value, Headers: letter.Headers, Partition: -1,
			}) {
			t.Errorf("%s is taken for %s: %+v", what, name, failure)
		}
	}
	twice := Spring{}.Seal(Plain{}.Seal(event(), told()), told())
	if name, _ := Detect(twice); name != SpringName {
		t.Errorf("the dead letter of a dead letter is taken for %s, not for the most specific", name)
	}
	torn := Plain{}.Seal(SpringRetryable{}.Seal(event(), told()), told())
	torn.Headers = slices.DeleteFunc(torn.Headers, func(h kgo.RecordHeader) bool {
		return h.Key == "kafka_original-topic"
	})
	if name, _ := Detect(torn); name != PlainName {
		t.Errorf("a whole dead letter of a damaged one is taken for %s", name)
	}
}

func TestNamesAreThoseOfTheDialects(t *testing.T) {
	for _, name := range Names() {
		dialect := must.Get(Named(name))(t)
		traits := dialect.Traits()
		if n := len(traits.Fields); n == 0 || n > 16 {
			t.Errorf("%s has %d fields", name, n)
		}
		failure, _ := dialect.Open(dialect.Seal(event(), told()))
		if traits.Partition != (failure.Partition == 2) || traits.Offset != (failure.Offset == 41) ||
			traits.Attempts != (failure.Attempts == 3) || failure.Topic != "orders" {
			t.Errorf("%s promises %+v and tells %+v", name, traits, failure)
		}
	}
	if slices.Contains(Names(), RawName) {
		t.Error("raw is what is in no dialect")
	}
}

// By default, spring-kafka appends the headers of RetryTopicHeaders again in each retry copy, and reads the last ones
// of any record: one that is put back with them is dead-lettered at its first failure.
func TestSpringsRetryTopicHeadersAreNotPutBack(t *testing.T) {
	letter := SpringRetryable{}.Seal(event(), told())
	hop := []kgo.RecordHeader{header(springFirstTime, "\x01"), header(springAttempts, "\x00\x00\x00\x02"),
		header(springBackoff, "\x01")}
	letter.Headers = slices.Concat(event().Headers, hop, hop, letter.Headers[len(event().Headers):])
	if got := (SpringRetryable{}).Prepare(letter).Headers; !reflect.DeepEqual(got, event().Headers) {
		t.Errorf("it is put back with %v", got)
	}
}
