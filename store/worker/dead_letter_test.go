package worker

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store"
)

// The entry has the dead letter's description of the failure and the event, also if another producer wrote it.
func TestEntriesSayWhatTheirDeadLettersSay(t *testing.T) {
	event := `{"eventId":"e-1","pattern":"invoice.created","source":{"type":"task","id":"1","name":"Invoices"},` +
		`"payload":{"amount":99.99},"metadata":{"priority":2}}`
	letter := &kgo.Record{Topic: "dlq", Partition: 1, Offset: 7,
		Value: []byte(`{"id":"i-1","eventId":"e-1","subscriberId":"billing","originalEvent":` + event + `,
		"error":{"message":"refused","type":"SomeError","code":"CONNECTION_TIMEOUT","stackTrace":"at x","context":{"serviceName":"payments","systemState":{"cpuUsage":0.75}}},
		"retryHistory":[],"retryCount":2,"maxRetries":4,"status":"pending","createdAt":"2026-02-11T12:00:00Z","updatedAt":"2026-02-11T12:05:00Z"}`)}
	name, opener := deadletter.Detect(letter)
	entry := newEntry(letter, name, opener)
	if name != deadletter.ManagementName || string(entry.Value) != event ||
		entry.Pattern != "invoice.created" || entry.EventID != "e-1" || entry.SubscriberID != "billing" ||
		entry.Service != "payments" || entry.Priority != 2 || entry.RetryCount != 3 || entry.MaxRetries != 5 ||
		!entry.LastFailedAt.Equal(time.Date(2026, 2, 11, 12, 5, 0, 0, time.UTC)) {
		t.Errorf("%s: entry %+v", name, entry)
	}
	failure := entry.Error
	if failure.Message != "refused" || failure.Type != "SomeError" ||
		failure.Code != "CONNECTION_TIMEOUT" || failure.Stack != "at x" || Analyse(failure) != Transient {
		t.Errorf("error %+v, which is %s", failure, Analyse(failure))
	}
	said := deadLetterContext(entry)
	if string(said.Context) != `{"systemState":{"cpuUsage":0.75}}` || said.LetterID != "i-1" ||
		!slices.Contains(said.Missing, "originalEvent.metadata.topic") {
		t.Errorf("context %+v", said)
	}
}

// The error for which a record was dead-lettered is kept after retries fail with other errors.
func TestTheFirstErrorIsKept(t *testing.T) {
	strategies, now := DefaultStrategies(), time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	first := FirstError{Message: "connection timed out", Type: "NetworkError", Code: "E1", StackTrace: "at payment.ts:42"}
	for context, others := range map[string]string{`{"replayTopic":"orders","letterId":"i"}`: "orders", `{}`: "", ``: ""} {
		entry := store.Entry{Error: store.Failure{Message: first.Message, Type: first.Type, Code: first.Code,
			Stack: first.StackTrace, Context: json.RawMessage(context)}}
		for _, again := range []string{"answered 503", "answered 429: too many requests"} {
			change := strategies.After(entry, store.Attempt{At: now}, &RetryError{Class: Transient, Err: errors.New(again)}, now)
			entry.Error = *change.Failure
			said := deadLetterContext(entry)
			if said.FirstError == nil || *said.FirstError != first || said.ReplayTopic != others ||
				entry.Error.Message != again {
				t.Fatalf("after %q the error is %+v, its context %s", again, entry.Error, entry.Error.Context)
			}
		}
	}
	for _, foreign := range []string{`[1]`, `"text"`, `null`} {
		kept := keepFirst(store.Failure{Message: "x", Context: json.RawMessage(foreign)})
		if string(kept) != foreign {
			t.Errorf("the context %s became %s", foreign, kept)
		}
	}
	long := deadLetterContext(
		store.Entry{Error: store.Failure{Context: keepFirst(store.Failure{Stack: strings.Repeat("x", 10<<20)})}})
	if len(long.FirstError.StackTrace) != maxFirstStack {
		t.Errorf("a stack of %d bytes is kept a second time", len(long.FirstError.StackTrace))
	}
}
