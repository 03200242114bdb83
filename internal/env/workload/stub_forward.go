package workload

// Calls that go on to a stub of the user's, which answers in the place of this one.

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// forwardLimit bounds the time that the user's stub has for an answer.
const forwardLimit = 30 * time.Second

// forward sends calls on to another stub. It is safe for concurrent use.
type forward struct {
	to     atomic.Pointer[url.URL] // nil if there is none
	client *http.Client
	failed faulty
}

func newForward() *forward {
	return &forward{client: &http.Client{
		Timeout: forwardLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ForwardTo makes the stub at an address answer the attempts that are planned to succeed, the calls that are neither
// attempts nor routes, and routes that say so.
func (s *Stub) ForwardTo(to *url.URL) { s.forward.to.Store(to) }

func (s *Stub) forwards() bool { return s.forward.to.Load() != nil }

// Unforwarded returns the number of calls that the other stub did not answer, and why it did not answer the first.
func (s *Stub) Unforwarded() (count int64, first string) { return s.forward.failed.told() }

// passOn has the other stub answer a call without a record's id. Where there are records that no call can name, it may
// be an attempt at one of them, unless a route says that it is none.
func (s *Stub) passOn(w http.ResponseWriter, r *call, event *history.Event, perhaps bool) {
	perhaps = perhaps && s.unidentified && s.cfg.Other == 0
	if perhaps {
		s.Begin(event, 0, false)
	}
	answer := s.forward.call(r)
	if perhaps {
		event.Outcome, event.Code = history.OutcomeUnknownID, int16(answer.status)
		s.End(event, r.Context().Err() != nil)
	}
	answer.write(w)
}

// forwarded is the other stub's answer.
type forwarded struct {
	status int
	header http.Header
	body   []byte
}

// call sends a call on, as it was sent. Without an answer it returns 502.
func (f *forward) call(r *call) *forwarded {
	answer, err := f.send(r)
	if err != nil {
		if r.Context().Err() == nil { // otherwise the client has left
			f.failed.add(err.Error())
		}
		return &forwarded{http.StatusBadGateway, http.Header{}, []byte(`{"error":"the forwarded call got no answer"}`)}
	}
	return answer
}

func (f *forward) send(r *call) (*forwarded, error) {
	to := *f.to.Load()
	to.Path, to.RawPath = joined(&to, r.URL)
	to.RawQuery = r.URL.RawQuery
	request, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(bytes.Clone(r.raw)))
	if err != nil {
		return nil, fmt.Errorf("sending %s on: %w", r.URL.Path, err)
	}
	request.Header = endToEnd(r.Header)
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", r.URL.Path, err)
	}
	return &forwarded{response.StatusCode, endToEnd(response.Header), body}, nil
}

// joined returns the path of a call below that of the stub's address, and its escaped form.
func joined(to, call *url.URL) (path, raw string) {
	whole := to.JoinPath(call.EscapedPath())
	return whole.Path, whole.RawPath
}

// endToEnd returns the headers that are for the other end, not for this connection (RFC 9110, 7.6.1).
func endToEnd(header http.Header) http.Header {
	kept := header.Clone()
	for _, list := range header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			kept.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"} {
		kept.Del(name)
	}
	return kept
}

func (f *forwarded) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), f.header)
	if len(f.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body) // the client may be gone, or the status has no body
}

// outcome returns what the answer says: what the declared answer with its status stands for, or else what the status
// means in HTTP.
func (f *forwarded) outcome(answers map[history.Outcome]answer) history.Outcome {
	if f.status < http.StatusBadRequest {
		return history.OutcomeSuccess
	}
	for _, one := range []history.Outcome{history.OutcomeRateLimited, history.OutcomePermanent, history.OutcomeLogical} {
		if answers[one].status == f.status {
			return one
		}
	}
	switch {
	case f.status == http.StatusTooManyRequests:
		return history.OutcomeRateLimited
	case f.status == http.StatusRequestTimeout, f.status >= http.StatusInternalServerError:
		return history.OutcomeTransient
	}
	return history.OutcomePermanent
}
