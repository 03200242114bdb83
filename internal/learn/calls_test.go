package learn

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

// about is a call with a record's id at these places.
func about(record int32, method, path string, where ...workload.CallPlace) workload.Called {
	return workload.Called{Method: method, Path: path, Record: record, Where: where}
}

// other is a call without an id.
func other(method, path string) workload.Called {
	return workload.Called{Method: method, Path: path, Record: history.None}
}

var (
	inPath   = workload.CallPlace{In: workload.InPath}
	inHeader = workload.CallPlace{In: workload.InHeader, Name: "Idempotency-Key"}
	inBody   = workload.CallPlace{In: workload.InBody, At: "$.order.id"}
	inQuery  = workload.CallPlace{In: workload.InQuery, Name: "order"}
)

func TestWhatIsCalled(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, success string
		calls         []workload.Called
		want          string
	}{
		{"nothing", "", nil, "http: {}"},
		{"nothing, and the answer that was given", "body: '{}'", nil, "answers: {success: {body: '{}'}}"},
		{"the id in the path, and for tracing in a header", "", []workload.Called{
			about(1, "PUT", "/payments/{id}", inPath, inHeader), about(2, "PUT", "/payments/{id}", inPath, inHeader)},
			"# 2 calls with a record's id: PUT /payments/*.\nid: {in: path}"},
		{"a body before a header", "", []workload.Called{about(1, "POST", "/charges", inHeader, inBody)},
			"# 1 call with a record's id: POST /charges.\nid: {in: body, at: $.order.id}"},
		{"a query", "status: 201", []workload.Called{about(1, "GET", "/find", inQuery)},
			"# 1 call with a record's id: GET /find.\nid: {in: query, name: order}\nanswers: {success: {status: 201}}"},
		{"a header alone", "", []workload.Called{about(1, "POST", "/a", inHeader), about(2, "POST", "/a", inHeader)},
			"# 2 calls with a record's id: POST /a.\nid: {in: header, name: Idempotency-Key}"},
		{"no place that all share", "", []workload.Called{about(1, "POST", "/a", inHeader), about(2, "PUT", "/b/{id}", inPath)},
			"# 2 calls with a record's id: POST /a, PUT /b/*."},
		{"an attempt of several calls", "", []workload.Called{
			about(1, "GET", "/customers/{id}", inPath), about(1, "PUT", "/payments/{id}", inPath),
			about(2, "GET", "/customers/{id}", inPath), about(2, "PUT", "/payments/{id}", inPath)},
			"# 4 calls with a record's id: GET /customers/*, PUT /payments/*.\nid: {in: path}\n" +
				"# A record that succeeded got 2 calls, which make one attempt.\n" +
				"attempt: {first: \"GET /customers/*\", last: \"PUT /payments/*\"}"},
		{"the same call twice", "", []workload.Called{
			about(1, "PUT", "/a/{id}", inPath), about(1, "PUT", "/a/{id}", inPath)},
			"# 2 calls with a record's id: PUT /a/*.\nid: {in: path}"},
		{"calls about records without a readable id", "", []workload.Called{about(1, "POST", "/v1/attempt", inBody),
			other("POST", "/v1/attempt"), about(2, "PUT", "/a/{id}", inPath), other("PUT", "/a/x"), other("PUT", "/a/y"),
			other("PUT", "/a/z")}, "# 2 calls with a record's id: POST /v1/attempt, PUT /a/*."},
		{"calls for several records", "", []workload.Called{about(1, "POST", "/orders/_bulk", inBody),
			bulk(2, "POST", "/orders/_bulk"), about(2, "POST", "/audit", inBody)},
			"# 3 calls with a record's id: POST /orders/_bulk, POST /audit.\n" +
				"# Calls had the ids of several records in their bodies, so each is an attempt at all of them.\nbatch: true\n" +
				"# If the answers say of each record what became of it, as those of bulk APIs do, describe them under items\n" +
				"# (docs/real-services.md): a consumer that looks at the status alone loses records there."},
		{"tokens and look-ups", "", []workload.Called{about(1, "PUT", "/a/{id}", inPath), other("POST", "/oauth/token"),
			other("GET", "/customers/7"), other("GET", "/customers/8"), other("GET", "/customers/9")},
			"# 1 call with a record's id: PUT /a/*.\nid: {in: path}\n" +
				"# Calls without a record's id. While it was watched they were answered so: put in what they expect.\nroutes:\n" +
				"  - {method: GET, path: \"/customers/*\", body: '{}'} # 3 calls\n" +
				"  - {method: POST, path: /oauth/token, body: '{\"access_token\": \"dlqbench\", \"token_type\": \"Bearer\", " +
				"\"expires_in\": 3600}'} # 1 call"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			var calls []run.DownstreamCall
			for _, call := range one.calls {
				calls = append(calls, run.DownstreamCall{Downstream: "shop", Called: call})
			}
			sorted := trafficOf(calls)["shop"]
			if sorted == nil {
				sorted = &traffic{}
			}
			have := sorted.text("", scenarios.Downstream{HTTP: &scenarios.HTTPDownstream{}}, one.success,
				func(int32) bool { return true })
			if want := strings.TrimPrefix(one.want, "http:\n"); strings.TrimPrefix(have, "http:\n") != want {
				t.Errorf("wrote\n%s\nwant\n%s", have, want)
			}
		})
	}
}

// bulk is a call for the record and for others.
func bulk(record int32, method, path string) workload.Called {
	called := about(record, method, path, inBody)
	called.Several = true
	return called
}

// A route that is first called after an unreadable record was sent may be about that record. One that readable records
// led to before is not, whatever its variable segment holds.
func TestRoutesThatMayBeAboutUnreadableRecords(t *testing.T) {
	t.Parallel()
	const sent = 5 * time.Second
	at := func(when time.Duration, method, path string) workload.Called {
		call := other(method, path)
		call.At = when
		return call
	}
	for name, one := range map[string]struct {
		others   []workload.Called
		doubtful bool
	}{
		"none":               {nil, false},
		"a token before it":  {[]workload.Called{at(1, "POST", "/token"), at(sent+1, "POST", "/token")}, false},
		"a token after it":   {[]workload.Called{at(sent, "POST", "/token")}, true},
		"its id is missing":  {[]workload.Called{at(sent+1, "PUT", "/payments/undefined")}, true},
		"its bytes are text": {[]workload.Called{at(sent+1, "PUT", "/payments/\xff\xfe")}, true},
		"one more of many": {[]workload.Called{at(1, "GET", "/c/1"), at(2, "GET", "/c/2"), at(3, "GET", "/c/3"),
			at(sent+1, "GET", "/c/undefined")}, false},
	} {
		called := &traffic{about: []workload.Called{about(1, "PUT", "/payments/{id}", inPath)}, others: one.others}
		if have := called.doubtful(sent); have != one.doubtful {
			t.Errorf("%s: doubtful %v", name, have)
		}
	}
}

func TestWhatIsCalledOverGRPC(t *testing.T) {
	t.Parallel()
	call := func(record int32, path string, places ...workload.CallPlace) run.DownstreamCall {
		called := workload.Called{Path: path, Media: workload.MediaGRPC, Record: record, Where: places}
		return run.DownstreamCall{Called: called}
	}
	for _, one := range []struct {
		name, success string
		calls         []run.DownstreamCall
		want          string
	}{
		{"nothing", "", []run.DownstreamCall{{}}, "tls: true\nschema: shop.proto"},
		{"one method, and tokens", "body: '{}'", []run.DownstreamCall{call(1, "/a.P/Charge", inBody),
			call(2, "/a.P/Charge", inBody), call(history.None, "/a.T/Issue"), call(history.None, "/a.P/Charge")},
			"tls: true\nschema: shop.proto\n# 2 calls with a record's id: /a.P/Charge.\nmethod: /a.P/Charge\nat: $.order.id\n" +
				"answers: {success: {body: '{}'}}\n" +
				"# Calls without a record's id. While it was watched they were answered so: put in what they expect.\nroutes:\n" +
				"  - {method: /a.T/Issue, body: '{}'} # 1 call"},
		{"an attempt of several calls, with the id in metadata", "", []run.DownstreamCall{
			call(1, "/a.C/Get"), call(1, "/a.P/Charge"), call(2, "/a.C/Get"), call(2, "/a.P/Charge")},
			"tls: true\nschema: shop.proto\n# 4 calls with a record's id: /a.C/Get, /a.P/Charge.\n" +
				"# A record that succeeded got 2 calls, which make one attempt.\n" +
				"attempt: {first: /a.C/Get, last: /a.P/Charge}"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			sorted := trafficOf(one.calls)[""]
			if one.calls[0].Path == "" {
				sorted = &traffic{}
			}
			have := sorted.text("", scenarios.Downstream{GRPC: &scenarios.GRPCDownstream{Schema: "shop.proto", TLS: true}},
				one.success, func(int32) bool { return true })
			if strings.TrimPrefix(have, "grpc:\n") != one.want {
				t.Errorf("wrote\n%s\nwant\n%s", have, one.want)
			}
		})
	}
}

// Calls over gRPC can't be described without their .proto file.
func TestCallsOverGRPC(t *testing.T) {
	t.Parallel()
	call := workload.Called{Method: "POST", Path: "/bank.Payments/Charge", Media: "application/grpc+proto",
		Record: history.None}
	sorted := trafficOf([]run.DownstreamCall{{Called: call}, {Called: call}})[""]
	if len(sorted.rpc) != 1 || sorted.rpc[0] != call.Path || len(sorted.others) > 0 {
		t.Errorf("%+v", sorted)
	}
}
