package scenarios

// A PostgreSQL that a real service writes to while it processes a record.

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// PostgresDownstream is a PostgreSQL. An attempt runs from the first statement with a record's id to the end of its
// transaction (COMMIT, ROLLBACK or an error), and is answered as the scenario plans: success by the server itself, a
// failure by an error in its place.
type PostgresDownstream struct {
	// URL is a database of your own: postgres://USER:PASSWORD@HOST:PORT/NAME. Default: a private server for the run, from
	// the PostgreSQL that is installed here, or in a container.
	URL string `json:"url,omitempty" jsonschema:"pattern=^postgres(ql)?://"`
	// Image runs the private server in a container of this image, such as postgres:16. It obeys the variables of the
	// official image. Default: what is installed here; without that, postgres:17-alpine.
	Image string `json:"image,omitempty"`
	// Batch: a transaction is an attempt at each record whose id its statements or the rows of a COPY have. It takes
	// effect for all of them or for none, but for what the service rolls back to a savepoint. Default: it is for one.
	Batch bool `json:"batch,omitempty"`
	// Statements is a regular expression: only a statement whose text it matches can begin an attempt. Default: any but
	// one that reads (SELECT, VALUES, TABLE, SHOW, EXPLAIN, FETCH).
	Statements string `json:"statements,omitempty"`
	// Parameters is a regular expression: only a statement with parameters that match it, or with such values in its text,
	// can begin an attempt. Default: any. It is for services that note each state of a record with the same statement.
	Parameters string `json:"parameters,omitempty"`
	// Answers are the errors that stand for outcomes, where they differ from the usual ones: 40001 for transient, 53300
	// for rate_limited, 22P02 for permanent, P0001 for logical.
	Answers SQLAnswers `json:"answers,omitempty"`
	// Unanswered is what the outcomes timeout and reset leave unanswered: the statement (default), which does not reach
	// the server; or the commit, which does: the rows are there, and the service does not know.
	Unanswered string `json:"unanswered,omitempty" jsonschema:"enum=statement,enum=commit"`
}

// The values of PostgresDownstream.Unanswered.
const (
	UnansweredStatement = "statement"
	UnansweredCommit    = "commit"
)

// SQLAnswers are errors by outcome.
type SQLAnswers struct {
	Transient   *SQLAnswer `json:"transient,omitempty"`
	RateLimited *SQLAnswer `json:"rate_limited,omitempty"`
	Permanent   *SQLAnswer `json:"permanent,omitempty"`
	Logical     *SQLAnswer `json:"logical,omitempty"`
}

// SQLAnswer is an error of PostgreSQL. What is left out is as usual.
type SQLAnswer struct {
	SQLState SQLState `json:"sqlstate,omitempty"`
	// Message is the text of the error.
	Message string `json:"message,omitempty" jsonschema:"maxLength=1024"`
	// Constraint is the name of the constraint that was violated, which some services look at.
	Constraint string `json:"constraint,omitempty" jsonschema:"maxLength=63"`
}

// SQLState is an SQLSTATE, such as 40001 or 22P02.
type SQLState string

var sqlState = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// UnmarshalJSON reads 40001 or "22P02".
func (s *SQLState) UnmarshalJSON(data []byte) error {
	text, err := codeText(data)
	if err != nil {
		return fmt.Errorf("%s is not an SQLSTATE, such as 40001 or 22P02", data)
	}
	*s = SQLState(text)
	return nil
}

// SchemaText is the JSON Schema of both written forms.
func (SQLState) SchemaText() string {
	return `{
		"description": "An SQLSTATE: five digits or capital letters, such as 40001 or 22P02.",
		"oneOf": [{"type": "integer", "minimum": 0, "maximum": 99999},
			{"type": "string", "pattern": "^[0-9A-Z]{5}$"}]
	}`
}

// codeText reads a code that YAML takes for a number if it has digits only. Leading zeros, which a number loses, are
// those of an SQLSTATE.
func codeText(data []byte) (string, error) {
	var number int
	if json.Unmarshal(data, &number) == nil {
		if number > 599 {
			return fmt.Sprintf("%05d", number), nil
		}
		return fmt.Sprint(number), nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	return text, err
}

// ByOutcome are the answers that are given.
func (a *SQLAnswers) ByOutcome() map[history.Outcome]*SQLAnswer {
	return byOutcome(nil, a.Transient, a.RateLimited, a.Permanent, a.Logical)
}

// answers are the SQLSTATEs that the subject gets as answers.
func (p *PostgresDownstream) answers() []classed {
	return givenOr(p.Answers.ByOutcome(), func(one *SQLAnswer) string { return string(one.SQLState) },
		usual("40001", "53300", "22P02", "P0001"))
}

// SQLStates are the SQLSTATEs of the answers by outcome.
func (p *PostgresDownstream) SQLStates() map[history.Outcome]string {
	states := map[history.Outcome]string{}
	for _, one := range p.answers() {
		states[one.outcome] = one.answer
	}
	return states
}

func (c *checker) checkPostgres(path string, postgres *PostgresDownstream, decides bool, s *SubjectFile) {
	c.refuseIf(postgres.URL != "" && postgres.Image != "", path+"/image",
		"a server of your own (url) is not started in a container: keep one of the two")
	if postgres.URL != "" {
		address, err := url.Parse(postgres.URL)
		switch {
		case err != nil:
			c.at(path+"/url", "this is not a URL: write postgres://USER:PASSWORD@HOST:PORT/NAME, with other characters than "+
				"letters and digits escaped (%%40 for @)")
		case address.Hostname() == "" || strings.Trim(address.Path, "/") == "":
			c.at(path+"/url", "a host or a database is missing: write postgres://USER:PASSWORD@HOST:PORT/NAME")
		}
	}
	if postgres.Batch {
		c.refuseIf(!decides, path+"/batch", batchDecides)
		c.refuseIf(s.Contract.Attempts.Calls > 1, "/contract/attempts/calls", batchCalls)
	}
	for key, pattern := range map[string]string{"/statements": postgres.Statements, "/parameters": postgres.Parameters} {
		if _, err := regexp.Compile(pattern); err != nil {
			c.at(path+key, "this is not a regular expression: %s", err)
		}
	}
	for outcome, one := range postgres.Answers.ByOutcome() {
		at := path + "/answers/" + outcomeKey(outcome)
		switch {
		case one.SQLState == "":
		case !sqlState.MatchString(string(one.SQLState)):
			c.at(at+"/sqlstate", "%q is not an SQLSTATE: write five digits or capital letters", one.SQLState)
		case strings.HasPrefix(string(one.SQLState), "00") || strings.HasPrefix(string(one.SQLState), "01") ||
			strings.HasPrefix(string(one.SQLState), "02"):
			c.at(at+"/sqlstate", "%s does not report a failure: write another SQLSTATE, such as 40001", one.SQLState)
		}
		c.refuseIf(strings.ContainsRune(one.Message+one.Constraint, 0), at, "an error's text can't have the character NUL")
	}
	if decides {
		c.checkAnswersAgree(path+"/answers/", "/sqlstate", s)
	}
}

// outcomeKey is an outcome as answers name it.
func outcomeKey(outcome history.Outcome) string {
	return strings.ReplaceAll(outcome.String(), "-", "_")
}
