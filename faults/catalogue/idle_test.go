package catalogue

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// TestWhatAFaultNeeds: the reason for a fault without effect depends on it.
func TestWhatAFaultNeeds(t *testing.T) {
	for _, c := range []struct {
		spec string
		want history.Need
		why  string
	}{
		{"{kafka: {api: Produce, topic: dlq, close: true}}", history.NeedDeadLetter, "such requests (dlq)"},
		{"{kafka: {api: Produce, topic: dlq, client_id: x, close: true}}", history.NeedDeadLetter, ""},
		{"{kafka: {api: Produce, close: true}}", history.NeedRecord, "such requests (every instance)"},
		{"{kafka: {api: Produce, topic: retry, close: true}}", history.NeedRecord, ""},
		{"{kafka: {api: Fetch, topic: dlq, client_id: x, close: true}}", history.NeedRecord, ""},
		{"{network: {link: dlq, down: true}}", history.NeedDeadLetter, "came over that link"},
		{"{network: {link: downstream, down: true}}", history.NeedAttempt, ""},
		{"{network: {link: broker 1, down: true}}", history.NeedRecord, ""},
		{"{broker: {broker: 1, stop: true}}", history.NeedNothing, "no connection and no leader"},
		{"{subject: {instance: 0, signal: KILL}}", history.NeedNothing, "the process was not there"},
		{"{downstream: {outage: true}}", history.NeedAttempt, "the downstream was not asked"},
		{"{store: {process: worker 0, clock_ahead: 1h}}", history.NeedMember, "locked no entry"},
		{"{store: {unhealthy: cpu}}", history.NeedMember, "asked the health probe"},
		{"{store: {repeat_letters: 10%}}", history.NeedMember, "no dead letter in the topic"},
		{"{registry: {error: 503}}", history.NeedRecord, "got no request that it concerns"},
		{"{store: {restart: true}}", history.NeedMember, "connected to the database"},
	} {
		if got := parse(t, c.spec).Traits().Idle; got.Needs != c.want || !strings.Contains(got.Why+"; "+got.Do, c.why) {
			t.Errorf("%s needs %q, %q; want %q, %q", c.spec, got.Needs, got.Why, c.want, c.why)
		}
	}
}
