package workload

// Which requests are attempts, where they carry a record's id, and what other calls are answered.

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

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
	// At limits InBody to a place in a body of JSON; the zero value stands for the whole body.
	At samples.Place
	// Answers replace the usual answers to outcomes.
	Answers map[history.Outcome]Response
	// Routes have a fixed answer. They are no attempts.
	Routes []Route
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

// Route is a call with a fixed answer. Method "" stands for any, * in Path for one segment.
type Route struct {
	Method, Path string
	Response     Response
}

// UsualCalls is the downstream of consumers that are written for it: POST /v1/attempt with the record's value.
func UsualCalls() *Calls { return &Calls{Method: fasthttp.MethodPost, Path: attemptPath, In: InBody} }

// healthRoute answers that the stub is up, in every downstream.
func healthRoute() Route {
	return Route{Path: healthPath, Response: Response{Status: fasthttp.StatusOK}}
}

// route returns the route of a call, nil if there is none.
func (c *Calls) route(method, path string) *Route {
	for i := range c.Routes {
		if one := &c.Routes[i]; (one.Method == "" || one.Method == method) && matches(one.Path, path) {
			return one
		}
	}
	return nil
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
func (c *Calls) find(ctx *fasthttp.RequestCtx, ids *history.IDs) (int32, bool) {
	for _, part := range []Part{InPath, InQuery, InHeader, InBody} {
		if c.In != "" && c.In != part {
			continue
		}
		if seq, found := c.findIn(part, ctx, ids); found {
			return seq, true
		}
	}
	return 0, false
}

// several reports whether the body of a call for the record has the id of another record, too. Where a place in the
// body is given, only that counts.
func (c *Calls) several(ctx *fasthttp.RequestCtx, ids *history.IDs, record int32) bool {
	return (c.In == "" || c.In == InBody) && c.At.IsZero() && ids.HasOther(ctx.PostBody(), record)
}

func (c *Calls) findIn(part Part, ctx *fasthttp.RequestCtx, ids *history.IDs) (seq int32, found bool) {
	switch part {
	case InPath:
		return ids.Find(ctx.Path())
	case InQuery:
		return c.findInQuery(ctx, ids)
	case InHeader:
		if c.Name != "" {
			return ids.Find(ctx.Request.Header.Peek(c.Name))
		}
		ctx.Request.Header.VisitAll(func(_, value []byte) {
			if !found {
				seq, found = ids.Find(value)
			}
		})
		return seq, found
	}
	body := ctx.PostBody()
	if c.At.IsZero() {
		return ids.Find(body)
	}
	spot, err := c.At.Find(body)
	if err != nil {
		return 0, false // what stands there is not an id, whatever it is
	}
	return ids.Find([]byte(spot.Text))
}

// findInQuery searches the query as it was sent, then decoded: an id in base64 may have escaped characters.
func (c *Calls) findInQuery(ctx *fasthttp.RequestCtx, ids *history.IDs) (seq int32, found bool) {
	query := ctx.URI().QueryString()
	if len(query) == 0 {
		return 0, false
	}
	if c.Name != "" {
		return ids.Find(ctx.QueryArgs().Peek(c.Name))
	}
	if seq, found = ids.Find(query); found || !bytes.ContainsRune(query, '%') {
		return seq, found
	}
	decoded, err := url.PathUnescape(string(query)) // a plus sign stays one
	if err != nil {
		return 0, false
	}
	return ids.Find([]byte(decoded))
}

// toldPath is the maximum length of a path in the history, in bytes.
const toldPath = 120

// told describes a call. The record's id, if it was found, is left out of it, so that the calls of all records read the
// same.
func (s *Stub) told(ctx *fasthttp.RequestCtx, record int32, found bool) string {
	path := string(ctx.Path())
	if found {
		path = strings.ReplaceAll(path, s.cfg.IDs.Token(record), "{id}")
	}
	if len(path) > toldPath {
		path = path[:toldPath] + "…"
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, string(ctx.Method())+" "+path)
	return strings.ToValidUTF8(text, "\uFFFD")
}

// write answers a call as its route says.
func (r *Route) write(ctx *fasthttp.RequestCtx) {
	ctx.SetStatusCode(r.Response.Status)
	writeHeaders(ctx, r.Response.Headers)
	if r.Response.Body != nil {
		ctx.SetBodyString(*r.Response.Body)
	}
}

// writeHeaders sets the headers of an answer. Without another word a body is JSON.
func writeHeaders(ctx *fasthttp.RequestCtx, headers map[string]string) {
	ctx.SetContentType("application/json")
	for name, value := range headers {
		ctx.Response.Header.Set(name, value)
	}
}
