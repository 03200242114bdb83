package run

import (
	"maps"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// calls returns the calls that the subject declares, nil for the usual ones.
func (r *run) calls() *workload.Calls {
	if r.options.Subject == nil || r.options.Subject.HTTP() == nil {
		return nil
	}
	http := r.options.Subject.HTTP()
	calls := &workload.Calls{Told: true, Answers: map[history.Outcome]workload.Response{}}
	if http.ID != nil {
		calls.In, calls.Name = workload.Part(http.ID.In), http.ID.Name
		if http.ID.At != "" {
			calls.At, _ = samples.ParsePlace(http.ID.At) // it was checked with the subject file
		}
	}
	for outcome, answer := range http.Answers.ByOutcome() {
		calls.Answers[outcome] = workload.Response{Status: answer.Status, Headers: maps.Clone(answer.Headers),
			Body: answer.Body}
	}
	for _, route := range http.Routes {
		calls.Routes = append(calls.Routes, workload.Route{Method: route.Method, Path: route.Path, Response: response(route)})
	}
	return calls
}

func response(route scenarios.Route) workload.Response {
	return workload.Response{Status: route.Status, Headers: maps.Clone(route.Headers), Body: &route.Body}
}

// warnOfStrays logs that the subject made calls that are neither attempts nor routes. It may have failed because of
// them.
func (r *run) warnOfStrays() {
	for _, one := range r.stubs.list {
		if count, first := one.Strays(); count > 0 {
			r.options.Log.Warn().Int64("calls", count).Str("first", first).Msg("calls without a record's id were answered " +
				"404; if they are none of a record, give them an answer under routes in subject.yaml")
		}
	}
}
