package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// TestEveryEnvelopeIsSealed checks that, with each dialect, the dead letter contains what the consumer knows of the
// failure, as far as the dialect can hold it.
func TestEveryEnvelopeIsSealed(t *testing.T) {
	for _, name := range deadletter.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			b.produce(0, 1, 1)
			settings := testSettings()
			settings.Envelope, settings.MaxRetries = Dialect(name), 2
			config := b.config(settings, func(context.Context, *kgo.Record) error {
				return &Error{Name: "ServiceUnavailableError", Code: "503", Err: errors.New("no capacity")}
			})
			config.Instance = "7"
			run := b.start(config, DefaultParts(settings))
			b.eventually("the record is committed", func() bool { return b.committed(0) == 1 })
			must.Do(t, run.stop())
			letters := b.letters()
			if len(letters) != 1 {
				t.Fatalf("%d dead letters", len(letters))
			}
			dialect := must.Get(deadletter.Named(name))(t)
			if found, _ := deadletter.Detect(letters[0]); found != name {
				t.Errorf("the dead letter is taken for %s", found)
			}
			failure, missing := dialect.Open(letters[0])
			wantEnvelope(t, dialect, config, failure)
			if len(missing) > 0 {
				t.Errorf("it lacks %v", missing)
			}
			if held := dialect.Prepare(letters[0]); string(held.Value) != string(valueOf(0, 0)) &&
				name != deadletter.PipestreamName {
				t.Errorf("it holds %q", held.Value)
			}
		})
	}
}

// wantEnvelope compares each decoded field of the dead letter with what the consumer knew, and requires the fields
// that the dialect can always hold.
func wantEnvelope(t *testing.T, dialect deadletter.Dialect, config Config, failure deadletter.Failure) {
	t.Helper()
	if failure.Topic != inputTopic || failure.Reason != "no capacity" {
		t.Errorf("it says %+v", failure)
	}
	for what, said := range map[string][2]string{
		"class": {failure.Class, "ServiceUnavailableError"}, "code": {failure.Code, "503"},
		"group": {failure.Group, config.Group}, "service": {failure.Service, config.Group},
		"instance": {failure.Instance, "7"}, "type of the timestamp": {failure.SourceTimeType, deadletter.CreateTime},
	} {
		if said[0] != "" && said[0] != said[1] {
			t.Errorf("the %s is %q, want %q", what, said[0], said[1])
		}
	}
	if failure.Handler != "" &&
		!strings.HasPrefix(failure.Handler, "github.com/dlqbench/dlqbench/consumer.TestEveryEnvelopeIsSealed") {
		t.Errorf("the handler is %q", failure.Handler)
	}
	traits := dialect.Traits()
	if traits.Attempts && failure.Attempts != 2 || traits.Partition && failure.Partition != 0 ||
		traits.Offset && failure.Offset != 0 || failure.MaxAttempts > 0 && failure.MaxAttempts != 2 {
		t.Errorf("it says %+v", failure)
	}
	if failure.Time.IsZero() && failure.SourceTime.IsZero() {
		t.Error("it says no time at all")
	}
}

// TestErrorsAreNamed checks the names in dead letters of the errors that the consumer distinguishes.
func TestErrorsAreNamed(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, "TimeoutError": context.DeadlineExceeded, "*errors.errorString": errors.New("x"),
		"*fmt.wrapError": &Error{Err: fmt.Errorf("x: %w", context.Canceled)},
		"NetworkError":   fmt.Errorf("trying: %w", &Error{Name: "NetworkError", Err: errors.New("x")}),
	} {
		var failure deadletter.Failure
		describe(err, &failure)
		if failure.Class != want || (err != nil) != (failure.Reason != "") {
			t.Errorf("%v is called %q (%q), want %q", err, failure.Class, failure.Reason, want)
		}
	}
	for status, want := range map[int]string{
		400: "ValidationError", 401: "AuthorizationError", 403: "AuthorizationError", 404: "ResourceNotFoundError",
		408: "TimeoutError", 422: "ValidationError",
		429: "RateLimitError", 500: "ServerError", 503: "ServiceUnavailableError", 504: "TimeoutError",
	} {
		if got := statusName(status); got != want {
			t.Errorf("%d is called %s, want %s", status, got, want)
		}
	}
}

// TestUnknownEnvelopeIsRefused checks that the settings reject an unknown envelope and list the known ones.
func TestUnknownEnvelopeIsRefused(t *testing.T) {
	settings := DefaultSettings()
	settings.Envelope = "sping"
	if err := settings.Validate(); err == nil || !strings.Contains(err.Error(), "envelope: \"sping\" is no dead-letter "+
		"envelope: known are plain") {
		t.Errorf("it gave %v", err)
	}
}
