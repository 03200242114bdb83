package workload

// The answers of the downstream stub: a pure function of the plan, and the error texts that end up in dead letters'
// headers.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// decide returns the planned outcome of the k-th attempt of a record (k from 1; attempts answered by a fault do not
// count). A record that was replayed and is planned to fail again continues with its original plan.
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

// answer is a prepared HTTP response; status 0 means no answer at all.
type answer struct {
	status  int
	headers map[string]string
	// body is the pieces of the body between which the record's id stands; the first may be the whole.
	body       [][]byte
	text       string // of the error
	retryAfter string
	// waits is retryAfter as a duration.
	waits time.Duration
	// forwarded is the answer of another stub, which is given as it is.
	forwarded *forwarded
}

// bodyFor returns the body of an answer to an attempt of the record.
func (a *answer) bodyFor(ids *history.IDs, record int32) []byte {
	if len(a.body) == 1 {
		return a.body[0]
	}
	var id []byte
	if record >= 0 {
		id = ids.Append(nil, record)
	}
	return bytes.Join(a.body, id)
}

// newAnswers prepares the answer to every possible outcome of an attempt: the usual one, as far as given does not
// replace it.
func newAnswers(given map[history.Outcome]Response, errorText string,
	retryAfter time.Duration) (map[history.Outcome]answer, error) {
	answers := map[history.Outcome]answer{history.OutcomeTimeout: {}, history.OutcomeReset: {}}
	usual := failures()
	usual[history.OutcomeSuccess] = failed{status: http.StatusOK}
	for outcome, class := range usual {
		text, err := dress(class.text, errorText)
		if err != nil {
			return nil, err
		}
		body, err := usualBody(outcome, text, class.class)
		if err != nil {
			return nil, fmt.Errorf("preparing the stub's answers: %w", err)
		}
		one := answer{status: class.status, text: text, body: [][]byte{body}}
		replaced, found := given[outcome]
		if found {
			one.replace(replaced)
		}
		if errorText == textPage && replaced.Body == nil {
			one.intercept(outcome)
		}
		answers[outcome] = one
	}
	limited := answers[history.OutcomeRateLimited]
	limited.retryIn(retryAfter)
	answers[history.OutcomeRateLimited] = limited
	return answers, nil
}

// intercept puts the page of a gateway in the place of an answer that one gives, too: that the service is unavailable,
// or called too often. Answers that only the service itself can give stay as they are.
func (a *answer) intercept(outcome history.Outcome) {
	byGateway := outcome == history.OutcomeTransient || outcome == history.OutcomeRateLimited
	if !byGateway || a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests {
		return
	}
	title := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	page := fmt.Sprintf("<!DOCTYPE html>\r\n<html>\r\n<head><title>%s</title></head>\r\n"+
		"<body>\r\n<h1>%[1]s</h1>\r\n<p>%s</p>\r\n</body>\r\n</html>\r\n", title, html.EscapeString(a.text))
	a.headers = maps.Clone(a.headers)
	if a.headers == nil {
		a.headers = map[string]string{}
	}
	a.headers["Content-Type"], a.body = "text/html", [][]byte{[]byte(page)}
}

// usualBody is the body of an answer where nothing else is asked for.
func usualBody(outcome history.Outcome, text, class string) ([]byte, error) {
	if outcome == history.OutcomeSuccess {
		return []byte(`{"status":"processed"}`), nil
	}
	return json.Marshal(struct {
		Error string `json:"error"`
		Class string `json:"class"`
	}{text, class})
}

// replace puts what is given in the place of the usual answer. A status without a body has none.
func (a *answer) replace(given Response) {
	a.headers = given.Headers
	a.status = cmp.Or(given.Status, a.status)
	switch {
	case given.Body != nil:
		filled := strings.ReplaceAll(*given.Body, BodyError, escaped(a.text))
		a.body = nil
		for piece := range strings.SplitSeq(filled, BodyID) {
			a.body = append(a.body, []byte(piece))
		}
	case a.status == http.StatusNoContent || a.status == http.StatusResetContent:
		a.body = [][]byte{nil}
	}
}

// failed is an answer that reports a failure.
type failed struct {
	status      int
	class, text string
}

// failures are the answers to the outcomes other than success. No text contains part of another, so a text that
// quotes one identifies the outcome.
func failures() map[history.Outcome]failed {
	return map[history.Outcome]failed{
		history.OutcomeTransient:   {http.StatusServiceUnavailable, "transient", "the stock service is overloaded"},
		history.OutcomeRateLimited: {http.StatusTooManyRequests, "rate-limited", "too many requests for this customer"},
		history.OutcomePermanent:   {http.StatusBadRequest, "permanent", "the order has no delivery address"},
		history.OutcomeLogical:     {http.StatusUnprocessableEntity, "logical", "the order was cancelled"},
		history.OutcomeUnknownID:   {http.StatusNotFound, "unknown-id", "the request carries no record id of this run"},
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

// retryIn asks the client to wait. The header has whole seconds (RFC 9110, 10.2.3). They are rounded up, so that a
// client that obeys never comes early.
func (a *answer) retryIn(wait time.Duration) {
	seconds := (wait + time.Second - 1) / time.Second
	a.retryAfter, a.waits = strconv.FormatInt(int64(seconds), 10), seconds*time.Second
}

// longText is the length in bytes of error texts of the kind "long".
const longText = 4 << 10

// textPage is the kind of error texts that stand in the page of a gateway, where it answers in the service's place.
const textPage = "page"

// textKinds are the kinds of error texts.
func textKinds() []string {
	return []string{"plain", "non-ascii", "long", "hostile", "outage", textPage}
}

// dress creates an error text of the kind that the plan asks for.
func dress(text, kind string) (string, error) {
	switch kind {
	case "", "plain", textPage:
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
		"preparing the stub's answers: %q is not a kind of error text: plain, non-ascii, long, hostile, outage or page", kind)
}
