package workload

// What a call shows of the service that makes it: for finding out what a service calls.

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Called is a call over HTTP or gRPC.
type Called struct {
	// At is when it was read.
	At time.Duration
	// Method and Path are those of the call. An id in the path is written {id}. A call over gRPC has no Method, and its
	// Path is that of the method, such as /acme.v1.Payments/Charge.
	Method, Path string
	// Media is the call's Content-Type, without parameters.
	Media string
	// Record is the record whose id it carries, history.None if it carries none.
	Record int32
	// Where are the places that carry the id.
	Where []CallPlace
	// Several: its body has the ids of several records.
	Several bool
	// Text is the call's target and its body, if it carries no id, up to 4 KiB.
	Text string
}

// CallPlace is a place in a request. Name is that of a header or of a parameter in the query. At is the path to a value
// in a body of JSON, or to a field of a form; "" for a body of another kind.
type CallPlace struct {
	In       Part
	Name, At string
}

// observedText bounds the text of a call, in bytes.
const observedText = 4 << 10

// observed tells who observes the stub of a call, and reports whether it has answered it.
func (s *Stub) observed(w http.ResponseWriter, r *call, route *Route) bool {
	if s.cfg.Observe == nil || route != nil && route.Path == healthPath {
		return false
	}
	seq, found := s.calls.find(r, s.cfg.IDs)
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	one := Called{At: s.cfg.Clock.Now(), Method: r.Method, Path: s.path(r, seq, found), Media: strings.TrimSpace(media),
		Record: history.None}
	if found {
		one.Record, one.Where = seq, places(r, s.cfg.IDs, seq)
		one.Several = len(s.cfg.IDs.All(s.calls.batch(r))) > 1
	} else {
		one.Text = r.URL.RequestURI() + " " + string(r.body[:min(len(r.body), observedText)])
	}
	body, answered := s.cfg.Observe(one)
	if answered = answered && !found && route == nil; answered {
		respond(w, http.StatusOK, nil, []byte(body))
	}
	return answered
}

// observedRPC tells who observes the stub of a call over gRPC. It reports whether one without an id is answered with an
// empty message.
func (s *Stub) observedRPC(method string, message []byte, record int32, found bool) bool {
	if s.cfg.Observe == nil {
		return false
	}
	text := s.cfg.RPC.legible(method, message)
	one := Called{At: s.cfg.Clock.Now(), Path: method, Media: MediaGRPC, Record: history.None,
		Text: string(text[:min(len(text), observedText)])}
	if found {
		one.Record, one.Text = record, ""
		one.Where = bodyPlaces(text, func(text string) bool { return names(s.cfg.IDs, text, record) })
	}
	_, answered := s.cfg.Observe(one)
	return answered && !found
}

// MediaGRPC is the beginning of the Content-Type of a call over gRPC.
const MediaGRPC = "application/grpc"

// names reports whether a text has the id of the record.
func names(ids *history.IDs, text string, record int32) bool {
	seq, found := ids.Find([]byte(text))
	return found && seq == record
}

// places returns the places of a call that carry the record's id.
func places(r *call, ids *history.IDs, record int32) (all []CallPlace) {
	is := func(text string) bool { return names(ids, text, record) }
	if is(r.URL.Path) {
		all = append(all, CallPlace{In: InPath})
	}
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.ContainsFunc(query[name], is) {
			all = append(all, CallPlace{In: InQuery, Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if slices.ContainsFunc(r.Header[name], is) {
			all = append(all, CallPlace{In: InHeader, Name: name})
		}
	}
	body := r.form()
	if body == nil {
		body = r.body
	}
	return append(all, bodyPlaces(body, is)...)
}

// bodyPlaces returns the places of a body that carry an id.
func bodyPlaces(body []byte, is func(text string) bool) (all []CallPlace) {
	leaves, err := samples.Leaves(body)
	if err != nil {
		if is(string(body)) {
			all = append(all, CallPlace{In: InBody})
		}
		return all
	}
	for _, leaf := range leaves {
		if is(leaf.Text) {
			all = append(all, CallPlace{In: InBody, At: leaf.At})
		}
	}
	return all
}
