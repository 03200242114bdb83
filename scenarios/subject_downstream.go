package scenarios

// What a real service calls while it processes a record: any route of its own, with answers of its own.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Downstream is a service that the subject calls while it processes a record. Exactly one kind is given.
type Downstream struct {
	// Name is how faults, addresses and traces name it; default: its kind.
	Name string `json:"name,omitempty" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	// Decides: its calls are the attempts to process a record, with the outcomes that a scenario plans. Default: the
	// first of the list decides. The others answer well, unless a fault breaks them.
	Decides bool `json:"decides,omitempty"`
	// Optional: a record may succeed although its call here failed. It goes with a downstream that does not decide.
	Optional bool                `json:"optional,omitempty"`
	HTTP     *HTTPDownstream     `json:"http,omitempty"`
	GRPC     *GRPCDownstream     `json:"grpc,omitempty"`
	Kafka    *KafkaDownstream    `json:"kafka,omitempty"`
	Postgres *PostgresDownstream `json:"postgres,omitempty"`
}

// kinds returns the kinds that are given.
func (d Downstream) kinds() (all []string) {
	for _, one := range []struct {
		kind  string
		given bool
	}{{"http", d.HTTP != nil}, {"grpc", d.GRPC != nil}, {"kafka", d.Kafka != nil}, {"postgres", d.Postgres != nil}} {
		if one.given {
			all = append(all, one.kind)
		}
	}
	return all
}

// Kind returns its kind: http, grpc, kafka or postgres.
func (d Downstream) Kind() string { return strings.Join(d.kinds(), "") }

// Secure reports whether it is reached by TLS.
func (d Downstream) Secure() bool { return d.HTTP != nil && d.HTTP.TLS || d.GRPC != nil && d.GRPC.TLS }

// Called returns the name by which faults, addresses and traces name it.
func (d Downstream) Called() string { return cmp.Or(d.Name, d.Kind()) }

// HTTPDownstream is a service over HTTP. A call with a record's id, of any method and path, is an attempt to process
// that record, and is answered as the scenario plans.
type HTTPDownstream struct {
	// ID is where a call carries the record's id. Default: anywhere; path, query, headers and body are searched in that
	// order.
	ID *CallID `json:"id,omitempty"`
	// Batch: a call is an attempt at each record whose id is in its body (id.at limits that to a part of it), such as a
	// bulk insert. It takes effect for all of them or for none, unless it has items. Default: a call is for one record.
	Batch bool `json:"batch,omitempty"`
	// Items: the answer to a call for several records says of each what became of it. Default: it is one for all.
	Items *Items `json:"items,omitempty"`
	// TLS: it is reached by TLS, with a certificate of an authority that each run makes: {{.CAFile}}.
	TLS bool `json:"tls,omitempty"`
	// HTTP2: false if it speaks HTTP/1.1 alone; default: it speaks HTTP/2 with clients that ask for it.
	HTTP2 bool `json:"http2,omitempty"`
	// Answers are the answers to attempts by outcome, where they differ from the usual ones.
	Answers Answers `json:"answers,omitempty"`
	// Forward is the address of a stub of your own on this machine, such as http://127.0.0.1:8080 or
	// http://{{.Needs.wiremock}}. It answers attempts that are to succeed, and calls that are neither attempts nor routes.
	Forward string `json:"forward,omitempty" jsonschema:"minLength=1"`
	// Attempt: an attempt to process a record has several calls. Default: each call is an attempt.
	Attempt *AttemptCalls `json:"attempt,omitempty"`
	// Routes are calls with a fixed answer, which are no attempts: tokens, health, look-ups. The first that matches
	// answers.
	Routes []Route `json:"routes,omitempty"`
}

// AttemptCalls are the calls of an attempt. Each is a method and a path, such as GET /customers/*, or a path alone.
// Over gRPC it is a method, such as /acme.v1.Customers/Get.
type AttemptCalls struct {
	// First is the call that begins an attempt.
	First string `json:"first" jsonschema:"required,pattern=^([A-Z]+ )?/"`
	// Last is the call with whose answer an attempt ends, if no call before it was refused.
	Last string `json:"last" jsonschema:"required,pattern=^([A-Z]+ )?/"`
}

// CallPattern returns the method ("" for any) and the path of a call of AttemptCalls.
func CallPattern(text string) (method, path string) {
	if method, path, found := strings.Cut(text, " "); found {
		return method, path
	}
	return "", text
}

// UnmarshalJSON reads a downstream over its defaults.
func (h *HTTPDownstream) UnmarshalJSON(data []byte) error {
	type plain HTTPDownstream
	filled := plain{HTTP2: true}
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*h = HTTPDownstream(filled)
	return nil
}

// ForwardTo returns the address that calls go on to, nil if they go nowhere. It is an address of this machine.
func (h *HTTPDownstream) ForwardTo(values Values) (*url.URL, error) {
	if h == nil || h.Forward == "" {
		return nil, nil
	}
	text, err := renderText(h.Forward, values)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(text)
	if err != nil || to.Scheme != "http" || to.Port() == "" || to.RawQuery != "" || to.User != nil {
		return nil, fmt.Errorf("%q does not name a stub: write it as http://127.0.0.1:8080", text)
	}
	if ip := net.ParseIP(to.Hostname()); to.Hostname() != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is on another machine: dlqbench calls only this one, such as 127.0.0.1", to.Host)
	}
	return to, nil
}

// The parts of a request that can carry a record's id.
const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InBody   = "body"
)

// CallID is where a call carries a record's id.
type CallID struct {
	// In: path, query, header or body.
	In string `json:"in" jsonschema:"required,enum=path,enum=query,enum=header,enum=body"`
	// Name of the header, or of the parameter in the query; default: any.
	Name string `json:"name,omitempty"`
	// At is the path to a string in a body of JSON, such as $.orderId, or to a field of a form, such as $.order_id;
	// default: anywhere in the body.
	At string `json:"at,omitempty"`
}

// Answers are answers to attempts by outcome.
type Answers struct {
	Success     *Answer `json:"success,omitempty"`
	Transient   *Answer `json:"transient,omitempty"`
	RateLimited *Answer `json:"rate_limited,omitempty"`
	Permanent   *Answer `json:"permanent,omitempty"`
	Logical     *Answer `json:"logical,omitempty"`
}

// Answer is an HTTP response. What is left out is as usual.
type Answer struct {
	Status  int               `json:"status,omitempty" jsonschema:"minimum=200,maximum=599"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body may have {{.ID}}, the record's id, and {{.Error}}, the text of the error, escaped for a JSON string.
	Body *string `json:"body,omitempty"`
}

// The values in an answer's body.
const (
	AnswerID    = "{{.ID}}"
	AnswerError = "{{.Error}}"
)

// Route is a call with a fixed answer.
type Route struct {
	// Method, such as GET; default: any.
	Method string `json:"method,omitempty" jsonschema:"pattern=^[A-Z]+$"`
	// Path of the call; * stands for one segment, as in /customers/*/address.
	Path    string            `json:"path" jsonschema:"required,pattern=^/"`
	Status  int               `json:"status,omitempty" jsonschema:"minimum=200,maximum=599"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Forward: the stub of your own (forward) answers it, although it has a record's id.
	Forward bool `json:"forward,omitempty"`
	// Attempt: its calls belong to attempts, and those that succeed have this answer. The calls that begin and end an
	// attempt do so without it.
	Attempt bool `json:"attempt,omitempty"`
}

// UnmarshalJSON reads a route over its defaults.
func (r *Route) UnmarshalJSON(data []byte) error {
	type plain Route
	*r = Route{Status: 200}
	return json.Unmarshal(data, (*plain)(r))
}

// ByOutcome are the answers that are given.
func (a *Answers) ByOutcome() map[history.Outcome]*Answer {
	return byOutcome(a.Success, a.Transient, a.RateLimited, a.Permanent, a.Logical)
}

// byOutcome are those of the answers that are given (not nil), whatever they are made over.
func byOutcome[A any](success, transient, rateLimited, permanent, logical *A) map[history.Outcome]*A {
	all := map[history.Outcome]*A{
		history.OutcomeSuccess: success, history.OutcomeTransient: transient, history.OutcomeRateLimited: rateLimited,
		history.OutcomePermanent: permanent, history.OutcomeLogical: logical,
	}
	maps.DeleteFunc(all, func(_ history.Outcome, one *A) bool { return one == nil })
	return all
}

// deciding returns the index of the downstream that decides.
func (s *SubjectFile) deciding() int {
	return max(slices.IndexFunc(s.Downstreams, func(d Downstream) bool { return d.Decides }), 0)
}

// Called returns what the subject calls, the downstream that decides first and the one that takes the dead letters
// last: one of no kind if that is the usual one.
func (s *SubjectFile) Called() []Downstream {
	if len(s.Downstreams) == 0 {
		return []Downstream{{}}
	}
	at := s.deciding()
	all := slices.Concat(s.Downstreams[at:at+1], s.Downstreams[:at], s.Downstreams[at+1:])
	slices.SortStableFunc(all, func(a, b Downstream) int { return cmp.Compare(s.last(a), s.last(b)) })
	return all
}

// last is 1 for the downstream that takes the dead letters, else 0.
func (s *SubjectFile) last(d Downstream) int {
	if letters := s.Letters(); letters != "" && d.Called() == letters {
		return 1
	}
	return 0
}

// decides returns the downstream that decides, with no kind if that is the usual one.
func (s *SubjectFile) decides() Downstream { return s.Called()[0] }

// HTTP returns the downstream over routes of the subject's own whose calls are attempts, nil if another one decides.
func (s *SubjectFile) HTTP() *HTTPDownstream { return s.decides().HTTP }

// GRPC returns the gRPC service whose calls are attempts, nil if another downstream decides.
func (s *SubjectFile) GRPC() *GRPCDownstream { return s.decides().GRPC }

// Postgres returns the database whose transactions are attempts, nil if another downstream decides.
func (s *SubjectFile) Postgres() *PostgresDownstream { return s.decides().Postgres }

// usualAnswers are the statuses of the answers to outcomes, and the classes that these outcomes have.
func usualAnswers() []classed { return usual("503", "429", "400", "422") }

// usual are the outcomes that have an answer, which these are, and their classes.
func usual(transient, rateLimited, permanent, logical string) []classed {
	return []classed{
		{history.OutcomeTransient, transient, "retryable"}, {history.OutcomeRateLimited, rateLimited, "retryable"},
		{history.OutcomePermanent, permanent, "permanent"}, {history.OutcomeLogical, logical, "logical"},
	}
}

// givenOr puts the answers that are given in the place of the usual ones; code is "" for one that does not say it.
func givenOr[A any](given map[history.Outcome]*A, code func(*A) string, usual []classed) []classed {
	for i := range usual {
		if one := given[usual[i].outcome]; one != nil {
			usual[i].answer = cmp.Or(code(one), usual[i].answer)
		}
	}
	return usual
}

// classed is an outcome, its answer (an HTTP status, the name of an error of Kafka's, or an SQLSTATE) and its class.
type classed struct {
	outcome history.Outcome
	answer  string
	class   string
}

// looksWell reports whether the answer alone does not tell that it is a failure.
func (c classed) looksWell() bool { return len(c.answer) == 3 && c.answer < "300" }

// attemptCalls returns the calls of an attempt that has several, nil where each call is an attempt.
func (s *SubjectFile) attemptCalls() *AttemptCalls {
	if http := s.HTTP(); http != nil {
		return http.Attempt
	}
	if grpc := s.GRPC(); grpc != nil {
		return grpc.Attempt
	}
	return nil
}

// answers are the answers that the subject gets.
func (s *SubjectFile) answers() []classed {
	if output := s.Kafka(); output != nil {
		return output.answers()
	}
	if postgres := s.Postgres(); postgres != nil {
		return postgres.answers()
	}
	if grpc := s.GRPC(); grpc != nil {
		return grpc.answers()
	}
	if http := s.HTTP(); http != nil {
		return givenOr(http.Answers.ByOutcome(), (*Answer).status, usualAnswers())
	}
	return usualAnswers()
}

// status is the status as a text, "" for the usual one.
func (a *Answer) status() string {
	if a.Status == 0 {
		return ""
	}
	return strconv.Itoa(a.Status)
}

// AnswerTo returns the answer to an outcome as classes name it: an HTTP status, the name of an error of Kafka's, an
// SQLSTATE, "timeout" or "reset"; "" for an outcome that is no answer.
func (s *SubjectFile) AnswerTo(outcome history.Outcome) string {
	switch outcome {
	case history.OutcomeTimeout, history.OutcomeReset:
		return outcome.String()
	}
	for _, one := range s.answers() {
		if one.outcome == outcome {
			return one.answer
		}
	}
	return ""
}

// Limits of a downstream.
const (
	maxRoutes = 100
	maxAnswer = 64 << 10
)

// maxDownstreams bounds the downstreams of a subject.
const maxDownstreams = 8

func (c *checker) checkDownstreams(s *SubjectFile, folder string) {
	const path = "/downstreams"
	addresses := map[string]bool{}
	for _, one := range s.Downstreams {
		if one.Kafka == nil {
			addresses[one.Called()] = true
		}
	}
	c.checkNamed(c.root, "DownstreamURLs", "downstreams that has an address", addresses)
	if !slices.ContainsFunc(s.Downstreams, Downstream.Secure) {
		c.checkAbsent(c.root, `\.(CAFile|CATrustStore)\b`, "there is no authority, because nothing in downstreams has TLS: "+
			"write tls: true there, under http or grpc")
	}
	if !c.has(path) || !c.allSound(path) {
		return
	}
	switch {
	case len(s.Downstreams) == 0:
		c.at(path, "there is no downstream in the list: leave downstreams out, or add one, such as - http: {}")
		return
	case len(s.Downstreams) > maxDownstreams:
		c.at(fmt.Sprintf("%s/%d", path, maxDownstreams), "there can be %d downstreams at most", maxDownstreams)
		return
	case s.Observe == ObserveWire:
		c.at(path, "observe: wire says that the subject makes no calls that can be watched: keep one of the two")
		return
	}
	names, deciding := map[string]int{}, s.deciding()
	for i, one := range s.Downstreams {
		at := fmt.Sprintf("%s/%d", path, i)
		if len(one.kinds()) != 1 {
			c.at(at, "a downstream is of one kind: write http, grpc, kafka or postgres")
			return
		}
		c.checkAmongOthers(at, s, i, names)
		switch decides := i == deciding; {
		case one.Kafka != nil:
			c.checkKafka(at+"/kafka", one.Kafka)
		case one.GRPC != nil:
			c.checkGRPC(at+"/grpc", one.GRPC, decides, folder, s)
		case one.HTTP != nil:
			c.checkHTTP(at+"/http", one.HTTP, decides, s)
		default:
			c.checkPostgres(at+"/postgres", one.Postgres, decides, s)
		}
	}
}

// checkAmongOthers checks what makes a downstream one of several. names are those of the downstreams before it.
func (c *checker) checkAmongOthers(at string, s *SubjectFile, i int, names map[string]int) {
	one := s.Downstreams[i]
	name := one.Called()
	if before, taken := names[name]; taken {
		path := at
		if one.Name != "" {
			path += "/name"
		}
		c.at(path, "downstreams[%d] is called %s already: give each a name of its own (name: ledger)", before, name)
	} else {
		names[name] = i
	}
	c.refuseIf(one.Decides && i != s.deciding(), at+"/decides",
		"downstreams[%d] decides already: keep the one whose answer says what becomes of a record", s.deciding())
	c.refuseIf(one.Optional && i == s.deciding(), at+"/optional", "this downstream decides what becomes of a record, so "+
		"its calls can't be optional: let another one decide (decides: true), or leave optional out")
	if other := s.database(); one.Postgres != nil && one.Postgres != other {
		c.at(at, "there can be one database: keep the one that the subject writes its results to, and leave the other out")
	}
}

// database returns the first database of the list, nil if there is none.
func (s *SubjectFile) database() *PostgresDownstream {
	for _, one := range s.Downstreams {
		if one.Postgres != nil {
			return one.Postgres
		}
	}
	return nil
}

func (c *checker) checkHTTP(path string, http *HTTPDownstream, decides bool, s *SubjectFile) {
	if id := http.ID; id != nil {
		c.refuseIf(id.Name != "" && id.In != InQuery && id.In != InHeader, path+"/id/name",
			"a %s has no names: name goes with in: query and in: header", id.In)
		c.refuseIf(id.At != "" && id.In != InBody, path+"/id/at",
			"at is a path into a body of JSON or into a form: it goes with in: body")
		if _, err := samples.ParsePlace(id.At); id.At != "" && err != nil {
			c.at(path+"/id/at", "%s; for the field order_id of a form, it is $.order_id", err)
		}
	}
	for outcome, one := range http.Answers.ByOutcome() {
		c.checkAnswer(path+"/answers/"+outcomeKey(outcome), outcome, one)
	}
	if decides {
		c.checkAnswersAgree(path+"/answers/", "/status", s)
	}
	if _, err := http.ForwardTo(Values{}); err != nil && !strings.Contains(http.Forward, "{{") {
		c.at(path+"/forward", "%s", err)
	}
	c.checkHTTPAttempt(path, http, decides, s)
	c.checkBatch(path, http, decides, s)
	c.refuseIf(len(http.Routes) > maxRoutes, fmt.Sprintf("%s/routes/%d", path, maxRoutes),
		"there can be %d routes at most", maxRoutes)
	for i, route := range http.Routes {
		at := fmt.Sprintf("%s/routes/%d", path, i)
		c.checkHeaders(at, route.Headers)
		c.refuseIf(route.Forward && http.Forward == "", at+"/forward",
			"there is no stub to forward it to: write its address as forward beside routes")
		c.refuseIf(len(route.Body) > maxAnswer, at+"/body", "a body can have %d KiB at most", maxAnswer>>10)
		c.refuseIf(strings.ContainsAny(route.Path, "?#"), at+"/path",
			"a route is told by its path alone: leave out what begins with ? or #")
	}
}

// checkHTTPAttempt checks what belongs to an attempt, and how its calls are answered that succeed.
func (c *checker) checkHTTPAttempt(path string, http *HTTPDownstream, decides bool, s *SubjectFile) {
	for i, route := range http.Routes {
		at := fmt.Sprintf("%s/routes/%d", path, i)
		if route.Attempt {
			c.checkDecides(at+"/attempt", decides)
		}
		c.refuseIf(route.Status >= 300 && (route.Attempt || http.Attempt.has(route)), at+"/status", "%d is no success, but "+
			"these calls belong to attempts, and have this answer when they succeed: write a status from 200 to 299",
			route.Status)
	}
	if http.Attempt == nil || !c.checkAttemptCalls(path+"/attempt", http.Attempt, decides, s) {
		return
	}
	for _, one := range http.Attempt.keyed() {
		switch _, pattern := CallPattern(one.call); {
		case strings.ContainsAny(pattern, "?# "):
			c.at(path+"/attempt/"+one.key, "a call is told by its method and path alone, such as GET /customers/*")
		case pattern == "/healthz":
			c.at(path+"/attempt/"+one.key, "dlqbench answers /healthz itself: name a call that carries a record's id")
		}
	}
}

// has reports whether the calls of a route are, as written, those that begin or end an attempt.
func (a *AttemptCalls) has(route Route) bool {
	return a != nil && slices.ContainsFunc(a.keyed(), func(one keyedCall) bool {
		method, path := CallPattern(one.call)
		return path == route.Path && (method == "" || route.Method == "" || method == route.Method)
	})
}

// keyedCall is a call of an attempt, with its key in the file.
type keyedCall struct{ key, call string }

func (a *AttemptCalls) keyed() []keyedCall { return []keyedCall{{"first", a.First}, {"last", a.Last}} }

// checkDecides checks that the calls of a downstream can belong to attempts.
func (c *checker) checkDecides(path string, decides bool) bool {
	c.refuseIf(!decides, path,
		"the calls of this downstream are no attempts: leave attempt out, or let it decide (decides: true)")
	return decides
}

// checkAttemptCalls checks the calls that begin and end an attempt, whatever they are made over.
func (c *checker) checkAttemptCalls(path string, attempt *AttemptCalls, decides bool, s *SubjectFile) bool {
	if !c.checkDecides(path, decides) {
		return false
	}
	c.refuseIf(s.Contract.Retry == string(history.RetryTopics), path, "with retry topics, a process may handle two "+
		"copies of a record at once, and nothing tells their calls apart: make the other calls routes, so that each attempt "+
		"is one call")
	c.refuseIf(attempt.First == attempt.Last, path+"/last", "the last call is the first one, too, so each call is an "+
		"attempt: leave attempt out, or name the call that completes a record")
	return true
}

// checkAnswer checks one answer by itself.
func (c *checker) checkAnswer(path string, outcome history.Outcome, one *Answer) {
	c.checkHeaders(path, one.Headers)
	status := one.Status
	switch {
	case status == 0:
	case outcome == history.OutcomeSuccess && status >= 300:
		c.at(path+"/status", "%d is no success: write a status from 200 to 299", status)
	case outcome == history.OutcomeLogical && status >= 300 && status < 400:
		c.at(path+"/status",
			"%d is a redirection: write a status from 400 to 599, or from 200 to 299 if the body tells the failure", status)
	case outcome != history.OutcomeSuccess && outcome != history.OutcomeLogical && status < 400:
		c.at(path+"/status", "%d tells nobody that it failed: write a status from 400 to 599", status)
	}
	if body := one.Body; body != nil {
		c.checkText(path+"/body", *body, "the body of an answer", []string{AnswerID, AnswerError})
		c.refuseIf(outcome == history.OutcomeSuccess && strings.Contains(*body, AnswerError), path+"/body",
			"a success has no %s", AnswerError)
	}
}

// checkHeaders checks the names and values of an answer's headers.
func (c *checker) checkHeaders(path string, headers map[string]string) {
	for _, name := range c.names(path + "/headers") {
		n := c.root.get(path + "/headers").fields[name]
		switch lower := strings.ToLower(name); {
		case n.bad:
		case name == "" || strings.ContainsFunc(name, notInToken):
			c.add(n.key, fmt.Sprintf("%q can't be the name of an HTTP header", name), "")
		case slices.Contains([]string{"content-length", "transfer-encoding", "connection", "retry-after"}, lower):
			c.add(n.key, fmt.Sprintf("the header %s is set by dlqbench: leave it out", name), "")
		case strings.ContainsAny(headers[name], "\r\n\x00") || len(headers[name]) > maxRecordHeader:
			c.add(n.at, fmt.Sprintf("the value of a header is one line of %d bytes at most", maxRecordHeader), "")
		}
	}
}

// notInToken reports whether a name of a header can't have the character (RFC 9110, 5.6.2).
func notInToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || bytes.ContainsRune([]byte(`"(),/:;<=>?@[\]{}`), r)
}

// checkAnswersAgree holds the answers to the contract's classes, by which an answer is retryable or final. The
// answer to an outcome stands at path, the outcome and key.
func (c *checker) checkAnswersAgree(path, key string, s *SubjectFile) {
	if !c.allSound("/contract") {
		return
	}
	lists, listed := s.Contract.Classes.lists(), map[string]string{}
	for name, list := range lists {
		for _, written := range list {
			listed[string(written)] = name
		}
	}
	earlier := map[string]classed{}
	for _, one := range s.answers() {
		at, class := path+outcomeKey(one.outcome)+key, listed[one.answer]
		before, taken := earlier[one.answer]
		earlier[one.answer] = one
		if taken && before.class != one.class {
			if !c.has(at) {
				at = path + outcomeKey(before.outcome) + key
			}
			c.at(at, "%s and %s are both answered %s, but one is %s and the other %s: answer one of them otherwise",
				before.outcome, one.outcome, one.answer, before.class, one.class)
			continue
		}
		given, list := c.has(at), lists[one.class]
		switch {
		case one.looksWell() && list == nil: // a failure that only the body tells has its outcome's class
		case one.looksWell():
			c.at(at, "%s is answered %s, which only the body tells from a success: leave contract.classes.%s out", one.outcome,
				one.answer, one.class)
		case given && class != "" && class != one.class:
			c.at(at, "%s is answered %s, which contract.classes.%s lists: list %s in %s, or answer otherwise", one.outcome,
				one.answer, class, one.answer, one.class)
		case class == "" && (given && list != nil || one.outcome != history.OutcomeRateLimited && s.neverAnswered(list)):
			c.at(at, "%s is answered %s, which contract.classes does not list: add %s to %s, or answer with one that it lists",
				one.outcome, one.answer, one.answer, one.class)
		}
	}
}

// neverAnswered reports whether a class lists answers, and none of them is given.
func (s *SubjectFile) neverAnswered(list []StatusOrName) bool {
	codes := 0
	for _, written := range list {
		if written.named() != history.OutcomeNone {
			continue
		}
		codes++
		if outcomes, err := written.outcomes(s.answers()); err != nil || len(outcomes) > 0 {
			return false
		}
	}
	return codes > 0
}
