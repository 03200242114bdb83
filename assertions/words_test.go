package assertions

import "testing"

func TestErrorCodesHaveKafkasNames(t *testing.T) {
	for code, want := range map[int16]string{29: "TOPIC_AUTHORIZATION_FAILED", 19: "NOT_ENOUGH_REPLICAS",
		-1: "UNKNOWN_SERVER_ERROR", 9999: "error 9999", 503: "status 503"} {
		if got := errorName(code); got != want {
			t.Errorf("errorName(%d) = %s, want %s", code, got, want)
		}
	}
}
