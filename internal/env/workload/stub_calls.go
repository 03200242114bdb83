package workload

// Which requests are attempts, where they carry a record's id, and what other calls are answered.

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Part is a part of a request.
type Part string

// The parts of a request that can carry a record's id, in the order in which they are searched.
const (
	InPath   Part = "path"
	InQuery  Part = "query"
	InHeader Part = "header"
	InBody   Part = "body"
)

// Calls describe a downstream over HTTP. The usual one is that of UsualCalls.
type Calls struct {
	// Method and Path are those of attempts; "" stands for any.
	Method, Path string
	// In is the part of the request that carries the record's id; "" for any.
	In Part
	// Name limits InHeader and InQuery to one header or parameter.
	Name string
	// At limits InBody to a place in a body of JSON, or in a form as JSON; the zero value stands for the whole body.
	At samples.Place
	// Batch: a call is an attempt at each record whose id is in its body, at the place if there is one.
	Batch bool
	// Items is the answer to a call for several records that is not refused as a whole, nil if it has no items. Its body
	// may hold the values of ItemsBody, and each item those of an answer's body and ItemIndex.
	Items *Items
	// Answers replace the usual answers to outcomes.
	Answers map[history.Outcome]Response
	// Routes have a fixed answer. They are no attempts.
	Routes []Route
	// First and Last are the calls that begin and end an attempt of several calls; nil where each call is an attempt.
	// Only their methods and paths count.
	First, Last *Route
	// HTTP1: it speaks HTTP/1.1 alone.
	HTTP1 bool
	// Told: the history tells the method and path of each attempt.
	Told bool
}

// Response is an HTTP response. For an outcome, Status 0 and Body nil stand for the usual ones, and the body may hold
// BodyID and BodyError.
type Response struct {
	Status  int
	Headers map[string]string
	Body    *string
}

// The values in the body of an answer: the record's id, and the text of the error, escaped for a JSON string.
const (
	BodyID    = "{{.ID}}"
	BodyError = "{{.Error}}"
)

// Items is an HTTP response with an item for each element of a call. Status 0 stands for 200.
type Items struct {
	Response
	// Lines is the number of lines of an element, where the body of a call has no list of JSON; 0 stands for 1.
	Lines int
	// Each has the item of an outcome; "" stands for no item. Those of OutcomeTransient and OutcomePermanent stand in for
	// the other failures.
	Each map[history.Outcome]string
}

// Route is a call with a fixed answer. Method "" stands for any, * in Path for one segment. With Forward the answer is
// that of another stub, if there is one.
type Route struct {
	Method, Path string
	Response     Response
	Forward      bool
	// Attempt: its calls belong to attempts. Those that succeed have the fixed answer.
	Attempt bool
}

func (r *Route) matches(method, path string) bool {
	return (r.Method == "" || r.Method == method) && matches(r.Path, path)
}

// UsualCalls is the downstream of consumers that are written for it: POST /v1/attempt with the record's value.
func UsualCalls() *Calls { return &Calls{Method: http.MethodPost, Path: attemptPath, In: InBody} }

// healthRoute answers that the stub is up, in every downstream.
func healthRoute() Route {
	return Route{Path: healthPath, Response: Response{Status: http.StatusOK}}
}

// route returns the route of a call, nil if there is none.
func (c *Calls) route(method, path string) *Route {
	for i := range c.Routes {
		if one := &c.Routes[i]; one.matches(method, path) {
			return one
		}
	}
	return nil
}

// role returns the role of a call in attempts of several calls.
func (c *Calls) role(method, path string) CallRole {
	switch {
	case c.First == nil:
	case c.First.matches(method, path):
		return CallFirst
	case c.Last.matches(method, path):
		return CallLast
	}
	return CallAmong
}

// planned reports whether the plan decides the answer to the calls of a route.
func (c *Calls) planned(route *Route, method, path string) bool {
	return route.Attempt || c.role(method, path) != CallAmong
}

// matches reports whether a path has the pattern, in which * stands for one segment that is not empty.
func matches(pattern, path string) bool {
	for {
		piece, patternRest, more := strings.Cut(pattern, "/")
		segment, rest, further := strings.Cut(path, "/")
		if more != further || piece != segment && (piece != "*" || segment == "") {
			return false
		}
		if !more {
			return true
		}
		pattern, path = patternRest, rest
	}
}

// find returns the record whose id the request carries where it is expected.
func (c *Calls) find(r *call, ids *history.IDs) (int32, bool) {
	for _, part := range []Part{InPath, InQuery, InHeader, InBody} {
		if c.In != "" && c.In != part {
			continue
		}
		if seq, found := c.findIn(part, r, ids); found {
			return seq, true
		}
	}
	return 0, false
}

// several reports whether the body of a call for the record has the id of another record, too. Where a place in the
// body is given, only that counts.
func (c *Calls) several(r *call, ids *history.IDs, record int32) bool {
	return !c.Batch && (c.In == "" || c.In == InBody) && c.At.IsZero() &&
		(ids.HasOther(r.body, record) || ids.HasOther(r.form(), record))
}

func (c *Calls) findIn(part Part, r *call, ids *history.IDs) (seq int32, found bool) {
	switch part {
	case InPath:
		return ids.Find([]byte(r.URL.Path))
	case InQuery:
		return c.findInQuery(r.URL, ids)
	case InHeader:
		return c.findInHeader(r.Header, ids)
	}
	if c.At.IsZero() {
		if seq, found = ids.Find(r.body); found {
			return seq, true
		}
		return ids.Find(r.form())
	}
	body := r.form()
	if body == nil {
		body = r.body
	}
	spot, err := c.At.Find(body)
	if err != nil {
		return 0, false // what stands there is not an id, whatever it is
	}
	return ids.Find([]byte(spot.Text))
}

func (c *Calls) findInHeader(header http.Header, ids *history.IDs) (int32, bool) {
	if c.Name != "" {
		return ids.Find([]byte(header.Get(c.Name)))
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if seq, found := ids.Find([]byte(value)); found {
				return seq, true
			}
		}
	}
	return 0, false
}

// findInQuery searches the query as it was sent, then decoded: an id in base64 may have escaped characters.
func (c *Calls) findInQuery(target *url.URL, ids *history.IDs) (seq int32, found bool) {
	query := target.RawQuery
	if query == "" {
		return 0, false
	}
	if c.Name != "" {
		return ids.Find([]byte(target.Query().Get(c.Name)))
	}
	if seq, found = ids.Find([]byte(query)); found || !strings.Contains(query, "%") {
		return seq, found
	}
	decoded, err := url.PathUnescape(query) // a plus sign stays one
	if err != nil {
		return 0, false
	}
	return ids.Find([]byte(decoded))
}

// toldPath is the maximum length of a path in the history, in bytes.
const toldPath = 120

// tell notes a call that the event describes: whether it named a record, so that others like it need not.
func (s *Stub) tell(event *history.Event) {
	switch {
	case s.unnamed(event):
		s.Stray(event.Text)
	case s.unidentified:
		s.Named(event.Text)
	}
}

// told describes a call. The record's id, if it was found, is left out of it, so that the calls of all records read the
// same.
func (s *Stub) told(r *call, record int32, found bool) string {
	path := s.path(r, record, found)
	if len(path) > toldPath {
		path = path[:toldPath] + "…"
	}
	text := strings.Map(func(char rune) rune {
		if char < ' ' || char >= 0x7f && char < 0xa0 {
			return '\uFFFD'
		}
		return char
	}, r.Method+" "+path)
	return strings.ToValidUTF8(text, "\uFFFD")
}

// path is the path of a call, in which {id} stands for the record's id, if that was found.
func (s *Stub) path(r *call, record int32, found bool) string {
	if !found {
		return r.URL.Path
	}
	return strings.ReplaceAll(r.URL.Path, s.cfg.IDs.Token(record), "{id}")
}

// fixed answers a call as its route says.
func (s *Stub) fixed(w http.ResponseWriter, call *call, r *Route) {
	if r.Forward && s.forwards() {
		s.forward.call(call).write(w)
		return
	}
	var body []byte
	if r.Response.Body != nil {
		body = []byte(*r.Response.Body)
	}
	respond(w, r.Response.Status, r.Response.Headers, body)
}
