package registry

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// TestFaultsChangeAnswers asks as clients do, while changes are in force and after them.
func TestFaultsChangeAnswers(t *testing.T) {
	r := must.Get(Start(Schema{"orders-value", avro("string")}))(t)
	defer r.Close(context.Background())
	client := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	byID := func() error { _, err := client.SchemaByID(t.Context(), 1); return err }
	byGUID := func() error { _, err := client.SchemaByGUID(t.Context(), r.Known[0].GUID); return err }
	latest := func() error { _, err := client.SchemaByVersion(t.Context(), "orders-value", -1); return err }
	register := func() error {
		_, err := client.RegisterSchema(t.Context(), "orders.DLT-value", avro("long"), -1, -1)
		return err
	}
	unknown := func(byID, _ bool) int { return map[bool]int{true: http.StatusNotFound}[byID] }
	incompatible := func(_, registers bool) int { return map[bool]int{true: http.StatusConflict}[registers] }
	fails := func(bool, bool) int { return http.StatusServiceUnavailable }
	for name, c := range map[string]struct {
		rules []func(byID, registers bool) int
		ask   func() error
		want  int // the error code, 0 for success
	}{
		"unknown, by id":      {[]func(bool, bool) int{unknown}, byID, 40403},
		"unknown, by GUID":    {[]func(bool, bool) int{unknown}, byGUID, 40403},
		"unknown, the latest": {[]func(bool, bool) int{unknown}, latest, 0},
		"unknown, registered": {[]func(bool, bool) int{unknown}, register, 0},
		"incompatible":        {[]func(bool, bool) int{incompatible}, register, 409},
		"incompatible, by id": {[]func(bool, bool) int{incompatible}, byID, 0},
		"fails":               {[]func(bool, bool) int{fails}, latest, 50001},
		"the first":           {[]func(bool, bool) int{unknown, fails}, byID, 40403},
		"the second":          {[]func(bool, bool) int{unknown, fails}, latest, 50001},
	} {
		var ends []func()
		for _, rule := range c.rules {
			ends = append(ends, r.Answer(rule))
		}
		var answer *sr.ResponseError
		switch err := c.ask(); {
		case c.want == 0 && err != nil, c.want != 0 && (!errors.As(err, &answer) || answer.ErrorCode != c.want):
			t.Errorf("%s: %v, want the code %d", name, err, c.want)
		}
		for _, end := range ends {
			end()
		}
		for _, ask := range []func() error{byID, byGUID, latest, register} {
			if err := ask(); err != nil {
				t.Errorf("after %s: %v", name, err)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestSlowAnswers: delays add up, and end with their change or with the client.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Registry{}
		r.answers.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		seen := 0
		end := r.Slow(time.Second, func() { seen++ })
		endOther := r.Slow(2*time.Second, func() { seen++ })
		if took := r.timed(t.Context(), t); took != 3*time.Second {
			t.Errorf("answered after %s, not 3 s", took)
		}
		time.AfterFunc(500*time.Millisecond, end)
		if took := r.timed(t.Context(), t); took != 2500*time.Millisecond {
			t.Errorf("answered after %s, not 2.5 s: a change ended", took)
		}
		leaves, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took := r.timed(leaves, t); took != time.Second {
			t.Errorf("answered after %s, not 1 s: the client left", took)
		}
		endOther()
		if took := r.timed(t.Context(), t); took != 0 || seen != 5 {
			t.Errorf("answered after %s, %d delays were seen", took, seen)
		}
	})
}

// timed returns how long the answer to a request takes.
func (r *Registry) timed(ctx context.Context, t *testing.T) time.Duration {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "/subjects", http.NoBody))(t)
	began := time.Now()
	r.answers.ServeHTTP(discard{}, request)
	return time.Since(began)
}

// discard is a response that is not read.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// TestWhatIsAsked tells requests apart by method and path.
func TestWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		method, path    string
		byID, registers bool
	}{
		{"GET", "/schemas/ids/1", true, false}, {"GET", "/schemas/ids/1/schema?fetchMaxId=x", true, false},
		{"GET", "/schemas/guids/8a-1", true, false}, {"GET", "/apis/ccompat/v7/schemas/ids/1", true, false},
		{"GET", "/apis/registry/v3/ids/contentIds/1/references", true, false},
		{"GET", "/apis/registry/v2/ids/globalIds/1", true, false}, {"GET", "/api/schemas//ids/1", true, false},
		{"GET", "/schemas/types", false, false}, {"GET", "/schemas/ids", false, false},
		{"POST", "/subjects/orders-value/versions", false, true}, {"POST", "/api/subjects/a%2Fb/versions/", false, true},
		{"GET", "/subjects/orders-value/versions", false, false}, {"POST", "/subjects/orders-value", false, false},
		{"GET", "/subjects/orders-value/versions/latest", false, false}, {"GET", "/", false, false},
		{"POST", "/compatibility/subjects/orders-value/versions/latest", false, false},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), c.method, "http://registry"+c.path, http.NoBody))(t)
		if byID, registers := asked(request); byID != c.byID || registers != c.registers {
			t.Errorf("%s %s: by id %v, registers %v", c.method, c.path, byID, registers)
		}
	}
}

// FuzzAsked: no path is too odd to be told apart.
func FuzzAsked(f *testing.F) {
	f.Add("/schemas/ids/1")
	f.Add("//subjects/./../versions")
	f.Fuzz(func(t *testing.T, path string) {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://registry/", http.NoBody))(t)
		request.URL.Path = path
		if byID, registers := asked(request); byID && registers {
			t.Fatalf("%q asks by id and registers", path)
		}
	})
}
