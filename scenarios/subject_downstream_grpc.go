package scenarios

// A gRPC service that a real service calls while it processes a record.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// GRPCDownstream is a gRPC service. A call with a record's id is an attempt to process that record, and is answered as
// the scenario plans. In a stream from the client, each message is an attempt.
type GRPCDownstream struct {
	// Schema is the file with the service, relative to this file: a .proto, which may import what lies beside it, or a
	// set of descriptors. Without it, answers are empty messages, and ids are found as text only.
	Schema string `json:"schema,omitempty"`
	// Method is the only one whose calls are attempts, such as /acme.v1.Payments/Charge; default: any.
	Method string `json:"method,omitempty" jsonschema:"pattern=^/[^/]+/[^/]+$"`
	// At is where a request carries the record's id, in its JSON form, such as $.order.id. Default: anywhere in the
	// request, or in the call's metadata.
	At string `json:"at,omitempty"`
	// TLS: it is reached by TLS, with a certificate of an authority that each run makes: {{.CAFile}}.
	TLS bool `json:"tls,omitempty"`
	// Answers are the answers to attempts by outcome, where they differ from the usual ones: UNAVAILABLE for transient,
	// RESOURCE_EXHAUSTED for rate_limited, INVALID_ARGUMENT for permanent, FAILED_PRECONDITION for logical.
	Answers GRPCAnswers `json:"answers,omitempty"`
	// Attempt: an attempt to process a record has several calls. Default: each call is an attempt.
	Attempt *AttemptCalls `json:"attempt,omitempty"`
	// Routes are methods with a fixed answer, whose calls are no attempts.
	Routes []GRPCRoute `json:"routes,omitempty"`
	// Methods are those of Schema by full name.
	Methods map[string]protoreflect.MethodDescriptor `json:"-"`
}

// GRPCAnswers are answers to attempts by outcome.
type GRPCAnswers struct {
	Success     *GRPCAnswer `json:"success,omitempty"`
	Transient   *GRPCAnswer `json:"transient,omitempty"`
	RateLimited *GRPCAnswer `json:"rate_limited,omitempty"`
	Permanent   *GRPCAnswer `json:"permanent,omitempty"`
	Logical     *GRPCAnswer `json:"logical,omitempty"`
}

// GRPCAnswer is the end of a call.
type GRPCAnswer struct {
	// Code is the status, such as UNAVAILABLE; default: the usual one.
	Code GRPCCode `json:"code,omitempty"`
	// Message is the text of a failure; default: one of dlqbench's.
	Message string `json:"message,omitempty" jsonschema:"maxLength=1024"`
	// Body is the response to an OK in JSON; default: an empty message. It may have {{.ID}}, the record's id, and
	// {{.Error}}, the text of the error.
	Body string `json:"body,omitempty"`
}

// GRPCRoute is a method with a fixed answer.
type GRPCRoute struct {
	// Method, such as /acme.v1.Tokens/Issue.
	Method  string   `json:"method" jsonschema:"required,pattern=^/[^/]+/[^/]+$"`
	Code    GRPCCode `json:"code,omitempty"`
	Message string   `json:"message,omitempty" jsonschema:"maxLength=1024"`
	Body    string   `json:"body,omitempty"`
	// Attempt: its calls belong to attempts, and those that succeed have this answer. The calls that begin and end an
	// attempt do so without it.
	Attempt bool `json:"attempt,omitempty"`
}

// GRPCCode is the name of a status of gRPC.
type GRPCCode string

// grpcCodes returns the names of all statuses, by their codes.
func grpcCodes() []string {
	return []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
}

// SchemaText is the JSON Schema of a status.
func (GRPCCode) SchemaText() string {
	names, _ := json.Marshal(grpcCodes()) // texts never fail
	return `{"description": "A status of gRPC, such as UNAVAILABLE.", "type": "string", "enum": ` + string(names) + `}`
}

// Value returns the code, codes.OK for "".
func (c GRPCCode) Value() codes.Code { return codes.Code(max(slices.Index(grpcCodes(), string(c)), 0)) }

// ByOutcome are the answers that are given.
func (a *GRPCAnswers) ByOutcome() map[history.Outcome]*GRPCAnswer {
	return byOutcome(a.Success, a.Transient, a.RateLimited, a.Permanent, a.Logical)
}

// answers are the statuses that the subject gets as answers.
func (g *GRPCDownstream) answers() []classed {
	return givenOr(g.Answers.ByOutcome(), func(one *GRPCAnswer) string { return string(one.Code) },
		usual("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "FAILED_PRECONDITION"))
}

// Codes are the statuses of the answers by outcome.
func (g *GRPCDownstream) Codes() map[history.Outcome]codes.Code {
	all := map[history.Outcome]codes.Code{history.OutcomeSuccess: codes.OK}
	for _, one := range g.answers() {
		all[one.outcome] = GRPCCode(one.answer).Value()
	}
	return all
}

func (c *checker) checkGRPC(path string, g *GRPCDownstream, decides bool, folder string, s *SubjectFile) {
	if g.Schema != "" {
		var err error
		if g.Methods, err = format.Methods(within(folder, g.Schema)); err != nil {
			c.at(path+"/schema", "%s", err)
			return
		}
	}
	c.checkMethod(g, path+"/method", g.Method)
	if g.At != "" {
		if _, err := samples.ParsePlace(g.At); err != nil {
			c.at(path+"/at", "%s", err)
		} else if g.Methods == nil {
			c.at(path+"/at", "at is a place in the JSON form of a request, which only a schema gives it: add schema, such as "+
				"schema: payments.proto")
		}
	}
	for outcome, one := range g.Answers.ByOutcome() {
		c.checkGRPCAnswer(path, g, outcome, one)
	}
	c.checkGRPCAttempt(path, g, decides, s)
	for i, route := range g.Routes {
		at := fmt.Sprintf("%s/routes/%d", path, i)
		c.checkMethod(g, at+"/method", route.Method)
		c.refuseIf(strings.Contains(route.Body, "{{"), at+"/body", "a route is for no record: its body knows no values")
		c.checkResponse(g, at, []string{route.Method}, GRPCAnswer{Code: route.Code, Message: route.Message, Body: route.Body})
	}
	if decides {
		c.checkAnswersAgree(path+"/answers/", "/code", s)
	}
}

// checkGRPCAttempt checks what belongs to an attempt, and how its calls are answered that succeed.
func (c *checker) checkGRPCAttempt(path string, g *GRPCDownstream, decides bool, s *SubjectFile) {
	for i, route := range g.Routes {
		at := fmt.Sprintf("%s/routes/%d", path, i)
		if route.Attempt {
			c.checkDecides(at+"/attempt", decides)
		}
		c.refuseIf(g.planned(route) && route.Code.Value() != codes.OK, at+"/code",
			"%s is no success, but these calls belong to attempts, and have this answer when they succeed: leave it out",
			route.Code)
	}
	if g.Attempt == nil || !c.checkAttemptCalls(path+"/attempt", g.Attempt, decides, s) {
		return
	}
	c.refuseIf(g.Method != "", path+"/method",
		"method says that only its calls are attempts, and attempt that they have several calls: leave method out")
	for _, one := range g.Attempt.keyed() {
		at := path + "/attempt/" + one.key
		switch piece := strings.Split(one.call, "/"); {
		case len(piece) != 3 || piece[0] != "" || piece[1] == "" || piece[2] == "":
			c.at(at, "%q is no method of gRPC: write it as /acme.v1.Payments/Charge", one.call)
		case one.call == grpc_health_v1.Health_Check_FullMethodName:
			c.at(at, "dlqbench answers the health itself: name a method whose calls carry a record's id")
		default:
			c.checkMethod(g, at, one.call)
		}
	}
}

// checkMethod checks that the schema has a method.
func (c *checker) checkMethod(g *GRPCDownstream, at, method string) {
	if method == "" || g.Methods == nil || g.Methods[method] != nil {
		return
	}
	known := slices.Sorted(maps.Keys(g.Methods))
	suggestion := cmp.Or(hint(method, known), "known here: "+strings.Join(known, ", "))
	c.hinted(at, fmt.Sprintf("%s has no method %s", g.Schema, method), suggestion)
}

func (c *checker) checkGRPCAnswer(path string, g *GRPCDownstream, outcome history.Outcome, one *GRPCAnswer) {
	at := path + "/answers/" + outcomeKey(outcome)
	succeeds := one.Code == "OK" || one.Code == "" && outcome == history.OutcomeSuccess
	switch {
	case outcome == history.OutcomeSuccess && !succeeds:
		c.at(at+"/code", "%s is no success: leave it out", one.Code)
	case outcome != history.OutcomeSuccess && outcome != history.OutcomeLogical && succeeds:
		c.at(at+"/code", "OK tells nobody that it failed: write another status, such as UNAVAILABLE")
	case outcome == history.OutcomeSuccess && strings.Contains(one.Body, AnswerError):
		c.at(at+"/body", "a success has no %s", AnswerError)
	}
	c.refuseIf(strings.Contains(strings.NewReplacer(AnswerID, "", AnswerError, "").Replace(one.Body), "{{"), at+"/body",
		"the body of an answer knows no other values than %s and %s", AnswerID, AnswerError)
	answer := *one
	if !succeeds && answer.Code == "" {
		answer.Code = "UNKNOWN" // any that is not OK
	}
	c.checkResponse(g, at, g.answered(outcome), answer)
}

// answered returns the methods of the schema whose calls have the answer to an outcome.
func (g *GRPCDownstream) answered(outcome history.Outcome) []string {
	if g.Method != "" {
		return []string{g.Method}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g.Methods)), func(method string) bool {
		return slices.ContainsFunc(g.Routes, func(route GRPCRoute) bool {
			return route.Method == method && (outcome == history.OutcomeSuccess || !g.planned(route))
		})
	})
}

// planned reports whether the calls of a route belong to attempts.
func (g *GRPCDownstream) planned(route GRPCRoute) bool {
	return route.Attempt || g.Attempt != nil && (g.Attempt.First == route.Method || g.Attempt.Last == route.Method)
}

// checkResponse checks that a body fits the responses of methods.
func (c *checker) checkResponse(g *GRPCDownstream, at string, methods []string, answer GRPCAnswer) {
	succeeds := answer.Code == "" || answer.Code == "OK"
	switch {
	case !succeeds && answer.Body != "":
		c.at(at+"/body", "a failure has a message and no body")
	case succeeds && answer.Message != "":
		c.at(at+"/message", "a success has a body and no message")
	case answer.Body == "":
	case g.Methods == nil:
		c.at(at+"/body",
			"a body is written in JSON, which only a schema turns into a message: add schema, such as schema: payments.proto")
	default:
		body := strings.NewReplacer(AnswerID, "0", AnswerError, "").Replace(answer.Body)
		for _, method := range methods {
			if g.Methods[method] == nil {
				continue
			}
			if _, err := format.Response(g.Methods[method], body); err != nil {
				wayOut := ""
				if len(methods) > 1 {
					wayOut = fmt.Sprintf("; if this is not the answer of %s, give that method one of its own under routes (with "+
						"attempt: true, its calls are attempts)", method)
				}
				c.at(at+"/body", "%s%s", err, wayOut)
				return
			}
		}
	}
}
