package mongo

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

// stored returns a value as a server gives it back.
func stored(t must.Test, value any) any {
	encoded := must.Get(bson.Marshal(bson.D{{Key: "v", Value: value}}))(t)
	var document bson.D
	must.Do(t, bson.Unmarshal(encoded, &document))
	return document[0].Value
}

// anyJSON generates any JSON: texts, numbers, names and nesting.
func anyJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.OneOf(
		rapid.Just("null"), rapid.Just("true"), rapid.Just("1.0"), rapid.Just("1e3"), rapid.Just("-0"),
		rapid.Just("12345678901234567890"), rapid.Just("0.1"),
		rapid.Map(rapid.Int64(), func(n int64) string { return mustJSON(n) }),
		rapid.Map(rapid.Float64Range(-1e9, 1e9), func(n float64) string { return mustJSON(n) }),
		rapid.Map(rapid.String(), func(s string) string { return mustJSON(s) }),
	)
	if depth == 0 {
		return scalar
	}
	inner := anyJSON(depth - 1)
	name := rapid.OneOf(rapid.StringMatching(`[a-z]{1,3}`), rapid.SampledFrom([]string{"", "$oid", "a.b", "é", "$date"}))
	object := rapid.Custom(func(t *rapid.T) string {
		var parts []string
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			parts = append(parts, mustJSON(name.Draw(t, "name"))+":"+inner.Draw(t, "value"))
		}
		return "{" + strings.Join(parts, ",") + "}"
	})
	array := rapid.Map(rapid.SliceOfN(inner, 0, 4), func(parts []string) string {
		return "[" + strings.Join(parts, ", ") + "]"
	})
	return rapid.OneOf(scalar, object, array)
}

func mustJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A message stored as BSON comes back with the same names, values and digits, in the same order.
func TestNativeMessagesComeBack(t *testing.T) {
	isNative := func(text string) bool {
		_, err := native(json.RawMessage(text))
		return !errors.Is(err, errNotNative)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := anyJSON(3).Filter(isNative).Draw(t, "json")
		value := must.Get(native(json.RawMessage(text)))(t)
		back := must.Get(plain(stored(t, value)))(t)
		if compact(t, back) != compact(t, []byte(text)) {
			t.Fatalf("%s came back as %s", text, back)
		}
	})
}

// compact returns JSON without spaces and with each text in one canonical form.
func compact(t must.Test, text []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out strings.Builder
	for {
		token, err := decoder.Token()
		if err != nil {
			return out.String()
		}
		encoded, err := json.Marshal(token)
		if delimiter, is := token.(json.Delim); is {
			encoded, err = []byte(delimiter.String()), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(encoded, ' '))
	}
}

func TestWhatIsNotNative(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"":1}`, `{"$oid":"507f1f77bcf86cd799439011"}`, `{"a.b":1}`, `[[1]]`, `{"a":[[]]}`, `1.0`, `1e3`,
		`-0`, `12345678901234567890`, `{} {}`, ``, `{"a"`,
	} {
		if value, err := native(json.RawMessage(text)); !errors.Is(err, errNotNative) {
			t.Errorf("%s became %v (%v)", text, value, err)
		}
	}
	// The document of "Dead Letter Queue Lifecycle".
	value, err := native(json.RawMessage(`{"userId": "user_123", "action": "process_payment", "amount": 99.99}`))
	want := bson.D{{Key: "userId", Value: "user_123"}, {Key: "action", Value: "process_payment"},
		{Key: "amount", Value: 99.99}}
	if err != nil || !reflect.DeepEqual(value, want) {
		t.Errorf("got %v (%v)", value, err)
	}
}

// A value that people have entered by hand and that has no JSON form is shown as extended JSON.
func TestExtendedValues(t *testing.T) {
	id := must.Get(bson.ObjectIDFromHex("507f1f77bcf86cd799439011"))(t)
	got, err := plain(bson.D{{Key: "id", Value: id}, {Key: "n", Value: math.NaN()},
		{Key: "at", Value: bson.NewDateTimeFromTime(time.UnixMilli(0))}, {Key: "i", Value: int32(5)}})
	want := `{"id":{"$oid":"507f1f77bcf86cd799439011"},"n":{"$numberDouble":"NaN"},` +
		`"at":{"$date":"1970-01-01T00:00:00Z"},"i":5}`
	if err != nil || string(got) != want {
		t.Errorf("got %s (%v), not %s", got, err, want)
	}
}

// A document has all fields of "Dead Letter Queue Lifecycle", with their names and types.
func TestTheDocumentsFields(t *testing.T) {
	words := must.Get(store.NamedVocabulary(""))(t)
	s := &Store{words: words}
	at := time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	encoded := must.Get(bson.Marshal(s.write(store.Entry{
		ID: "a", EventID: "msg_1707658080_abc123", State: store.Pending,
		OriginalEvent: json.RawMessage(`{"userId":"user_123"}`), Service: "payment-service", Priority: 1,
		Tags: []string{"payment", "critical"},
		Error: store.Failure{Message: "External API timeout", Stack: "Error: timeout", Type: "TIMEOUT_ERROR",
			Context: json.RawMessage(`{"systemState":{"cpuUsage":0.75}}`)},
		RetryHistory: []store.Attempt{{At: at, Worker: "worker_node_2", Strategy: store.Immediate, Result: "failed"}},
		RetryCount:   3, DLQRetryCount: 2, FirstFailedAt: at, LastFailedAt: at, NextRetryAt: at, CreatedAt: at, UpdatedAt: at,
	})))(t)
	for path, want := range map[string]any{
		"messageId": "msg_1707658080_abc123", "originalMessage.userId": "user_123", "errorReason": "External API timeout",
		"errorStack": "Error: timeout",
		"errorType":  "TIMEOUT_ERROR", "retryCount": int32(3), "dlqRetryCount": int32(2), "firstFailedAt": at,
		"lastFailedAt": at, "status": "dlq_pending",
		"lockedBy": nil, "lockedAt": nil, "nextRetryAt": at, "metadata.source": "payment-service",
		"metadata.priority": int32(1), "metadata.tags.0": "payment",
		"metadata.systemState.cpuUsage": 0.75, "replayAttempts.0.timestamp": at, "replayAttempts.0.workerId": "worker_node_2",
		"replayAttempts.0.strategy": "immediate_retry", "replayAttempts.0.result": "failed", "createdAt": at, "updatedAt": at,
	} {
		found, err := bson.Raw(encoded).LookupErr(strings.Split(path, ".")...)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got any
		if err := found.Unmarshal(&got); err != nil {
			t.Error(err)
		}
		if date, is := got.(bson.DateTime); is {
			got = date.Time().UTC()
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v (%T), not %v", path, got, got, want)
		}
	}
}

// A stack that exceeds MongoDB's document limit is cut, but a record is not.
func TestFit(t *testing.T) {
	long := store.Entry{Value: make([]byte, 10<<20), OriginalEvent: json.RawMessage(`{}`),
		Error: store.Failure{Stack: strings.Repeat("é", 4<<20)}}
	s := &Store{}
	fitted := must.Get(fit(s.write(long)))(t)
	encoded, err := bson.Marshal(fitted)
	if err != nil || len(encoded) > maxDocumentBytes-roomForChanges || len(fitted.ErrorStack) < 4<<20 ||
		!strings.Contains(fitted.ErrorStack, "cut") {
		t.Errorf("%d bytes, a stack of %d (%v)", len(encoded), len(fitted.ErrorStack), err)
	}
	long.Value = make([]byte, 17<<20)
	if _, err := fit(s.write(long)); err == nil || !strings.Contains(err.Error(), "16777216") {
		t.Errorf("a record that is too long: %v", err)
	}
}

func TestTheSystemsStateIsFoundInTheContext(t *testing.T) {
	load := bson.D{{Key: "cpuUsage", Value: 0.75}}
	for context, want := range map[string]any{
		`{"systemState":{"cpuUsage":0.75}}`: load, `{"context":{"systemState":{"cpuUsage":0.75}},"group":"g"}`: load,
		`{"context":"none"}`: nil, `{"context":{}}`: nil, `{}`: nil, `[]`: nil, ``: nil,
	} {
		if got := systemState(json.RawMessage(context)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", context, got, want)
		}
	}
}
