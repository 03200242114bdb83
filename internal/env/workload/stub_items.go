package workload

// The answer to a call for several records that says of each what became of it, as bulk APIs do. It has an item for
// each record, in the order of the call.

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// The values in the body of an answer with items: all items, those of successes and of failures, each separated by
// commas; whether there are failures (true or false), and their number.
const (
	BodyItems       = "{{.Items}}"
	BodySucceeded   = "{{.Succeeded}}"
	BodyFailed      = "{{.Failed}}"
	BodyAnyFailed   = "{{.AnyFailed}}"
	BodyFailedCount = "{{.FailedCount}}"
	// ItemIndex in an item is its record's position in the call, from 0.
	ItemIndex = "{{.Index}}"
)

// items makes bodies with items.
type items struct {
	text string
	each map[string]map[history.Outcome]string // by the kind of the error's text
}

// newItems prepares the items of all outcomes, with the error texts of these answers; nil if the answer has none.
func newItems(given *Items, answers map[string]map[history.Outcome]answer) *items {
	if given == nil {
		return nil
	}
	all := &items{text: *given.Body, each: map[string]map[history.Outcome]string{}}
	each := maps.Clone(given.Each)
	for outcome, standIn := range map[history.Outcome]history.Outcome{
		history.OutcomeRateLimited: history.OutcomeTransient, history.OutcomeLogical: history.OutcomePermanent,
		history.OutcomeUnknownID: history.OutcomePermanent,
	} {
		if _, found := each[outcome]; !found {
			each[outcome] = each[standIn]
		}
	}
	for kind, of := range answers {
		filled := map[history.Outcome]string{}
		for outcome, item := range each {
			filled[outcome] = strings.ReplaceAll(item, BodyError, escaped(of[outcome].text))
		}
		all.each[kind] = filled
	}
	return all
}

// escaped is a text as it stands in a string of JSON.
func escaped(text string) string {
	quoted, _ := json.Marshal(text) // text never fails
	return string(quoted[1 : len(quoted)-1])
}

// body returns the body for attempts that have ended, of which this number failed, with error texts of this kind.
func (a *items) body(ids *history.IDs, events []history.Event, failures int, kind string) []byte {
	var all, succeeded, failed []string
	for i := range events {
		e, id := &events[i], ""
		if e.Record != history.None {
			id = string(ids.Append(nil, e.Record))
		}
		item := strings.NewReplacer(BodyID, id, ItemIndex, strconv.Itoa(i)).Replace(a.each[kind][e.Outcome])
		switch {
		case item == "":
			continue
		case e.Outcome == history.OutcomeSuccess:
			succeeded = append(succeeded, item)
		default:
			failed = append(failed, item)
		}
		all = append(all, item)
	}
	return []byte(strings.NewReplacer(
		BodyItems, strings.Join(all, ","), BodySucceeded, strings.Join(succeeded, ","), BodyFailed, strings.Join(failed, ","),
		BodyAnyFailed, strconv.FormatBool(failures > 0), BodyFailedCount, strconv.Itoa(failures),
	).Replace(a.text))
}
