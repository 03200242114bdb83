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
	told := calls(subject.HTTP())
	if told.In != workload.InBody || told.At.String() != "$.order.id" || told.Method+told.Path != "" || !told.Told {
		t.Errorf("calls are %+v", told)
	}
	success, limited := told.Answers[history.OutcomeSuccess], told.Answers[history.OutcomeRateLimited]
	if success.Status != 201 || success.Body != nil || success.Headers["Location"] != "/x" || limited.Status != 0 ||
		*limited.Body != "{{.Error}}" || len(told.Answers) != 2 {
		t.Errorf("answers are %+v", told.Answers)
	}
	if len(told.Routes) != 2 || told.Routes[0].Method != http.MethodPost || told.Routes[0].Response.Status != 200 ||
		*told.Routes[0].Response.Body != "t" || told.Routes[1].Response.Status != 204 {
		t.Errorf("routes are %+v", told.Routes)
	}
	if none := calls((&scenarios.SubjectFile{}).HTTP()); none != nil {
		t.Errorf("without a word about calls they are %+v", none)
	}
}
