package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"
)

const (
	attemptPath = "/v1/attempt"
	// maxAnswer is the maximum size of the downstream's response. Error texts in it are for humans.
	maxAnswer = 64 << 10
)

// HTTPHandler returns a handler that processes a record by one POST of its value to {base}/v1/attempt, with its
// position in the headers X-Kafka-Topic, X-Kafka-Partition and X-Kafka-Offset. One attempt is one request: the client
// never repeats a request by itself.
//
// 2xx is a success, and 422 a logical failure. 429 is retryable, no earlier than its Retry-After. 408 and 5xx are
// retryable. Any other 4xx is permanent (404 too: the downstream does not know such a record). A timeout or a broken
// connection is retryable.
func HTTPHandler(base string) (Handler, error) {
	target, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("reading the downstream's address: %w", err)
	}
	if (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return nil, fmt.Errorf("reading the downstream's address: %q is no http:// or https:// URL", base)
	}
	address := target.Host
	if target.Port() == "" {
		address = target.Hostname() + map[string]string{"http": ":80", "https": ":443"}[target.Scheme]
	}
	client := &fasthttp.HostClient{
		Addr: address, IsTLS: target.Scheme == "https", NoDefaultUserAgentHeader: true, MaxConns: 2 * maxConcurrency,
		MaxIdemponentCallAttempts: 1, MaxResponseBodySize: maxAnswer, DisablePathNormalizing: true,
		DialTimeout: func(address string, timeout time.Duration) (net.Conn, error) {
			return net.DialTimeout("tcp", address, timeout)
		},
	}
	uri := strings.TrimSuffix(target.String(), "/") + attemptPath
	return func(ctx context.Context, record *kgo.Record) error { return post(ctx, client, uri, record) }, nil
}

func post(ctx context.Context, client *fasthttp.HostClient, uri string, record *kgo.Record) error {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	request.SetRequestURI(uri)
	request.Header.SetMethod(fasthttp.MethodPost)
	request.Header.SetContentType("application/octet-stream")
	request.Header.Set("X-Kafka-Topic", record.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(int(record.Partition)))
	request.Header.Set("X-Kafka-Offset", strconv.FormatInt(record.Offset, 10))
	request.SetBodyRaw(record.Value)
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if deadline, ok := ctx.Deadline(); ok {
		err = client.DoDeadline(request, response, deadline)
	} else {
		err = client.Do(request, response)
	}
	if errors.Is(err, fasthttp.ErrTimeout) {
		return &Error{Name: nameTimeout, Err: errors.New("calling the downstream: no answer in time")}
	}
	if err != nil {
		return &Error{Name: nameNetwork, Err: fmt.Errorf("calling the downstream: %w", err)}
	}
	return judge(response)
}

// judge converts a response to an error.
func judge(response *fasthttp.Response) error {
	status := response.StatusCode()
	if status >= 200 && status < 300 {
		return nil
	}
	failure := &Error{Class: Permanent, Name: statusName(status), Code: strconv.Itoa(status),
		Err: errors.New(errorText(status, response.Body()))}
	switch {
	case status == http.StatusUnprocessableEntity:
		failure.Class = Logical
	case status == http.StatusTooManyRequests:
		failure.Class = Retryable
		failure.RetryAfter = parseRetryAfter(string(response.Header.Peek("Retry-After")), time.Now())
	case status == http.StatusRequestTimeout, status >= 500:
		failure.Class = Retryable
	}
	return failure
}

// statusName returns the name of the kind of error that a status stands for.
func statusName(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return nameRateLimit
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return nameTimeout
	case http.StatusServiceUnavailable:
		return nameUnavailable
	case http.StatusUnauthorized, http.StatusForbidden:
		return namePermission
	case http.StatusNotFound:
		return nameNotFound
	}
	if status >= 500 {
		return nameServer
	}
	return nameValidation
}

// errorText returns the text of a {"error": "…"} body, or the status if there is none.
func errorText(status int, body []byte) string {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		return answer.Error
	}
	return fmt.Sprintf("the downstream answered %d %s", status, http.StatusText(status))
}

// maxRetryAfter is the maximum wait that a downstream can ask for.
const maxRetryAfter = time.Hour

// parseRetryAfter parses seconds (fractions allowed) or an HTTP date. It returns 0 if the text is neither.
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(seconds > 0) { // true for NaN as well
			return 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}
