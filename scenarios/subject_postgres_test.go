package scenarios

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func TestProblemsOfDatabases(t *testing.T) {
	const contract = "contract: {classes: {retryable: [40001, 53300, timeout, reset], permanent: [22P02], logical: " +
		"[P0001]}}\n"
	for _, one := range [][2]string{
		{"downstreams: [{postgres: {}}]", ""},
		{contract + "downstreams: [{postgres: {}}]", ""},
		{"downstreams: [{postgres: {answers: {transient: {sqlstate: 40P01}}}}]", ""},
		{"downstreams: [{postgres: {answers: {permanent: {sqlstate: 23505}}}}]", ""},
		{"downstreams: [{postgres: {answers: {transient: {sqlstate: 08006}}}}]", ""},
		{"downstreams: [{postgres: {url: \"postgres://me:p%40w@db.example:5432/orders\"}}]", ""},
		{"downstreams: [{}]", "a downstream is of one kind"},
		{"downstreams: [{http: {}, postgres: {}}]", "a downstream is of one kind"},
		{"observe: wire\ndownstreams: [{postgres: {}}]", "observe: wire says"},
		{"downstreams: [{postgres: {image: postgres:16}}]", ""},
		{"downstreams: [{postgres: {image: x, url: postgres://db/a}}]", "is not started in a container"},
		{"downstreams: [{postgres: {url: mysql://a/b}}]", "url"},
		{"downstreams: [{postgres: {url: postgres://db}}]", "a host or a database is missing"},
		{"downstreams: [{postgres: {statements: \"(\"}}]", "this is not a regular expression"},
		{"downstreams: [{postgres: {parameters: \"(\"}}]", "this is not a regular expression"},
		{"downstreams: [{postgres: {answers: {transient: {sqlstate: 4001}}}}]", ""},
		{"downstreams: [{postgres: {answers: {transient: {sqlstate: serial}}}}]", "sqlstate"},
		{"downstreams: [{postgres: {answers: {transient: {sqlstate: \"00000\"}}}}]", "00000 does not report a failure"},
		{"downstreams: [{postgres: {unanswered: always}}]", "unanswered"},
		{contract + "downstreams: [{postgres: {answers: {transient: {sqlstate: 40P01}}}}]",
			"transient is answered 40P01, which " + "contract.classes does not list: add 40P01 to retryable"},
		{contract + "downstreams: [{postgres: {answers: {permanent: {sqlstate: 40001}}}}]",
			"transient and permanent are both " + "answered 40001"},
		{"contract: {classes: {retryable: [503]}}\ndownstreams: [{postgres: {}}]", `"503" is no class: write an SQLSTATE`},
		{"contract: {classes: {retryable: [40001]}}\ndownstreams: [{http: {}}]", `"40001" is no class: write an HTTP status`},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		var problems *Problems
		if want == "" && err != nil || want != "" && (!errors.As(err, &problems) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.200s\n%.600v\nwant a problem with %q", text, err, want)
		}
	}
}

func TestSQLStatesDecideClasses(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+`
downstreams: [{postgres: {answers: {transient: {sqlstate: 08006}}}}]
contract: {classes: {retryable: ["08006", timeout], permanent: [22P02, 53300], logical: [P0001]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	contract, err := subject.HistoryContract()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(contract.Retryable, []history.Outcome{history.OutcomeTransient, history.OutcomeTimeout}) ||
		!slices.Equal(contract.Permanent, []history.Outcome{history.OutcomePermanent, history.OutcomeRateLimited}) ||
		!slices.Equal(contract.Logical, []history.Outcome{history.OutcomeLogical}) {
		t.Errorf("classes %v, %v, %v", contract.Retryable, contract.Permanent, contract.Logical)
	}
	text, err := subject.Describe()
	if err != nil || !slices.ContainsFunc(text.Promises, func(line string) bool {
		return strings.HasPrefix(line, "Retried: 08006, time-outs. Final at once: 22P02, 53300")
	}) {
		t.Errorf("described as %q, %v", text.Promises, err)
	}
}
