package workload

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// newCalls is newBed for a downstream with calls of its own.
func newCalls(t *testing.T, p *plan.Plan, form history.IDForm, calls Calls) *bed {
	t.Helper()
	b := &bed{t: t, ids: history.NewIDsAs("run", form, 10), sink: &events{},
		client: &http.Client{Transport: &http.Transport{}}}
	calls.Told = true
	stub, err := NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{
			Plan: p, IDs: b.ids, Instances: 1, Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: b.sink,
		},
		Calls: &calls,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Stub = stub
	t.Cleanup(stub.Close)
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// call makes a request; headers are names and values.
func (b *bed) call(method, target, body string, headers ...string) (int, http.Header, string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.Addr(0)+target, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

func at(t testing.TB, path string) samples.Place {
	t.Helper()
	place, err := samples.ParsePlace(path)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// An id is found in each part of a request, unless another one is stated.
func TestCallsCarryTheIDAnywhere(t *testing.T) {
	for _, form := range []history.IDForm{history.IDText, history.IDUUID, history.IDInt64} {
		id := history.NewIDsAs("run", form, 10).Token(1)
		encoded := base64.StdEncoding.EncodeToString([]byte("order " + id + "?>"))
		for name, one := range map[string]struct {
			method, target, body string
			headers              []string
			part                 Part
		}{
			"path": {"PUT", "/payments/" + id, "{}", nil, InPath},
			"encoded path": {"PUT", "/payments/" + strings.Replace(id, id[:1], fmt.Sprintf("%%%02x", id[0]), 1), "", nil,
				InPath},
			"query":           {"GET", "/pay?order=" + id + "&x=1", "", nil, InQuery},
			"base64 in query": {"GET", "/pay?x=1&order=" + url.QueryEscape(encoded), "", nil, InQuery},
			"header":          {"DELETE", "/pay", "", []string{"X-Order", "urn:" + id}, InHeader},
			"body":            {"POST", "/pay", `<order id="` + id + `"/>`, nil, InBody},
			"form": {"PATCH", "/pay", "order=" + id, []string{"Content-Type", "application/x-www-form-urlencoded"},
				InBody},
		} {
			for _, in := range []Part{"", InPath, InQuery, InHeader, InBody} {
				b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, form, Calls{In: in})
				want := 404
				if in == "" || in == one.part {
					want = 200
				}
				if status, _, _ := b.call(one.method, one.target, one.body, one.headers...); status != want {
					t.Errorf("%s, id as %s in %q: answered %d, want %d", name, form, in, status, want)
				}
				if end := b.sink.of(history.KindAttemptEnd)[0]; want == 200 && end.Record != 1 || end.Text != "" {
					t.Errorf("%s: noted as %+v", name, end)
				}
			}
		}
	}
}

func TestCallsStateWhereTheIDIs(t *testing.T) {
	ids := history.NewIDs("run")
	id, other := ids.Token(0), ids.Token(1)
	for name, one := range map[string]struct {
		calls        Calls
		target, body string
		header       string
		want         int32
	}{
		"a parameter":  {Calls{In: InQuery, Name: "order"}, "/?ref=" + other + "&order=" + id, "", "", 0},
		"no parameter": {Calls{In: InQuery, Name: "order"}, "/?ref=" + other, "", "", history.None},
		"a header":     {Calls{In: InHeader, Name: "x-order"}, "/" + other, other, id, 0},
		"a place": {Calls{In: InBody, At: at(t, "$.order.id")}, "/" + other,
			`{"ref":"` + other + `","order":{"id":"` + id + `"}}`, "",
			0},
		"no place":       {Calls{In: InBody, At: at(t, "$.order.id")}, "/", `{"ref":"` + other + `"}`, "", history.None},
		"not JSON":       {Calls{In: InBody, At: at(t, "$.order.id")}, "/", id, "", history.None},
		"the first part": {Calls{}, "/" + id, other, "", 0},
	} {
		b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, history.IDText, one.calls)
		b.call("POST", one.target, one.body, "X-Order", one.header)
		if got := b.sink.of(history.KindAttemptStart)[0].Record; got != one.want {
			t.Errorf("%s: record %d, want %d", name, got, one.want)
		}
	}
}

// A call for several records is told once for each process, unless its place in the body says which one it is for.
func TestCallsForSeveralRecordsAreTold(t *testing.T) {
	for _, form := range []history.IDForm{history.IDText, history.IDUUID, history.IDInt64} {
		ids := history.NewIDsAs("run", form, 10)
		id, other := ids.Token(0), ids.Token(1)
		for name, one := range map[string]struct {
			calls  Calls
			target string
			bodies []string
			want   int
		}{
			"a batch":          {Calls{}, "/bulk", []string{`[{"id":"` + id + `"},{"id":"` + other + `"}]`}, 1},
			"two batches":      {Calls{}, "/bulk", []string{id + " " + other, other + " " + id}, 1},
			"one after itself": {Calls{}, "/bulk", []string{id + " " + id + " " + other}, 1},
			"one record":       {Calls{}, "/one", []string{id, other, `{"id":"` + id + `","ref":"` + id + `"}`}, 0},
			"at a place":       {Calls{At: at(t, "$.id")}, "/one", []string{`{"id":"` + id + `","ref":"` + other + `"}`}, 0},
			"in the path":      {Calls{}, "/" + id, []string{other}, 0},
			"by the path":      {Calls{In: InPath}, "/" + id, []string{id + " " + other}, 0},
		} {
			b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, form, one.calls)
			for _, body := range one.bodies {
				b.call("POST", one.target, body)
			}
			told := b.sink.of(history.KindUnreadable)
			if len(told) != one.want {
				t.Errorf("%s, %s: told %d times, want %d", name, form, len(told), one.want)
			}
			if len(told) > 0 && (told[0].Text != "POST "+one.target || told[0].Code != history.None || told[0].Instance != 0) {
				t.Errorf("%s, %s: told as %+v", name, form, told[0])
			}
			b.SetRun(0, 1)
			b.client.CloseIdleConnections()
			b.call("POST", one.target, one.bodies[0])
			if told := b.sink.of(history.KindUnreadable); one.want > 0 && len(told) != one.want+1 {
				t.Errorf("%s, %s: a second process is told %d times", name, form, len(told)-one.want)
			}
		}
	}
}

// A service that reads numbers as double writes them in the way of its language.
func TestCallsCarryNumbersAsTheServiceWritesThem(t *testing.T) {
	ids := history.NewIDsAs("run", history.IDInt64, 10)
	id, other := ids.Token(1), ids.Token(0)
	double, err := strconv.ParseFloat(id, 64)
	if err != nil {
		t.Fatal(err)
	}
	place := Calls{In: InBody, At: at(t, "$.order.id")}
	for name, one := range map[string]struct {
		calls        Calls
		target, body string
		want         int32
	}{
		"a number":            {place, "/" + other, `{"ref":` + other + `,"order":{"id":` + id + `}}`, 1},
		"a string":            {place, "/", `{"order":{"id":"` + id + `"}}`, 1},
		"Python's float":      {place, "/", `{"order":{"id":` + id + `.0}}`, 1},
		"Java's double":       {place, "/", `{"order":{"id":` + strings.Replace(fmt.Sprint(double), "e+", "E", 1) + `}}`, 1},
		"another number":      {place, "/" + id, `{"order":{"id":1772356364000000}}`, history.None},
		"a list":              {place, "/" + id, `{"order":{"id":[` + id + `]}}`, history.None},
		"anywhere":            {Calls{}, "/pay", `{"at":1772356364000000,"ids":[17,` + id + `]}`, 1},
		"Go's %v in a path":   {Calls{In: InPath}, "/payments/" + fmt.Sprint(double), "", 1},
		"Go's %v in a query":  {Calls{In: InQuery}, "/?order=" + fmt.Sprint(double), "", 1},
		"escaped in a query":  {Calls{In: InQuery}, "/?order=" + url.QueryEscape(fmt.Sprint(double)), "", 1},
		"named in a query":    {Calls{In: InQuery, Name: "order"}, "/?order=" + fmt.Sprint(double), "", 1},
		"cut off in a path":   {Calls{In: InPath}, "/payments/" + id[:15], "", history.None},
		"longer in a path":    {Calls{In: InPath}, "/payments/" + id + "0", "", history.None},
		"rounded to float32":  {Calls{In: InPath}, fmt.Sprintf("/payments/%.0f", float32(double)), "", history.None},
		"beyond the last one": {Calls{In: InPath}, "/payments/" + ids.Token(10), "", history.None},
	} {
		b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 2)}, history.IDInt64, one.calls)
		b.call("POST", one.target, one.body)
		if got := b.sink.of(history.KindAttemptStart)[0].Record; got != one.want {
			t.Errorf("%s: record %d, want %d", name, got, one.want)
		}
	}
}

// A call without an id that is like those about records may be about a record that no call can name, if there are some.
func TestCallsAboutUnreadableRecordsAreNoStrays(t *testing.T) {
	for _, c := range []struct {
		other plan.Record
		count int64
		first string
	}{
		{plan.Record{Garbage: true}, 1, "GET /customers/7"},
		{plan.Record{Outcome: history.OutcomeSuccess}, 3, "POST /payments"},
	} {
		b := newCalls(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeSuccess}, c.other}}, history.IDUUID,
			Calls{In: InBody})
		b.call("POST", "/payments", "no id")
		b.call("GET", "/customers/7", "")
		b.call("POST", "/payments", b.ids.Token(0))
		b.call("POST", "/payments", "no id")
		if count, first := b.Strays(); count != c.count || first != c.first {
			t.Errorf("%+v: %d calls without an id, the first %q", c.other, count, first)
		}
	}
}

// Only so many texts of calls without an id are told apart, and all calls are counted.
func TestStraysAreCounted(t *testing.T) {
	a := NewAttempts(AttemptsConfig{Plan: &plan.Plan{}})
	for i := range 2 * straysLimit {
		a.Stray(fmt.Sprint("GET /", i))
	}
	if count, first := a.Strays(); count != 2*straysLimit || first != "GET /0" || len(a.strays.list) != straysLimit {
		t.Errorf("%d calls of %d texts, the first %q", count, len(a.strays.list), first)
	}
}

func TestCallsAreToldWithoutTheirID(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 1)}, history.IDUUID, Calls{})
	id := b.ids.Token(0)
	b.call("PUT", "/payments/"+id+"/lines/"+id+"?token=secret", "")
	b.call("GET", "/customers/7", "")
	b.call("POST", "/%01"+strings.Repeat("é", 500), id)
	if count, first := b.Strays(); count != 1 || first != "GET /customers/7" {
		t.Errorf("%d calls without an id, the first %q", count, first)
	}
	var told []string
	for _, event := range b.sink.of(history.KindAttemptStart) {
		told = append(told, event.Text)
	}
	if told[0] != "PUT /payments/{id}/lines/{id}" || told[1] != "GET /customers/7" {
		t.Errorf("told as %q", told)
	}
	if len(told[2]) > 200 || !strings.HasPrefix(told[2], "POST /\uFFFDéé") || strings.ToValidUTF8(told[2], "") != told[2] {
		t.Errorf("a long path is told as %q", told[2])
	}
}

func TestCallsAreAnsweredAsDeclared(t *testing.T) {
	text := func(s string) *string { return &s }
	b := newCalls(t, &plan.Plan{RetryAfter: 2 * time.Second, ErrorText: "hostile", Records: []plan.Record{
		{Outcome: history.OutcomeTransient, Failures: 1}, {Outcome: history.OutcomeRateLimited, Failures: 1},
		{Outcome: history.OutcomePermanent}, {Outcome: history.OutcomeLogical},
	}}, history.IDUUID, Calls{Answers: map[history.Outcome]Response{
		history.OutcomeSuccess: {Status: 201, Body: text(`{"id":"{{.ID}}","again":"{{.ID}}"}`),
			Headers: map[string]string{"Location": "/x"}},
		history.OutcomeTransient: {Status: 500, Body: text(`<error>{{.Error}}</error>`),
			Headers: map[string]string{"Content-Type": "text/xml"}},
		history.OutcomePermanent: {Status: 404},
		history.OutcomeLogical:   {Status: 204},
	}})
	id := b.ids.Token(0)
	status, header, body := b.call("PUT", "/"+id, "")
	if status != 500 || header.Get("Content-Type") != "text/xml" || !strings.HasPrefix(body, "<error>the stock service") ||
		strings.ContainsAny(body, "\r\n\x00") {
		t.Errorf("transient is answered %d, %v, %q", status, header, body)
	}
	status, header, body = b.call("PUT", "/"+id, "")
	if status != 201 || header.Get("Location") != "/x" || body != `{"id":"`+id+`","again":"`+id+`"}` ||
		header.Get("Content-Type") != "application/json" {
		t.Errorf("success is answered %d, %v, %q", status, header, body)
	}
	status, header, _ = b.call("PUT", "/"+b.ids.Token(1), "")
	if status != 429 || header.Get("Retry-After") != "2" {
		t.Errorf("a rate limit is answered %d, %v", status, header)
	}
	if status, _, body = b.call("PUT", "/"+b.ids.Token(2), ""); status != 404 || !strings.Contains(body, `"permanent"`) {
		t.Errorf("permanent is answered %d, %q", status, body)
	}
	if status, _, body = b.call("PUT", "/"+b.ids.Token(3), ""); status != 204 || body != "" {
		t.Errorf("logical is answered %d, %q", status, body)
	}
	var outcomes []string
	for _, end := range b.sink.of(history.KindAttemptEnd) {
		outcomes = append(outcomes, fmt.Sprint(end.Outcome, end.Code))
	}
	if got := strings.Join(outcomes, " "); got != "transient 500 success 201 rate-limited 429 permanent 404 logical 204" {
		t.Errorf("noted as %s", got)
	}
}

// A change of the error texts is in the declared body, too.
func TestChangedTextsFillDeclaredBodies(t *testing.T) {
	body := `{"why":"{{.Error}}"}`
	b := newCalls(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomePermanent}}}, history.IDText,
		Calls{Answers: map[history.Outcome]Response{history.OutcomePermanent: {Status: 410, Body: &body}}})
	end, err := b.ErrorText("non-ascii", func() {})
	if err != nil {
		t.Fatal(err)
	}
	status, _, got := b.call("GET", "/"+b.ids.Token(0), "")
	if status != 410 || !strings.HasPrefix(got, `{"why":"the order has no`) || !strings.Contains(got, "在庫") {
		t.Errorf("answered %d, %q", status, got)
	}
	end()
	if _, _, got = b.call("GET", "/"+b.ids.Token(0), ""); strings.Contains(got, "在庫") {
		t.Errorf("answered %q after the change", got)
	}
}

// What a service itself says is not replaced: its status, and the body that it gives.
func TestGatewaysPageLeavesDeclaredBodies(t *testing.T) {
	body := `{"why":"{{.Error}}"}`
	for want, declared := range map[string]Response{
		"503 text/html <!DOCTYPE":       {Headers: map[string]string{"Content-Type": "application/problem+json"}},
		"502 text/html <!DOCTYPE":       {Status: 502},
		`502 application/json {"why":"`: {Status: 502, Body: &body},
		`409 application/json {"error"`: {Status: 409},
	} {
		b := newCalls(t, &plan.Plan{ErrorText: "page", Records: []plan.Record{{Outcome: history.OutcomeExhausted}}},
			history.IDText, Calls{Answers: map[history.Outcome]Response{history.OutcomeTransient: declared}})
		status, header, body := b.call("GET", "/"+b.ids.Token(0), "")
		if got := fmt.Sprint(status, " ", header.Get("Content-Type"), " ", body); !strings.HasPrefix(got, want) {
			t.Errorf("answered %s, want %s", got, want)
		}
	}
}

func TestRoutesAreNoAttempts(t *testing.T) {
	token := "t"
	b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 1)}, history.IDText, Calls{Routes: []Route{
		{Method: "POST", Path: "/oauth/token", Response: Response{Status: 200, Body: &token}},
		{Path: "/customers/*/address", Response: Response{Status: 302, Headers: map[string]string{"Location": "/there"}}},
	}})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	id := b.ids.Token(0)
	for _, one := range []struct {
		method, target string
		status         int
	}{
		{"POST", "/oauth/token", 200}, {"GET", "/customers/" + id + "/address", 302}, {"GET", "/healthz", 200},
		{"GET", "/oauth/token", 404}, {"GET", "/customers//address", 404}, {"GET", "/customers/7/address/", 404},
		{"GET", "/customers/" + id, 200},
	} {
		if status, _, _ := b.call(one.method, one.target, ""); status != one.status {
			t.Errorf("%s %s is answered %d, want %d", one.method, one.target, status, one.status)
		}
	}
	if attempts := len(b.sink.of(history.KindAttemptStart)); attempts != 4 {
		t.Errorf("%d attempts were noted, want the last four calls", attempts)
	}
	if _, _, body := b.call("POST", "/oauth/token", ""); body != "t" {
		t.Errorf("the token is %q", body)
	}
}
