package worker

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/store"
)

func TestErrorsAreClassified(t *testing.T) {
	for _, one := range []struct {
		failure store.Failure
		want    Class
	}{
		// These are the examples of both documents.
		{store.Failure{Message: "Failed to connect to payment service: Connection timed out", Type: "NetworkError",
			Code: "CONNECTION_TIMEOUT"}, Transient},
		{store.Failure{Message: "External API timeout after 5000ms", Type: "TIMEOUT_ERROR"}, Transient},
		{store.Failure{Type: "RATE_LIMIT_ERROR"}, RateLimited},
		{store.Failure{Type: "ServiceUnavailableError"}, Transient},
		{store.Failure{Type: "ValidationError"}, Permanent},
		// Transient errors, of each kind in the management schema.
		{store.Failure{Message: "read tcp 127.0.0.1: i/o timeout"}, Transient},
		{store.Failure{Message: "the stock service is overloaded"}, Transient},
		{store.Failure{Message: "database connection lost"}, Transient},
		{store.Failure{Message: "the downstream answered 503 Service Unavailable"}, Transient},
		{store.Failure{Message: "the downstream answered 500"}, Transient},
		{store.Failure{Code: "HTTP_502"}, Transient},
		{store.Failure{Code: "504"}, Transient},
		{store.Failure{Message: "calling the downstream: no answer in time"}, Transient},
		{store.Failure{Type: "java.net.SocketTimeoutException"}, Transient},
		{store.Failure{Type: "java.net.ConnectException", Message: "Connection refused"}, Transient},
		{store.Failure{Code: "ECONNRESET"}, Transient},
		{store.Failure{Type: "UNAVAILABLE"}, Transient},
		{store.Failure{Type: "DEADLINE_EXCEEDED"}, Transient},
		{store.Failure{Type: "ABORTED"}, Transient},
		// Rate limits and quotas.
		{store.Failure{Message: "too many requests for this customer"}, RateLimited},
		{store.Failure{Message: "the downstream answered 429 Too Many Requests"}, RateLimited},
		{store.Failure{Code: "429"}, RateLimited},
		{store.Failure{Type: "QuotaExceededException"}, RateLimited},
		{store.Failure{Type: "RESOURCE_EXHAUSTED"}, RateLimited},
		{store.Failure{Message: "request was throttled"}, RateLimited},
		// Outages.
		{store.Failure{Message: "circuit breaker 'stock' is OPEN and does not permit further calls"}, Outage},
		{store.Failure{Type: "CircuitBreakerOpenException"}, Outage},
		{store.Failure{Message: "connection pool exhausted"}, Outage},
		{store.Failure{Message: "closed for maintenance"}, Outage},
		{store.Failure{Type: "OutOfMemoryError"}, Outage},
		// Permanent errors, of each kind in the management schema.
		{store.Failure{Message: "403 forbidden"}, Permanent},
		{store.Failure{Type: "AuthorizationError"}, Permanent},
		{store.Failure{Type: "NotFoundException"}, Permanent},
		{store.Failure{Message: "status 404"}, Permanent},
		{store.Failure{Code: "422"}, Permanent},
		{store.Failure{Type: "BusinessRuleViolation"}, Permanent},
		{store.Failure{Message: "malformed payload at byte 3"}, Permanent},
		{store.Failure{Type: "DeserializationException"}, Permanent},
		{store.Failure{Message: "invalid amount"}, Permanent},
		// The type takes precedence over the message. A number without a word that announces it is not a status.
		{store.Failure{Type: "ValidationError", Message: "timeout must be positive"}, Permanent},
		{store.Failure{Type: "TimeoutError", Message: "validation service"}, Transient},
		{store.Failure{Type: "Error", Code: "E_TIMEOUT", Message: "invalid"}, Transient},
		{store.Failure{Message: "order 503 has no address"}, Unknown},
		{store.Failure{Message: "the order has no delivery address"}, Unknown},
		{store.Failure{Message: "reconnected networks"}, Unknown},
		{store.Failure{}, Unknown},
		{store.Failure{Message: "\xff\xfe\x00"}, Unknown},
		{store.Failure{Message: strings.Repeat("x ", 1<<20) + "timeout"}, Unknown},
	} {
		if got := Analyse(one.failure); got != one.want {
			t.Errorf("%.80q: %s, want %s", one.failure, got, one.want)
		}
	}
}

func TestClassesHaveStrategies(t *testing.T) {
	for class, want := range map[Class]store.Strategy{
		Transient: store.Immediate, RateLimited: store.Scheduled, Outage: store.Conditional, Permanent: store.ByHand,
		Unknown: store.ByHand,
	} {
		if got := class.Strategy(); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
}
