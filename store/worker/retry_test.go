package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

func TestCallsAreTheReferenceConsumers(t *testing.T) {
	entry := store.Entry{Source: store.Place{Topic: sourceTopic, Partition: 3, Offset: 77}, Value: []byte{1, 0, 0xff}}
	for _, one := range []struct {
		status int
		body   string
		class  Class // "" means success
		wait   time.Duration
	}{
		{200, "", "", 0}, {204, "", "", 0},
		{503, `{"error":"the stock service is overloaded"}`, Transient, 0},
		{500, `{"error":"who knows"}`, Transient, 0},
		{503, `{"error":"validation service is not there"}`, Transient, 0}, // the downstream says that a retry may help
		{503, `{"error":"the circuit breaker is open"}`, Outage, 0},
		{429, `{"error":"too many requests"}`, RateLimited, 7 * time.Second},
		{429, ``, RateLimited, 7 * time.Second},
		{400, `{"error":"the order has no address"}`, Permanent, 0},
		{404, ``, Permanent, 0},
		{422, `{"error":"the order was cancelled"}`, Permanent, 0},
	} {
		url := downstream(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.URL.Path != "/v1/attempt" || string(body) != string(entry.Value) ||
				r.Header.Get("X-Kafka-Topic") != sourceTopic || r.Header.Get("X-Kafka-Partition") != "3" ||
				r.Header.Get("X-Kafka-Offset") != "77" {
				t.Errorf("%s %v %q", r.URL, r.Header, body)
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(one.status)
			_, _ = io.WriteString(w, one.body)
		})
		call := must.Get(NewCall(url, time.Second))(t)
		failed := retryError(call.Retry(t.Context(), entry))
		switch {
		case one.class == "":
			if failed != nil {
				t.Errorf("%d: %v", one.status, failed)
			}
		case failed == nil || failed.Class != one.class || failed.RetryAfter != one.wait:
			t.Errorf("%d %s: %+v, want %s", one.status, one.body, failed, one.class)
		}
	}
}

func TestCallsThatAreNotAnsweredAreTransient(t *testing.T) {
	held := make(chan struct{})
	url := downstream(t, func(http.ResponseWriter, *http.Request) { <-held })
	defer close(held)
	for _, address := range []string{url, "http://127.0.0.1:1"} {
		call := must.Get(NewCall(address, 50*time.Millisecond))(t)
		if failed := retryError(call.Retry(t.Context(), store.Entry{})); failed == nil || failed.Class != Transient {
			t.Errorf("%s: %v", address, failed)
		}
	}
	if _, err := NewCall("127.0.0.1:80", time.Second); err == nil {
		t.Error("an address that is no URL is taken")
	}
	if _, err := NewCall(url, 0); err == nil {
		t.Error("a call without end is taken")
	}
}

func TestRepublishingWaitsForTheAcknowledgement(t *testing.T) {
	b := newBench(t, 3)
	client := must.Get(kgo.NewClient(ProducerOptions(b.cluster.ListenAddrs())...))(t)
	defer client.Close()
	republish := &Republish{Producer: client}
	sealed := letter(2, 5, "timeout")
	entry := newEntry(sealed, "plain", plainOpener())
	must.Do(t, republish.Retry(t.Context(), entry))
	reader := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics(sourceTopic)))(t)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	got := reader.PollRecords(ctx, 1).Records()
	if len(got) != 1 || got[0].Partition != 2 || string(got[0].Key) != "k5" ||
		string(got[0].Value) != `{"id":"p2-5"}` || len(got[0].Headers) != 1 || got[0].Headers[0].Key != "trace" {
		t.Fatalf("%+v", got)
	}
	gone := entry
	gone.Error.Context = []byte(`{"replayTopic":"gone"}`)
	failed := retryError(republish.Retry(t.Context(), gone))
	if failed == nil || failed.Class != Permanent || !strings.Contains(failed.Error(), "there is no topic gone on these "+
		"brokers; make it") {
		t.Errorf("a topic that is gone: %v", failed)
	}
	raw := store.Entry{Source: store.Place{Topic: dlqTopic}, Letter: store.Place{Topic: dlqTopic}, Dialect: "raw"}
	if failed := retryError(republish.Retry(t.Context(), raw)); failed == nil || failed.Class != Permanent {
		t.Errorf("a raw dead letter: %v", failed)
	}
	if err := (&Republish{Producer: client, To: sourceTopic}).Retry(t.Context(), raw); err != nil {
		t.Errorf("a raw dead letter to a topic given by hand: %v", err)
	}
}

// producerFunc is a Producer.
type producerFunc func(*kgo.Record, func(*kgo.Record, error))

func (p producerFunc) Produce(_ context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
	p(record, promise)
}

func TestRepublishingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := producerFunc(func(*kgo.Record, func(*kgo.Record, error)) { cancel() })
	failed := retryError((&Republish{Producer: silent, To: "orders"}).Retry(ctx, store.Entry{}))
	if failed == nil || failed.Class != Transient || !strings.Contains(failed.Error(), "may have been written") {
		t.Errorf("%v", failed)
	}
	for err, class := range map[error]Class{kerr.MessageTooLarge: Permanent, kerr.TopicAuthorizationFailed: Permanent,
		kerr.NotEnoughReplicas: Transient, errors.New("x"): Transient} {
		refusing := producerFunc(func(record *kgo.Record, promise func(*kgo.Record, error)) { promise(record, err) })
		if failed := retryError((&Republish{Producer: refusing, To: "orders"}).Retry(t.Context(),
			store.Entry{})); failed.Class != class {
			t.Errorf("%v: %s", err, failed.Class)
		}
	}
}

func TestProbesTellTheConditions(t *testing.T) {
	for answer, want := range map[string]string{
		`{"circuitBreaker":"CLOSED","cpuUsage":0.79,"memoryUsage":0.84,"dbConnectionsAvailable":1}`: "",
		`{"circuitBreaker":"closed","cpuUsage":0,"memoryUsage":0,"dbConnectionsAvailable":8,"x":1}`: "",
		`{"circuitBreaker":"OPEN","cpuUsage":0.5,"memoryUsage":0.5,"dbConnectionsAvailable":1}`: "the circuit breaker " +
			"is OPEN",
		`{"circuitBreaker":"HALF_OPEN","cpuUsage":0.5,"memoryUsage":0.5,"dbConnectionsAvailable":1}`: "the circuit breaker " +
			"is HALF_OPEN",
		`{"circuitBreaker":"CLOSED","cpuUsage":0.8,"memoryUsage":0.5,"dbConnectionsAvailable":1}`: "the CPU usage is 80 " +
			"%, not below 80 %",
		`{"circuitBreaker":"CLOSED","cpuUsage":0.5,"memoryUsage":0.85,"dbConnectionsAvailable":1}`: "the memory usage is " +
			"85 %, not below 85 %",
		`{"circuitBreaker":"CLOSED","cpuUsage":0.5,"memoryUsage":0.5,"dbConnectionsAvailable":0}`: "no database " +
			"connection is available",
		`{"circuitBreaker":"OPEN","cpuUsage":0.5,"memoryUsage":0.5}`: "the circuit breaker " +
			"is OPEN, the number of database connections is unknown",
		`{}`: "the state of the circuit breaker is unknown, the CPU usage is unknown, the memory usage is unknown, the " +
			"number of database connections is unknown",
		`no`: "reading the health probe's answer: invalid character 'o' in literal null (expecting 'u')",
	} {
		probe := must.Get(NewProbe(downstream(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answer)
		})))(t)
		if got := probe.Unmet(t.Context()); got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
	down := must.Get(NewProbe("http://127.0.0.1:1/health"))(t)
	ill := must.Get(NewProbe(downstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})))(t)
	if down.Unmet(t.Context()) == "" || !strings.Contains(ill.Unmet(t.Context()), "503") {
		t.Error("a probe that doesn't answer is no good news")
	}
	if _, err := NewProbe("localhost:80"); err == nil {
		t.Error("an address that is no URL is taken")
	}
}
