package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestCheckTokens(t *testing.T) {
	const good, other = "0123456789abcdef", "fedcba9876543210"
	for _, one := range []struct {
		name                string
		injector, responder string
		wrong               string
	}{
		{"both", good, other, ""},
		{"short", "hunter2", "", "the injector's token has 7 characters"},
		{"long", "", strings.Repeat("x", 257), "the responder's token has 257 characters"},
		{"no header carries it", good + "; x", "", "the injector's token has characters"},
		{"two lines", good + "\n" + good, "", "the injector's token has characters"},
		{"the same", good, good, "the same token"},
	} {
		tokens := map[drill.Role]string{}
		for role, token := range map[drill.Role]string{drill.RoleInjector: one.injector, drill.RoleResponder: one.responder} {
			if token != "" {
				tokens[role] = token
			}
		}
		err := CheckTokens(tokens)
		if (err == nil) != (one.wrong == "") || err != nil && !strings.Contains(err.Error(), one.wrong) {
			t.Errorf("%s: %v", one.name, err)
		}
		if err != nil && (one.injector != "" && strings.Contains(err.Error(), one.injector) ||
			one.responder != "" && strings.Contains(err.Error(), one.responder)) {
			t.Errorf("%s: the error tells the token: %v", one.name, err)
		}
	}
}

// A chosen token is required on loopback, too, for its role alone. Neither the link nor the command line contains it.
func TestAChosenToken(t *testing.T) {
	const token = "a-token-of-ones-own"
	s := must.Get(Listen(Options{Address: "127.0.0.1:0", Tokens: map[drill.Role]string{drill.RoleInjector: token}}))(t)
	defer s.Close()
	handler := s.routes(newFake(t))
	ask := func(method, path, bearer string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, s.base()+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for _, one := range []struct {
		path, bearer string
		status       int
	}{
		{"/injector/catalogue", "", http.StatusUnauthorized}, {"/injector/catalogue", token + "x", http.StatusUnauthorized},
		{"/injector/catalogue", token, http.StatusOK}, {"/responder/catalogue", "", http.StatusOK},
	} {
		if w := ask(http.MethodGet, one.path, one.bearer, nil); w.Code != one.status {
			t.Errorf("%s with %q: %d", one.path, one.bearer, w.Code)
		}
	}
	if w := ask(http.MethodPost, "/injector/login", "", url.Values{"token": {token}}); w.Code !=
		http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), token) {
		t.Errorf("logging in: %d, %v", w.Code, w.Header())
	}
	if w := ask(http.MethodPost, "/injector/do/heal-all", token,
		url.Values{"form": {s.guard.keys[drill.RoleInjector]}}); w.Code != http.StatusSeeOther {
		t.Errorf("healing with the token: %d %s", w.Code, w.Body)
	}
	for _, told := range []string{s.Link(drill.RoleInjector), s.HealCommand(drill.RoleInjector, true),
		ask(http.MethodGet, "/injector/", "", nil).Body.String(),
		ask(http.MethodGet, "/injector/", token, nil).Body.String()} {
		if strings.Contains(told, token) {
			t.Errorf("the token is told: %s", told)
		}
	}
	if !strings.Contains(s.HealCommand(drill.RoleInjector, true), "Bearer THE-INJECTORS-TOKEN") {
		t.Errorf("the command line does not say where the token goes: %s", s.HealCommand(drill.RoleInjector, true))
	}
}
