package workload

// What the oracle answers: a pure function of the plan, and the texts that end up in dead letters' headers.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// decide returns the planned outcome of the k-th attempt of a record (k from 1; attempts answered by a fault don't
// count). A record that was replayed and fails again goes on as it was planned at first.
func decide(record *plan.Record, k int32, replayed bool) history.Outcome {
	if replayed && record.Healed && !record.FailsAgain {
		return history.OutcomeSuccess
	}
	switch record.Outcome {
	case history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout, history.OutcomeReset:
		if k <= int32(record.Failures) {
			return record.Outcome
		}
	case history.OutcomePermanent, history.OutcomeLogical:
		return record.Outcome
	case history.OutcomeExhausted:
		return history.OutcomeTransient
	}
	return history.OutcomeSuccess
}

// answer is a prepared HTTP response; status 0 is no answer at all.
type answer struct {
	status     int
	body       []byte
	text       string // of the error
	retryAfter string
	// waits is what retryAfter says, as a duration.
	waits time.Duration
}

// newAnswers prepares the answer to every outcome an attempt can have.
func newAnswers(errorText string, retryAfter time.Duration) (map[history.Outcome]answer, error) {
	answers := map[history.Outcome]answer{
		history.OutcomeSuccess: {status: fasthttp.StatusOK, body: []byte(`{"status":"processed"}`)},
		history.OutcomeTimeout: {}, history.OutcomeReset: {},
	}
	for outcome, class := range failures() {
		text, err := dress(class.text, errorText)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(struct {
			Error string `json:"error"`
			Class string `json:"class"`
		}{text, class.class})
		if err != nil {
			return nil, fmt.Errorf("preparing the stub's answers: %w", err)
		}
		answers[outcome] = answer{status: class.status, body: body, text: text}
	}
	limited := answers[history.OutcomeRateLimited]
	limited.retryIn(retryAfter)
	answers[history.OutcomeRateLimited] = limited
	return answers, nil
}

// failed is an answer that is no success.
type failed struct {
	status      int
	class, text string
}

// failures are the answers to the outcomes that are none. Each has a text that no other has part of, so that whoever
// quotes it names the outcome.
func failures() map[history.Outcome]failed {
	return map[history.Outcome]failed{
		history.OutcomeTransient:   {fasthttp.StatusServiceUnavailable, "transient", "the stock service is overloaded"},
		history.OutcomeRateLimited: {fasthttp.StatusTooManyRequests, "rate-limited", "too many requests for this customer"},
		history.OutcomePermanent:   {fasthttp.StatusBadRequest, "permanent", "the order has no delivery address"},
		history.OutcomeLogical:     {fasthttp.StatusUnprocessableEntity, "logical", "the order was cancelled"},
		history.OutcomeUnknownID:   {fasthttp.StatusNotFound, "unknown-id", "the body carries no record id of this run"},
	}
}

// Quoted returns the outcomes whose answers one of the texts quotes, in their order.
func Quoted(texts ...string) []history.Outcome {
	var quoted []history.Outcome
	for outcome, one := range failures() {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, one.text) }) {
			quoted = append(quoted, outcome)
		}
	}
	slices.Sort(quoted)
	return quoted
}

// retryIn asks the client to wait. The header has whole seconds (RFC 9110, 10.2.3): rounded up, so that a client that
// waits as told never comes early.
func (a *answer) retryIn(wait time.Duration) {
	seconds := (wait + time.Second - 1) / time.Second
	a.retryAfter, a.waits = strconv.FormatInt(int64(seconds), 10), seconds*time.Second
}

// longText is the length in bytes of error texts of the kind "long".
const longText = 4 << 10

// dress makes an error text of the kind the plan asks for.
func dress(text, kind string) (string, error) {
	switch kind {
	case "", "plain":
		return text, nil
	case "non-ascii":
		return text + ": Größenüberschreitung – 在庫サービスが応答しません ⚠ 🚚", nil
	case "long":
		long := text + ": " + strings.Repeat("at stock.Client.reserve(Client.java:42); ", longText/40)
		return long[:longText], nil
	case "hostile":
		return text + "\r\nx-retry-attempt: 99\r\n\r\n\x00\"';-- \\ <script>alert(1)</script> {{.}} " +
			"${jndi:ldap://127.0.0.1/x} \u2028 \x1b[31m", nil
	case "outage":
		return text + ": the circuit breaker is open, the service is down for maintenance", nil
	}
	return "", fmt.Errorf(
		"preparing the stub's answers: %q is not a kind of error text: plain, non-ascii, long, hostile or outage", kind)
}
