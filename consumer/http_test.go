package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestHTTPHandlerClassesAnswers(t *testing.T) {
	for _, c := range []struct {
		status     int
		retryAfter string
		body       string
		class      Class
		after      time.Duration
		text       string
	}{
		{200, "", "", 0, 0, ""},
		{204, "", "", 0, 0, ""},
		{503, "", `{"error":"ünavailable","class":"transient"}`, Retryable, 0, "ünavailable"},
		{500, "", `not json`, Retryable, 0, "the downstream answered 500 Internal Server Error"},
		{408, "", ``, Retryable, 0, "the downstream answered 408 Request Timeout"},
		{429, "2", `{"error":"slow down"}`, Retryable, 2 * time.Second, "slow down"},
		{429, "0.25", ``, Retryable, 250 * ms, "the downstream answered 429 Too Many Requests"},
		{429, "-1", ``, Retryable, 0, "the downstream answered 429 Too Many Requests"},
		{429, "NaN", ``, Retryable, 0, "the downstream answered 429 Too Many Requests"},
		{429, "1e300", ``, Retryable, maxRetryAfter, "the downstream answered 429 Too Many Requests"},
		{429, "soon", ``, Retryable, 0, "the downstream answered 429 Too Many Requests"},
		{400, "", `{"error":"bad\r\nrecord\u0000"}`, Permanent, 0, "bad\r\nrecord\x00"},
		{404, "", ``, Permanent, 0, "the downstream answered 404 Not Found"},
		{422, "", `{"error":"declined"}`, Logical, 0, "declined"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got := fmt.Sprint(r.Method, r.URL.Path, r.Header.Get("X-Kafka-Topic"), r.Header.Get("X-Kafka-Partition"),
				r.Header.Get("X-Kafka-Offset"), string(body))
			if got != "POST/v1/attemptorders37payload" {
				t.Errorf("the request was %s", got)
			}
			if c.retryAfter != "" {
				w.Header().Set("Retry-After", c.retryAfter)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := call(t, server.URL, time.Minute)
		server.Close()
		if c.text == "" {
			if err != nil {
				t.Errorf("%d: %v", c.status, err)
			}
			continue
		}
		if err == nil || err.Error() != c.text || ClassOf(err) != c.class || retryAfter(err) != c.after {
			t.Errorf("%d: %v (%s, after %s), want %s (%s, after %s)", c.status, err, ClassOf(err), retryAfter(err), c.text,
				c.class, c.after)
		}
	}
}

func call(t *testing.T, url string, timeout time.Duration) error {
	t.Helper()
	handler := must.Get(HTTPHandler(url + "/"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return handler(ctx, &kgo.Record{Topic: "orders", Partition: 3, Offset: 7, Value: []byte("payload")})
}

// TestHTTPHandlerMakesOneRequestPerAttempt includes reused connections, on which HTTP clients tend to retry.
func TestHTTPHandlerMakesOneRequestPerAttempt(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) > 1 {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
	}))
	defer server.Close()
	handler := must.Get(HTTPHandler(server.URL))(t)
	must.Do(t, handler(t.Context(), &kgo.Record{}))
	if err := handler(t.Context(), &kgo.Record{}); err == nil || ClassOf(err) != Retryable {
		t.Errorf("a broken connection gave %v", err)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests for two attempts: the client repeats by itself", requests.Load())
	}
}

func TestHTTPHandlerGivesUpInTimeAndReadsBounded(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hang.Close()
	defer close(release)
	if err := call(t, hang.URL, 30*ms); err == nil || ClassOf(err) != Retryable ||
		!strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("a hanging downstream gave %v", err)
	}
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"`+strings.Repeat("x", 2*maxAnswer)+`"}`)
	}))
	defer long.Close()
	if err := call(t, long.URL, time.Minute); err == nil || len(err.Error()) > maxAnswer {
		t.Error("an endless answer was read to its end")
	}
	refused := httptest.NewServer(nil)
	refused.Close()
	if err := call(t, refused.URL, time.Minute); err == nil || ClassOf(err) != Retryable {
		t.Errorf("a refused connection gave %v", err)
	}
}

func TestHTTPHandlerRefusesWhatIsNoURL(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:80", "ftp://x", "http://", "http://a b"} {
		if _, err := HTTPHandler(base); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
}

func TestRetryAfterAsADate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0,
		"Mon, 01 Mar 2027 12:00:00 GMT": maxRetryAfter,
	} {
		if got := parseRetryAfter(text, now); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	full := map[string]string{
		"DLQBENCH_BOOTSTRAP_SERVERS": "a:1,b:2", "DLQBENCH_INPUT_TOPIC": "orders", "DLQBENCH_GROUP_ID": "g",
		"DLQBENCH_ORACLE_URL": "http://127.0.0.1:1", "DLQBENCH_RUN_ID": "r7", "DLQBENCH_INSTANCE": "1",
		"DLQBENCH_SETTINGS": `{"max_retries": 5, "attempt_timeout": "700ms", "exponential_backoff": false}`,
	}
	lookup := func(name string) (string, bool) { value, ok := full[name]; return value, ok }
	config, err := FromEnvironment(lookup)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Bootstrap) != 2 || config.DLQTopic != "orders.dlq" ||
		config.ClientID != "dlqbench-r7-1" || config.Handler == nil {
		t.Errorf("got %+v", config)
	}
	if s := config.Settings; s.MaxRetries != 5 || s.AttemptTimeout.D() != 700*ms || s.ExponentialBackoff ||
		s.RetryBackoffMS != 1000 {
		t.Errorf("settings %+v: what the text mentions is not set, or what it doesn't is not the default", s)
	}
	if _, err := New(config, DefaultParts(config.Settings)); err != nil {
		t.Error(err)
	}
	full["DLQBENCH_SETTINGS"] = `{"max_retry": 5}`
	full["DLQBENCH_GROUP_ID"] = ""
	full["DLQBENCH_ORACLE_URL"] = "nowhere"
	_, err = FromEnvironment(lookup)
	for _, name := range []string{"DLQBENCH_GROUP_ID is not set", "max_retry", "nowhere"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v doesn't mention %s", err, name)
		}
	}
}

func TestNewReportsEverythingThatIsWrong(t *testing.T) {
	config := Config{Topic: "a", DLQTopic: "a", Settings: Settings{RetryBackoffMS: -1, MaxRetryBackoffMS: -1,
		RetryJitterMS: -1, Ordering: "random", DLQEnabled: true}}
	_, err := New(config, Parts{})
	for _, part := range []string{"broker", "group", "its own dead-letter", "handler", "max_retries", "retry_backoff_ms",
		"max_retry_backoff_ms", "retry_jitter_ms", "ordering", "max_in_flight", "attempt_timeout", "commit_interval",
		"stop_grace"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't mention %s", err, part)
		}
	}
	if err := DefaultSettings().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestErrorsKeepTheirCause(t *testing.T) {
	cause := errors.New("cause")
	wrapped := fmt.Errorf("doing: %w", &Error{Class: Logical, Err: cause})
	if !errors.Is(wrapped, cause) || ClassOf(wrapped) != Logical || ClassOf(cause) != Retryable ||
		ClassOf(nil) != Retryable {
		t.Error("class or cause is lost on the way")
	}
	if fmt.Sprint(Retryable, Permanent, Logical) != "retryable permanent logical" {
		t.Error("the classes' names are wrong")
	}
}
