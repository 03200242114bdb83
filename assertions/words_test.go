package assertions

import (
	"testing"
	"time"
)

func TestNearKeepsWhatIsReadInASentence(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1469362838: "1.47s", 326422545: "326.42ms", 65432: "65.43µs", 999: "999ns", -1234567890: "-1.23s", 0: "0s", 61 * time.Second: "1m1s",
	} {
		if got := near(d).String(); got != want {
			t.Errorf("near(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestErrorCodesHaveKafkasNames(t *testing.T) {
	for code, want := range map[int16]string{29: "TOPIC_AUTHORIZATION_FAILED", 19: "NOT_ENOUGH_REPLICAS", -1: "UNKNOWN_SERVER_ERROR", 9999: "error 9999"} {
		if got := errorName(code); got != want {
			t.Errorf("errorName(%d) = %s, want %s", code, got, want)
		}
	}
}
