package run

import (
	"net/http"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/scenarios"
)

// What a subject file says of its downstream reaches the stub, and both know the same values in bodies.
func TestDeclaredCallsReachTheStub(t *testing.T) {
	if scenarios.AnswerID != workload.BodyID || scenarios.AnswerError != workload.BodyError {
		t.Error("subject files and the stub name the values in bodies differently")
	}
	subject, err := scenarios.ParseSubject("s.yaml", []byte(`
name: s
kind: process
command: [s]
downstreams:
  - http:
      id: {in: body, at: $.order.id}
      answers: {success: {status: 201, headers: {Location: /x}}, rate_limited: {body: "{{.Error}}"}}
      routes: [{method: POST, path: /token, body: t}, {path: /a/*, status: 204}]
`))
	if err != nil {
		t.Fatal(err)
	}
	calls := (&run{options: Options{Subject: subject}}).calls()
	if calls.In != workload.InBody || calls.At.String() != "$.order.id" || calls.Method+calls.Path != "" || !calls.Told {
		t.Errorf("calls are %+v", calls)
	}
	success, limited := calls.Answers[history.OutcomeSuccess], calls.Answers[history.OutcomeRateLimited]
	if success.Status != 201 || success.Body != nil || success.Headers["Location"] != "/x" || limited.Status != 0 ||
		*limited.Body != "{{.Error}}" || len(calls.Answers) != 2 {
		t.Errorf("answers are %+v", calls.Answers)
	}
	if len(calls.Routes) != 2 || calls.Routes[0].Method != http.MethodPost || calls.Routes[0].Response.Status != 200 ||
		*calls.Routes[0].Response.Body != "t" || calls.Routes[1].Response.Status != 204 {
		t.Errorf("routes are %+v", calls.Routes)
	}
	for _, none := range []*scenarios.SubjectFile{nil, {}} {
		if calls := (&run{options: Options{Subject: none}}).calls(); calls != nil {
			t.Errorf("without a word about calls they are %+v", calls)
		}
	}
}
