package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// elsewhere returns the routes of a server as if it listened on an address that others can reach.
func elsewhere(t *testing.T, session Session, apart bool) (*Server, http.Handler) {
	t.Helper()
	s := must.Get(Listen(Options{Address: "127.0.0.1:0", Apart: apart}))(t)
	t.Cleanup(func() { _ = s.Close() })
	s.guard = newGuard(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7333}, apart, nil)
	return s, s.routes(session)
}

// ask sends a request to routes and returns the answer.
func ask(routes http.Handler, method, path string, body io.Reader,
	header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	r.Host = "192.0.2.7:7333"
	for key, value := range header {
		if key == "Host" {
			r.Host = value
		}
		r.Header.Set(key, value)
	}
	w := httptest.NewRecorder()
	routes.ServeHTTP(w, r)
	return w
}

// local returns the routes of a server on loopback.
func local(t *testing.T, session Session, apart bool) (*Server, http.Handler) {
	t.Helper()
	s := must.Get(Listen(Options{Address: "127.0.0.1:0", Apart: apart}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s, s.routes(session)
}

func TestOnlyKnownHostsAreAnswered(t *testing.T) {
	_, onLoopback := local(t, newFake(t), false)
	_, onAddress := elsewhere(t, newFake(t), false)
	for _, one := range []struct {
		host              string
		loopback, address bool
	}{
		{"127.0.0.1:7333", true, true}, {"localhost:7333", true, true}, {"LOCALHOST:8000", true, true},
		{"[::1]:7333", true, true}, {"127.0.0.1", true, true},
		{"192.0.2.7:7333", false, true}, {"[2001:db8::1]:7333", false, true},
		{"attacker.example:7333", false, false}, {"localhost.attacker.example", false, false},
		{"127.0.0.1.attacker.example:80", false, false}, {"", false, false},
	} {
		for name, routes := range map[string]http.Handler{"loopback": onLoopback, "address": onAddress} {
			want := one.loopback
			if name == "address" {
				want = one.address
			}
			for _, path := range []string{"/assets/drill.js", "/injector/", "/injector/do/stop"} {
				got := ask(routes, "GET", path, nil, map[string]string{"Host": one.host}).Code
				if (got != http.StatusMisdirectedRequest) != want {
					t.Errorf("on %s, %s of host %q is answered %d; it should be let in: %v", name, path, one.host, got, want)
				}
			}
		}
	}
}

func TestChangesComeFromTheOwnPageOnly(t *testing.T) {
	for _, one := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"own page", map[string]string{"Origin": "http://127.0.0.1:7333", "Sec-Fetch-Site": "same-origin",
			formHeader: "right"}, 200},
		{"own page in an old browser", map[string]string{"Origin": "http://127.0.0.1:7333", formHeader: "right"}, 200},
		{"command line", map[string]string{formHeader: "right"}, 200},
		{"no key", nil, 403},
		{"wrong key", map[string]string{formHeader: "wrong"}, 403},
		{"key of the other role", map[string]string{formHeader: "other"}, 403},
		{"other site", map[string]string{"Origin": "http://attacker.example", formHeader: "right"}, 403},
		{"other port", map[string]string{"Origin": "http://127.0.0.1:3000", formHeader: "right"}, 403},
		{"no origin to speak of", map[string]string{"Origin": "null", formHeader: "right"}, 403},
		{"other site, new browser", map[string]string{"Sec-Fetch-Site": "cross-site", formHeader: "right"}, 403},
		{"same site, other origin", map[string]string{"Sec-Fetch-Site": "same-site", formHeader: "right"}, 403},
		{"link", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403},
	} {
		f := newFake(t)
		s, routes := local(t, f, false)
		header := map[string]string{"Host": "127.0.0.1:7333", "Content-Type": "application/json"}
		maps.Copy(header, one.header)
		switch header[formHeader] {
		case "right":
			header[formHeader] = s.guard.keys[drill.RoleInjector]
		case "other":
			header[formHeader] = s.guard.keys[drill.RoleResponder]
		}
		for _, action := range []string{"heal-all", "break", "stop"} {
			body := strings.NewReader(`{"spec": {"downstream": {"outage": true}}}`)
			if got := ask(routes, "POST", "/injector/do/"+action, body, header); got.Code != one.want {
				t.Errorf("%s: %s is answered %d %s, want %d", one.name, action, got.Code, got.Body, one.want)
			}
		}
		if did := len(f.faults) > 0 || f.result != nil; did != (one.want == 200) {
			t.Errorf("%s: something was done: %v", one.name, did)
		}
	}
}

func TestOtherAddressesNeedATokenForEachRole(t *testing.T) {
	f := newFake(t)
	s, routes := elsewhere(t, f, false)
	if link := s.Link(drill.RoleInjector); !strings.Contains(link, "#") || strings.Contains(link, "?") {
		t.Errorf("the token is not behind the # of %s", link)
	}
	token, other := s.guard.tokens[drill.RoleInjector], s.guard.tokens[drill.RoleResponder]
	if token == other || len(token) < 20 {
		t.Fatalf("the tokens are %q and %q", token, other)
	}
	paths := []string{"/injector/", "/injector/events", "/injector/catalogue", "/injector/files/report.html"}
	for _, header := range []map[string]string{
		nil, {"Authorization": "Bearer " + other}, {"Authorization": "Bearer "}, {"Authorization": token},
		{"Cookie": s.guard.cookie + "=" + other}, {"Cookie": s.guard.cookie + "="},
	} {
		for _, path := range paths {
			got := ask(routes, "GET", path, nil, header)
			asks := path == "/injector/" && got.Code == 200 && strings.Contains(got.Body.String(), "needs its token")
			if got.Code != http.StatusUnauthorized && !asks ||
				strings.Contains(got.Body.String(), s.guard.keys[drill.RoleInjector]) ||
				strings.Contains(got.Body.String(), "orders") {
				t.Errorf("%s with %v is answered %d: %s", path, header, got.Code, got.Body)
			}
		}
		if got := ask(routes, "POST", "/injector/do/stop", nil,
			merge(header, formHeader, s.guard.keys[drill.RoleInjector])); got.Code != http.StatusUnauthorized {
			t.Errorf("stop with %v is answered %d", header, got.Code)
		}
	}
	for _, header := range []map[string]string{{"Authorization": "Bearer " + token},
		{"Cookie": s.guard.cookie + "=x; " + s.guard.cookie + "=" + token}} {
		if got := ask(routes, "GET", "/injector/", nil, header); got.Code != 200 ||
			!strings.Contains(got.Body.String(), s.guard.keys[drill.RoleInjector]) {
			t.Errorf("with %v the page is answered %d", header, got.Code)
		}
	}
}

func merge(header map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	maps.Copy(out, header)
	return out
}

func TestLoginGivesACookieThatGoesNowhereElse(t *testing.T) {
	s, routes := elsewhere(t, newFake(t), false)
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	if got := ask(routes, "POST", "/injector/login", strings.NewReader("token=guess"), form); got.Code != 401 || len(
		got.Result().Cookies()) > 0 {
		t.Errorf("a wrong token is answered %d with %v", got.Code, got.Result().Cookies())
	}
	if got := ask(routes, "POST", "/injector/login", strings.NewReader("token="+s.guard.tokens[drill.RoleInjector]),
		merge(form, "Origin", "http://attacker.example")); got.Code != 403 {
		t.Errorf("another site's login is answered %d", got.Code)
	}
	got := ask(routes, "POST", "/injector/login", strings.NewReader("token="+s.guard.tokens[drill.RoleInjector]), form)
	if got.Code != 303 || len(got.Result().Cookies()) != 1 {
		t.Fatalf("the right token is answered %d with %v", got.Code, got.Result().Cookies())
	}
	cookie := got.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/injector/" ||
		!strings.HasSuffix(cookie.Name, "-7333") {
		t.Errorf("the cookie is %v", cookie)
	}
	if got := ask(routes, "GET", "/injector/", nil, map[string]string{"Cookie": cookie.String()}); !strings.Contains(
		got.Body.String(), s.guard.keys[drill.RoleInjector]) {
		t.Errorf("with the cookie the page is answered %d", got.Code)
	}
}

func TestApartTheInjectorNeedsATokenOnLoopbackToo(t *testing.T) {
	s, routes := local(t, newFake(t), true)
	on := map[string]string{"Host": "localhost"}
	if got := ask(routes, "GET", "/injector/", nil, on); !strings.Contains(got.Body.String(), "needs its token") {
		t.Errorf("the injector's page is answered %d", got.Code)
	}
	if got := ask(routes, "GET", "/responder/", nil, on); got.Code != 200 {
		t.Errorf("the responder's page is answered %d", got.Code)
	}
	if got := ask(routes, "GET", "/", nil, on); got.Header().Get("Location") != "/responder/" {
		t.Errorf("the address alone leads to %s", got.Header().Get("Location"))
	}
	if _, needed := s.guard.tokens[drill.RoleResponder]; needed {
		t.Error("the responder needs a token on loopback")
	}
}

func TestEveryAnswerIsClosedToOthers(t *testing.T) {
	s, routes := local(t, newFake(t), false)
	for _, one := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 303, ""}, {"GET", "/injector/", 200, "text/html; charset=utf-8"},
		{"GET", "/responder/", 200, "text/html; charset=utf-8"},
		{"GET", "/assets/drill.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/assets/uplot.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/assets/drill.css", 200, "text/css; charset=utf-8"}, {"GET", "/assets/icon.svg", 200, "image/svg+xml"},
		{"GET", "/assets/drill.html.tmpl", 404, ""}, {"GET", "/assets/..%2fserver.go", 404, ""},
		{"GET", "/injector/catalogue", 200, "application/json"},
		{"GET", "/injector/do/stop", 405, ""}, {"PUT", "/injector/do/stop", 405, ""}, {"POST", "/injector/events", 405, ""},
		{"POST", "/injector/do/nothing", 404, ""},
		{"GET", "/injector/files/report.html", 404, ""}, {"GET", "/nobody/", 404, ""},
	} {
		got := ask(routes, one.method, one.path, nil,
			map[string]string{"Host": "127.0.0.1", formHeader: s.guard.keys[drill.RoleInjector]})
		header := got.Header()
		if got.Code != one.status || one.kind != "" && header.Get("Content-Type") != one.kind {
			t.Errorf("%s %s is answered %d %s, want %d %s", one.method, one.path, got.Code, header.Get("Content-Type"),
				one.status, one.kind)
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") ||
			header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" ||
			header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s is answered with %v", one.method, one.path, header)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	f := newFake(t)
	s, routes := local(t, f, false)
	for _, one := range []struct {
		name, kind, body string
		want             int
	}{
		{"too large", "application/json", `{"text": "` + strings.Repeat("x", 2*bodyLimit) + `"}`, 413},
		{"no JSON", "application/json", `{"text": `, 400}, {"wrong type", "application/json", `{"text": 7}`, 400},
		{"other type", "text/plain", `{"text": "x"}`, 415},
		{"long note", "application/json", `{"text": "` + strings.Repeat("é", textLimit+1) + `"}`, 400},
		{"long name", "application/json", `{"by": "` + strings.Repeat("é", nameLimit+1) + `", "text": "x"}`, 400},
	} {
		header := map[string]string{"Host": "127.0.0.1", "Content-Type": one.kind,
			formHeader: s.guard.keys[drill.RoleInjector]}
		if got := ask(routes, "POST", "/injector/do/note", strings.NewReader(one.body), header); got.Code != one.want {
			t.Errorf("%s is answered %d %s, want %d", one.name, got.Code, got.Body, one.want)
		}
	}
	if len(f.log) > 1 {
		t.Errorf("something was noted: %v", f.log)
	}
}

// panicking is a session that panics.
type panicking struct{ *fake }

func (panicking) Note(drill.Actor, string) error { panic("unforeseen " + secret) }

func TestAPanicStaysWithItsRequest(t *testing.T) {
	var logged bytes.Buffer
	s := must.Get(Listen(Options{Address: "127.0.0.1:0", Log: &logged}))(t)
	defer s.Close()
	routes := s.routes(panicking{newFake(t)})
	header := map[string]string{"Host": "127.0.0.1", "Content-Type": "application/json",
		formHeader: s.guard.keys[drill.RoleResponder]}
	got := ask(routes, "POST", "/responder/do/note", strings.NewReader(`{"text": "x"}`), header)
	if got.Code != 500 || strings.Contains(got.Body.String(), secret) || !strings.Contains(logged.String(), "unforeseen") {
		t.Errorf("it is answered %d %q, and logged %q", got.Code, got.Body, logged.String())
	}
}

func TestTokensAreNeverLogged(t *testing.T) {
	var logged bytes.Buffer
	s := must.Get(Listen(Options{Address: "127.0.0.1:0", Apart: true, Log: &logged}))(t)
	defer s.Close()
	routes := s.routes(panicking{newFake(t)})
	token := s.guard.tokens[drill.RoleInjector]
	header := map[string]string{"Host": "127.0.0.1", "Authorization": "Bearer " + token,
		"Content-Type": "application/json", formHeader: s.guard.keys[drill.RoleInjector]}
	ask(routes, "POST", "/injector/do/note", strings.NewReader(`{"text": "x"}`), header)
	ask(routes, "POST", "/injector/login", strings.NewReader("token="+token),
		map[string]string{"Host": "127.0.0.1", "Content-Type": "application/x-www-form-urlencoded"})
	if logged.Len() == 0 || strings.Contains(logged.String(), token) {
		t.Errorf("logged: %q", logged.String())
	}
}

func TestATakenPortIsToldAsSuch(t *testing.T) {
	s, err := Listen(Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	address := s.listener.Addr().String()
	if _, err = Listen(Options{Address: address}); err == nil ||
		!strings.Contains(err.Error(), address+" is taken") || !strings.Contains(err.Error(), "another port") {
		t.Errorf("the second drill at %s is told: %v", address, err)
	}
	if _, err = Listen(Options{Address: "127.0.0.1:http-or-so"}); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:http-or-so") {
		t.Errorf("a bad address is told as: %v", err)
	}
}

func TestTheCommandLineHealsEverything(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("SKIPPED: the printed command line uses curl: %v", err)
	}
	f := newFake(t)
	for _, apart := range []bool{false, true} {
		s := serve(t, f, Options{Apart: apart})
		for _, role := range roles() {
			must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
				map[string]any{"downstream": true}))(t)
			token, needed := s.guard.tokens[role]
			if needed && (!strings.Contains(s.HealCommand(role, true), token) ||
				strings.Contains(s.HealCommand(role, false), token)) {
				t.Errorf("apart %v: the token of the %s is told where it should not, or the other way around", apart, role)
			}
			command := s.HealCommand(role, true)
			out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
			if err != nil || len(f.broken()) > 0 || !strings.Contains(string(out), "healed") {
				t.Errorf("%s: %v: %s; in force: %v", command, err, out, f.broken())
			}
		}
	}
}

func TestAFormHealsWithoutAnyScript(t *testing.T) {
	f := newFake(t)
	s := serve(t, f, Options{})
	must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
		map[string]any{"downstream": true}))(t)
	response := must.Get(http.PostForm(s.Link(drill.RoleResponder)+"do/heal-all",
		map[string][]string{formField: {s.guard.keys[drill.RoleResponder]}}))(t)
	page, _ := io.ReadAll(response.Body)
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusOK || response.Request.URL.Path != "/responder/" ||
		len(f.broken()) > 0 || !strings.Contains(string(page), "Heal everything") {
		t.Errorf("it leads to %s with %d, in force: %v", response.Request.URL, response.StatusCode, f.broken())
	}
}

// Lifting faults continues when the browser is closed meanwhile.
func TestHealingGoesOnWhenTheBrowserHasGone(t *testing.T) {
	f := newFake(t)
	f.stall = make(chan struct{})
	s, routes := local(t, f, false)
	must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
		map[string]any{"downstream": true}))(t)
	browser, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(browser, http.MethodPost, "/injector/do/heal-all", nil)
	r.Host = "127.0.0.1"
	r.Header.Set(formHeader, s.guard.keys[drill.RoleInjector])
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		routes.ServeHTTP(httptest.NewRecorder(), r)
	}()
	f.stall <- struct{}{} // it has begun
	leave()
	f.stall <- struct{}{}
	<-answered
	if got := f.broken(); len(got) > 0 {
		t.Errorf("healing ended with the browser: %v is still in force", got)
	}
}

// Until the drill is over, no byte of any answer to a responder reveals a fault.
func TestTheResponderIsNotToldWhatWasBroken(t *testing.T) {
	f := newFake(t)
	s := serve(t, f, Options{Apart: true})
	must.Get(f.Break(t.Context(), drill.Actor{Name: "Ada", Role: drill.RoleInjector},
		map[string]any{"downstream": map[string]any{"outage": true}}))(t)
	var seen bytes.Buffer
	stream := listen(t, s.Link(drill.RoleResponder)+"events")
	for frames := 0; frames < 3; {
		name, data := stream.next()
		seen.WriteString(name + data)
		if name == "frame" {
			frames++
		}
	}
	for _, path := range []string{"", "catalogue", "files/report.html", "files/debrief.html", "files/recorded.yaml",
		"do/break", "../injector/", "../injector/events", "../injector/catalogue"} {
		seen.WriteString(body(t, "GET", s.Link(drill.RoleResponder)+path, "", nil))
	}
	key := map[string]string{formHeader: s.guard.keys[drill.RoleResponder], "Content-Type": "application/json"}
	for _, action := range []string{"break", "heal", "notice", "note", "replay"} {
		seen.WriteString(body(t, "POST", s.Link(drill.RoleResponder)+"do/"+action, `{"fault": "f1", "text": "hm"}`, key))
	}
	for _, word := range []string{secret, "outage", "answers 503", "orders: the downstream fails",
		s.guard.tokens[drill.RoleInjector], s.guard.keys[drill.RoleInjector]} {
		if at := strings.Index(seen.String(), word); at >= 0 {
			t.Errorf("the responder gets %q in …%s…", word, seen.String()[max(0, at-80):min(seen.Len(), at+80)])
		}
	}
	injected := listenAs(t, s, drill.RoleInjector)
	for told := ""; !strings.Contains(told, secret); _, told = injected.next() {
		continue // counter-check: the injector does see it
	}
	must.Do(t, f.Stop(drill.Actor{Role: drill.RoleInjector}))
	for told := ""; !strings.Contains(told, secret); _, told = stream.next() {
		continue
	}
	if got := body(t, "GET", s.Link(drill.RoleResponder)+"files/report.html", "", nil); !strings.Contains(got,
		"<h1>report.html") {
		t.Errorf("when the drill is over the report is %q", got)
	}
	for _, path := range []string{"files/..%2f..%2fetc%2fpasswd", "files/secret.txt", "files/"} {
		if got := body(t, "GET", s.Link(drill.RoleResponder)+path, "", nil); !strings.Contains(got, "404") {
			t.Errorf("%s is answered %q", path, got)
		}
	}
}

// body returns the text of an answer.
func body(t *testing.T, method, url, content string, header map[string]string) string {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(content)))(t)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response := must.Get(client.Do(r))(t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	return response.Status + " " + string(text)
}

func TestWhatWasAskedReachesTheSession(t *testing.T) {
	f := newFake(t)
	s, routes := local(t, f, false)
	header := map[string]string{"Host": "127.0.0.1", "Content-Type": "application/json",
		formHeader: s.guard.keys[drill.RoleInjector]}
	for _, one := range []struct{ action, body string }{
		{"break", `{"by": " Ada ", "spec": {"network": {"link": "brokers", "latency": "1s"}}}`}, {"heal", `{"fault": "f1"}`},
		{"heal-all", `{}`}, {"kill", `{"instance": 1}`},
		{"pause", `{"instance": 2}`}, {"resume", `{"instance": 2}`}, {"restart", `{"instance": 1}`},
		{"scale", `{"instances": 5}`}, {"replay", `{}`},
		{"notice", `{"text": "lag"}`}, {"note", `{"text": "we wait"}`}, {"stop", `{}`},
	} {
		before := len(f.log)
		got := ask(routes, "POST", "/injector/do/"+one.action, strings.NewReader(one.body), header)
		var answered told
		if err := json.Unmarshal(got.Body.Bytes(), &answered); err != nil || got.Code != 200 || answered.Message == "" {
			t.Errorf("%s is answered %d %s", one.action, got.Code, got.Body)
		}
		if len(f.log) != before+1 || f.log[before].Action != one.action || f.log[before].Who.Role != drill.RoleInjector {
			t.Errorf("%s was noted as %v", one.action, f.log[before:])
		}
	}
	if f.log[1].Who.Name != "Ada" || f.instances != 5 {
		t.Errorf("it came as %v, and %d instances", f.log[1].Who, f.instances)
	}
	if got := ask(routes, "POST", "/injector/do/heal", strings.NewReader(`{"fault": "f9"}`), header); got.Code !=
		409 || !strings.Contains(got.Body.String(), "no such fault") {
		t.Errorf("what can't be healed is answered %d %s", got.Code, got.Body)
	}
}
