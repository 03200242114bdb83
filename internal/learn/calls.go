package learn

// What the calls of a downstream show: where they carry a record's id, which of them make an attempt, and which are not
// about a record.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

// traffic is what the calls of one downstream show.
type traffic struct {
	// about are the calls with a record's id, others those without.
	about, others []workload.Called
	// rpc are the methods that were called over gRPC at a downstream that does not speak it.
	rpc []string
}

// trafficOf sorts calls by their downstreams.
func trafficOf(calls []run.DownstreamCall) map[string]*traffic {
	all := map[string]*traffic{}
	for _, call := range calls {
		one := all[call.Downstream]
		if one == nil {
			one = &traffic{}
			all[call.Downstream] = one
		}
		switch {
		case strings.HasPrefix(call.Media, workload.MediaGRPC) && call.Method != "":
			if !slices.Contains(one.rpc, call.Path) {
				one.rpc = append(one.rpc, call.Path)
			}
		case call.Record != history.None:
			one.about = append(one.about, call.Called)
		default:
			one.others = append(one.others, call.Called)
		}
	}
	return all
}

// pattern is a call as subject.yaml names it: its method, and its path with * in the place of the segment with the id.
// Over gRPC it is the method's path.
func pattern(call workload.Called) string {
	segments := strings.Split(call.Path, "/")
	for i, one := range segments {
		if strings.Contains(one, "{id}") {
			segments[i] = "*"
		}
	}
	return strings.TrimSpace(call.Method + " " + strings.Join(segments, "/"))
}

// series returns the calls that a record which succeeds gets, if they are the same for most such records. succeeds
// reports whether a record was planned to.
func (t *traffic) series(succeeds func(record int32) bool) []string {
	byRecord := map[int32][]string{}
	for _, call := range t.about {
		if succeeds(call.Record) {
			byRecord[call.Record] = append(byRecord[call.Record], pattern(call))
		}
	}
	count, list := map[string]int{}, map[string][]string{}
	for _, one := range byRecord {
		key := strings.Join(one, "\n")
		count[key]++
		list[key] = one
	}
	for key, n := range count {
		if float64(n) >= most*float64(len(byRecord)) {
			return list[key]
		}
	}
	return nil
}

// place returns the place that carries the id in all calls; false if there is none that all share. A header comes last:
// it may be there for tracing alone.
func (t *traffic) place() (workload.CallPlace, bool) {
	count := map[workload.CallPlace]int{}
	for _, call := range t.about {
		for _, place := range call.Where {
			count[place]++
		}
	}
	for _, part := range []workload.Part{workload.InPath, workload.InQuery, workload.InBody, workload.InHeader} {
		var all []workload.CallPlace
		for place, n := range count {
			if place.In == part && n == len(t.about) {
				all = append(all, place)
			}
		}
		if len(all) > 0 {
			return slices.MinFunc(all, func(a, b workload.CallPlace) int {
				return strings.Compare(a.Name+a.At, b.Name+b.At)
			}), true
		}
	}
	return workload.CallPlace{}, false
}

// placeText is a place as subject.yaml has it.
func placeText(p workload.CallPlace) string {
	text := "{in: " + string(p.In)
	switch {
	case p.Name != "":
		text += ", name: " + quoted(p.Name)
	case p.At != "":
		text += ", at: " + quoted(p.At)
	}
	return text + "}"
}

// route is a call without a record's id, which gets a fixed answer.
type route struct {
	method, path, body string
	calls              int
}

// asksForToken matches the paths at which services get tokens (RFC 6749 names no path).
var asksForToken = regexp.MustCompile(`(?i)token|oauth|/login`)

// fixedAnswer is the body with which a call without a record's id is answered while the consumer is watched: one that a
// client of OAuth accepts (RFC 6749, 5.1), or an empty object.
func fixedAnswer(call workload.Called) string {
	if asksForToken.MatchString(call.Path) {
		return `{"access_token": "dlqbench", "token_type": "Bearer", "expires_in": 3600}`
	}
	return "{}"
}

// differing is the number of paths from which on a segment in which they differ counts as a variable one.
const differing = 3

// doubtful reports whether there is a route that nothing called before this time, at which an unreadable record
// was sent: its calls may be about that record.
func (t *traffic) doubtful(from time.Duration) bool {
	same := func(a, b route) bool { return a.method == b.method && a.path == b.path }
	clean := *t
	clean.others = slices.DeleteFunc(slices.Clone(t.others), func(call workload.Called) bool { return call.At >= from })
	return !slices.EqualFunc(clean.routes(), t.routes(), same)
}

// routes returns the calls without a record's id, by method and path, except those that are made about records, too.
// Segments in which many paths differ become *.
func (t *traffic) routes() []route {
	shapes := map[string][]workload.Called{}
	for _, call := range t.others {
		shape := fmt.Sprintf("%s %d", call.Method, strings.Count(call.Path, "/"))
		shapes[shape] = append(shapes[shape], call)
	}
	var all []route
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		wild := wildSegments(shapes[shape])
		for _, call := range shapes[shape] {
			segments := strings.Split(call.Path, "/")
			for i := range wild {
				segments[i] = "*"
			}
			path := strings.Join(segments, "/")
			at := slices.IndexFunc(all, func(r route) bool { return r.method == call.Method && r.path == path })
			if at < 0 {
				at = len(all)
				all = append(all, route{method: call.Method, path: path, body: fixedAnswer(call)})
			}
			all[at].calls++
		}
	}
	return slices.DeleteFunc(all, t.answersAttempts)
}

// answersAttempts reports whether a route would answer calls with a record's id, too: its calls are then about records
// whose id can't be read.
func (t *traffic) answersAttempts(r route) bool {
	return slices.ContainsFunc(t.about, func(call workload.Called) bool {
		have, want := strings.Split(call.Path, "/"), strings.Split(r.path, "/")
		return call.Method == r.method && slices.EqualFunc(have, want, func(segment, of string) bool {
			return of == "*" || segment == of
		})
	})
}

// wildSegments returns the segments in which paths of one length differ, if they are otherwise the same.
func wildSegments(calls []workload.Called) map[int]bool {
	texts := map[int]map[string]bool{}
	for _, call := range calls {
		for i, segment := range strings.Split(call.Path, "/") {
			if texts[i] == nil {
				texts[i] = map[string]bool{}
			}
			texts[i][segment] = true
		}
	}
	wild := map[int]bool{}
	for i, different := range texts {
		if len(different) >= differing {
			wild[i] = true
		}
	}
	return wild
}

// text is the downstream over HTTP or gRPC as subject.yaml has it, each line behind indent. of is what the file says of
// it. success is how calls that succeed are answered, "" for as usual.
func (t *traffic) text(indent string, of scenarios.Downstream, success string, succeeds func(int32) bool) string {
	var keys []string
	schema := ""
	if of.GRPC != nil {
		schema = of.GRPC.Schema
	}
	add := func(format string, about ...any) { keys = append(keys, fmt.Sprintf(format, about...)) }
	series := t.series(succeeds)
	place, shared := t.place()
	if of.Secure() {
		add("tls: true")
	}
	if schema != "" {
		add("schema: %s", quoted(schema))
	}
	if len(t.about) > 0 {
		add("# %s: %s.", units.Plural(int64(len(t.about)), "call with a record's id", "calls with a record's id"),
			strings.Join(t.patterns(), ", "))
	}
	batch := slices.ContainsFunc(t.about, func(call workload.Called) bool { return call.Several })
	switch {
	case batch:
		add("# Calls had the ids of several records in their bodies, so each is an attempt at all of them.")
		add("batch: true")
		add("# If the answers say of each record what became of it, as those of bulk APIs do, describe them under items")
		add("# (docs/real-services.md): a consumer that looks at the status alone loses records there.")
	case schema == "" && shared:
		add("id: %s", placeText(place))
	}
	if schema != "" && len(t.patterns()) == 1 {
		add("method: %s", quoted(t.patterns()[0]))
	}
	if schema != "" && place.At != "" {
		add("at: %s", quoted(place.At))
	}
	if success != "" && (len(t.about) > 0 || len(t.others) == 0) {
		add("answers: {success: {%s}}", success)
	}
	if first, last, several := span(series); several && !batch {
		add("# A record that succeeded got %d calls, which make one attempt.", len(series))
		add("attempt: {first: %s, last: %s}", quoted(first), quoted(last))
	}
	if routes := t.routes(); len(routes) > 0 {
		add("# Calls without a record's id. While it was watched they were answered so: put in what they expect.")
		add("routes:")
		for _, one := range routes {
			called := "method: " + one.method + ", path: " + quoted(one.path)
			if schema != "" {
				called = "method: " + quoted(one.path)
			}
			add("  - {%s, body: '%s'} # %s", called, one.body, units.Plural(int64(one.calls), "call", "calls"))
		}
	}
	if len(keys) == 0 {
		return of.Kind() + ": {}"
	}
	return of.Kind() + ":\n" + indent + strings.Join(keys, "\n"+indent)
}

// patterns are the different calls with an id, in the order in which they were first made.
func (t *traffic) patterns() []string {
	var all []string
	for _, call := range t.about {
		if one := pattern(call); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// span returns the calls that begin and end an attempt of several.
func span(series []string) (first, last string, several bool) {
	if len(series) < 2 {
		return "", "", false
	}
	first, last = series[0], series[len(series)-1]
	return first, last, first != last
}
