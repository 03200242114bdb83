package scenarios

// Calls for several records, such as a bulk insert, and their answer with an item for each.

import (
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// Items is the answer to a call for several records that is not refused as a whole: it has an item for each record, in
// the order of the call, as bulk APIs answer.
type Items struct {
	// Status of the answer, whatever became of the records; default: 200.
	Status  int               `json:"status,omitempty" jsonschema:"minimum=200,maximum=299"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body may have {{.Items}}, all items, {{.Succeeded}} and {{.Failed}}, those of the records that succeeded and failed,
	// each separated by commas, {{.AnyFailed}}, true or false, and {{.FailedCount}}.
	Body string `json:"body" jsonschema:"required,minLength=1"`
	// Lines is the number of lines of a call's body that stand for a record, where that has no list of JSON; default: 1.
	Lines int `json:"lines,omitempty" jsonschema:"minimum=1,maximum=10"`
	// The item of a record by outcome. It may have {{.ID}}, the record's id, {{.Index}}, its position in the call from 0,
	// and {{.Error}}, the text of the error, escaped for a JSON string.
	Success   string `json:"success,omitempty"` // default: no item
	Transient string `json:"transient" jsonschema:"required,minLength=1"`
	Permanent string `json:"permanent" jsonschema:"required,minLength=1"`
	// RateLimited defaults to Transient, and Logical to Permanent.
	RateLimited string `json:"rate_limited,omitempty"`
	Logical     string `json:"logical,omitempty"`
}

// The values in the body of an answer with items, and AnswerIndex in an item.
const (
	itemsAll         = "{{.Items}}"
	itemsSucceeded   = "{{.Succeeded}}"
	itemsFailed      = "{{.Failed}}"
	itemsAnyFailed   = "{{.AnyFailed}}"
	itemsFailedCount = "{{.FailedCount}}"
	AnswerIndex      = "{{.Index}}"
)

// ByOutcome are the items that are given.
func (i *Items) ByOutcome() map[history.Outcome]string {
	all := map[history.Outcome]string{}
	for outcome, item := range byOutcome(&i.Success, &i.Transient, &i.RateLimited, &i.Permanent, &i.Logical) {
		if *item != "" {
			all[outcome] = *item
		}
	}
	return all
}

// checkBatch checks a downstream whose calls are for several records.
func (c *checker) checkBatch(path string, http *HTTPDownstream, decides bool, s *SubjectFile) {
	c.checkItems(path+"/items", http)
	if !http.Batch {
		return
	}
	c.refuseIf(!decides, path+"/batch", batchDecides)
	c.refuseIf(http.ID != nil && http.ID.In != "" && http.ID.In != "body", path+"/id/in",
		"with batch, the ids of all records are in the body: write in: body")
	c.refuseIf(http.Attempt != nil, path+"/attempt", "with batch, each call is an attempt: leave attempt out, or batch")
	c.refuseIf(s.Contract.Attempts.Calls > 1, "/contract/attempts/calls", batchCalls)
}

// What is wrong with batch: true.
const (
	batchDecides = "the calls of this downstream are not attempts: leave batch out, or let it decide (decides: true)"
	batchCalls   = "with batch, nothing tells the repeats of a client from the attempts of the service: leave calls " +
		"out, or batch"
)

// checkItems checks the answer that has an item for each record.
func (c *checker) checkItems(path string, http *HTTPDownstream) {
	items := http.Items
	if items == nil {
		return
	}
	c.refuseIf(!http.Batch, path, "only calls for several records have an answer with items: add batch: true")
	c.refuseIf(http.Forward != "", path, "the stub at forward answers what shall succeed, and knows nothing of the items "+
		"that shall fail: leave items out, or forward")
	c.checkHeaders(path, items.Headers)
	inBody := []string{itemsAll, itemsSucceeded, itemsFailed, itemsAnyFailed, itemsFailedCount}
	c.checkText(path+"/body", items.Body, "the body of an answer with items", inBody)
	c.refuseIf(!strings.Contains(items.Body, itemsAll) && !strings.Contains(items.Body, itemsFailed), path+"/body",
		"the answer does not tell which records failed: write %s or %s where the items stand", itemsAll, itemsFailed)
	for outcome, item := range items.ByOutcome() {
		at, values := path+"/"+outcomeKey(outcome), []string{AnswerID, AnswerIndex, AnswerError}
		c.checkText(at, item, "an item", values)
		if outcome == history.OutcomeSuccess {
			c.refuseIf(strings.Contains(item, AnswerError), at, "a success has no %s", AnswerError)
		}
	}
}

// checkText checks the length of a text of an answer, and that it has these values only. what names it.
func (c *checker) checkText(path, text, what string, values []string) {
	rest := text
	for _, value := range values {
		rest = strings.ReplaceAll(rest, value, "")
	}
	c.refuseIf(len(text) > maxAnswer, path, "%s can have %d KiB at most", what, maxAnswer>>10)
	last := len(values) - 1
	c.refuseIf(strings.Contains(rest, "{{"), path, "%s knows no other values than %s and %s", what,
		strings.Join(slices.Clone(values[:last]), ", "), values[last])
}
