package workload

// The answer to a call for several records that says of each what became of it, as bulk APIs do. It has an item for
// each record, in the order of the call.

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
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

// items are what bodies with items are made of.
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

// pieces returns the elements of a body that has no list of JSON. Each has the same number of lines.
func (i *Items) pieces(body []byte) (all []json.RawMessage) {
	var piece []byte
	lines := 0
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		piece = append(piece, line...)
		if lines++; lines == max(i.Lines, 1) {
			all, piece, lines = append(all, piece), nil, 0
		}
	}
	if lines > 0 {
		all = append(all, piece)
	}
	return all
}

// itemised is the body of the answer to a call with these elements, each of which is one of the attempts.
func (s *Stub) itemised(events []history.Event, elements []int) []byte {
	fails := func(e history.Event) bool { return e.Outcome != history.OutcomeSuccess }
	kind := s.cfg.Plan.ErrorText
	if slices.ContainsFunc(events, fails) {
		kind = s.textKind()
	}
	var all, succeeded, failed []string
	failures := 0
	for i, of := range elements {
		e, id := &events[of], ""
		if e.Record != history.None {
			id = string(s.cfg.IDs.Append(nil, e.Record))
		}
		item, into := s.items.item(kind, e.Outcome, id, i), &succeeded
		if fails(*e) {
			failures, into = failures+1, &failed
		}
		if item != "" {
			all, *into = append(all, item), append(*into, item)
		}
	}
	return []byte(strings.NewReplacer(
		BodyItems, strings.Join(all, ","), BodySucceeded, strings.Join(succeeded, ","), BodyFailed, strings.Join(failed, ","),
		BodyAnyFailed, strconv.FormatBool(failures > 0), BodyFailedCount, strconv.Itoa(failures),
	).Replace(s.items.text))
}

// item is the item of an element, the at-th from 0 in its call, which has this id. kind is that of the error's text.
func (a *items) item(kind string, outcome history.Outcome, id string, at int) string {
	return strings.NewReplacer(BodyID, id, ItemIndex, strconv.Itoa(at)).Replace(a.each[kind][outcome])
}
