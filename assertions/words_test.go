package assertions

import (
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func TestErrorCodesHaveKafkasNames(t *testing.T) {
	for code, want := range map[int16]string{29: "TOPIC_AUTHORIZATION_FAILED", 19: "NOT_ENOUGH_REPLICAS",
		-1: "UNKNOWN_SERVER_ERROR", 9999: "error 9999", 503: "status 503"} {
		if got := errorName(code); got != want {
			t.Errorf("errorName(%d) = %s, want %s", code, got, want)
		}
	}
}

// Who refused a write is said as it is: there is no broker where a service takes dead letters.
func TestAnswersSayWhoRefused(t *testing.T) {
	t.Parallel()
	for code, want := range map[int16]string{
		19:  "refused with NOT_ENOUGH_REPLICAS by a fault in the broker's place",
		503: "refused with status 503 by a fault",
	} {
		if got := answer(&history.Event{Code: code, Flags: history.Forged}); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}
