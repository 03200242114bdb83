package web

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// broken lists the faults of links in force, as scenarios write them.
func specs(f *fake) (all []map[string]any) {
	for _, fault := range f.broken() {
		all = append(all, fault.Spec["network"].(map[string]any))
	}
	return all
}

func wantStatus(t *testing.T, what string, err error, status int) {
	t.Helper()
	var failure *toxiproxy.ApiError
	if !errors.As(err, &failure) || failure.Status != status {
		t.Errorf("%s: got %v, want status %d", what, err, status)
	}
}

// What toxiproxy's own client does becomes faults of the drill.
func TestToxiproxyClient(t *testing.T) {
	session := newFake(t)
	client := toxiproxy.NewClient(serve(t, session, Options{}).Toxiproxy(true))
	proxies, err := client.Proxies()
	if err != nil || len(proxies) != 4 || !proxies["broker-2"].Enabled || session.came.Load() == 0 {
		t.Fatalf("proxies: %v, %v, seen %d times", proxies, err, session.came.Load())
	}
	downstream := proxies["downstream"]

	added, err := downstream.AddToxic("lag", "latency", "upstream", 0.3, toxiproxy.Attributes{"latency": 100,
		"jitter": 20})
	want := []map[string]any{{"link": "downstream", "direction": "requests", "toxicity": "30%", "latency": "80ms",
		"jitter": "40ms"}}
	if err != nil || added.Name != "lag" || !reflect.DeepEqual(specs(session), want) {
		t.Fatalf("added %v, %v: in force are %v, want %v", added, err, specs(session), want)
	}
	if by := session.broken()[0].By; *by != (drill.Actor{Name: "toxiproxy-cli", Role: drill.RoleInjector}) {
		t.Errorf("it was done by %v", by)
	}
	_, err = downstream.AddToxic("lag", "latency", "", 1, toxiproxy.Attributes{"latency": 100})
	wantStatus(t, "a name twice", err, http.StatusConflict)
	_, err = downstream.AddToxic("", "timeout", "", 1, toxiproxy.Attributes{"timeout": 100})
	wantStatus(t, "what a link can't do", err, http.StatusBadRequest)

	must.Get(downstream.UpdateToxic("lag", 1, toxiproxy.Attributes{"latency": 300}))(t)
	if got := specs(session); len(got) != 1 || got[0]["latency"] != "280ms" || got[0]["direction"] != "requests" {
		t.Errorf("after the change, in force are %v", got)
	}
	toxics, err := downstream.Toxics()
	if err != nil || len(toxics) != 1 || toxics[0].Name != "lag" || toxics[0].Attributes["latency"] != 300.0 {
		t.Errorf("toxics: %v, %v", toxics, err)
	}
	if err := errors.Join(downstream.RemoveToxic("lag")); err != nil || len(specs(session)) != 0 {
		t.Errorf("removed: %v, in force are %v", err, specs(session))
	}
	wantStatus(t, "removed twice", downstream.RemoveToxic("lag"), http.StatusNotFound)
	wantStatus(t, "deleting a link", downstream.Delete(), http.StatusMethodNotAllowed)
	_, err = client.CreateProxy("another", "127.0.0.1:1", "127.0.0.1:2")
	wantStatus(t, "creating a link", err, http.StatusMethodNotAllowed)
	_, err = client.Proxy("broker-9")
	wantStatus(t, "a link that isn't there", err, http.StatusNotFound)
}

// A proxy is disabled while its link is down, whoever has done that, and what was injected on the page shows as toxics.
func TestToxiproxyShowsTheDrill(t *testing.T) {
	session := newFake(t)
	client := toxiproxy.NewClient(serve(t, session, Options{}).Toxiproxy(true))
	page := drill.Actor{Name: "Ada", Role: drill.RoleInjector}
	for _, spec := range []map[string]any{
		{"link": "brokers", "slow_close": "500ms"}, {"link": "broker 2", "down": true},
		{"link": "broker 3", "half_open": true},
	} {
		must.Get(session.Break(t.Context(), page, map[string]any{"network": spec}))(t)
	}
	proxies := must.Get(client.Proxies())(t)
	var types []string
	for _, toxic := range proxies["broker-3"].ActiveToxics {
		types = append(types, toxic.Type+" "+toxic.Stream)
	}
	slices.Sort(types)
	if want := "half_open downstream, half_open upstream, slow_close downstream, slow_close upstream"; strings.Join(
		types, ", ") != want {
		t.Errorf("broker 3 has %v, want %s", types, want)
	}
	if proxies["broker-2"].Enabled || !proxies["broker-1"].Enabled || len(proxies["downstream"].ActiveToxics) > 0 {
		t.Errorf("proxies: %+v", proxies)
	}
	must.Do(t, errors.Join(proxies["broker-2"].Enable(), proxies["broker-1"].Disable(),
		proxies["broker-1"].Disable()))
	if got := specs(session); len(got) != 3 || got[2]["link"] != "broker 1" || got[2]["down"] != true {
		t.Errorf("in force are %v", got)
	}
	moved := *proxies["broker-1"]
	moved.Listen = "127.0.0.1:1"
	wantStatus(t, "another address", moved.Save(), http.StatusBadRequest)
	if err := client.ResetState(); err != nil || len(session.broken()) > 0 {
		t.Errorf("reset: %v, in force are %v", err, specs(session))
	}
}

// A run has the API, and no page.
func TestToxiproxyWithoutAPage(t *testing.T) {
	server := serve(t, newFake(t), Options{Links: true})
	if proxies, err := toxiproxy.NewClient(server.Toxiproxy(true)).Proxies(); err != nil || len(proxies) != 4 {
		t.Errorf("proxies: %v, %v", proxies, err)
	}
	for _, path := range []string{"/", "/injector/", "/responder/events", "/assets/drill.js"} {
		answer := must.Get(http.Get(server.base() + path))(t)
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered %s", path, answer.Status)
		}
	}
}

// The API needs what the injector's page needs, and no browser gets in.
func TestToxiproxyIsGuarded(t *testing.T) {
	session := newFake(t)
	token := "a-token-of-the-injectors-own"
	server := serve(t, session, Options{Apart: true, Tokens: map[drill.Role]string{drill.RoleInjector: token}})
	address := server.Toxiproxy(true)
	if strings.Contains(address, token) {
		t.Errorf("%s reveals a chosen token", address)
	}
	_, err := toxiproxy.NewClient(address).Proxies()
	wantStatus(t, "without the token", err, http.StatusUnauthorized)
	known := strings.Replace(address, "THE-INJECTORS-TOKEN", token, 1)
	if _, err := toxiproxy.NewClient(known).Proxies(); err != nil {
		t.Errorf("with the token: %v", err)
	}
	strange := strings.Replace(known, server.guard.keys[drill.RoleInjector], server.guard.keys[drill.RoleResponder], 1)
	_, err = toxiproxy.NewClient(strange).Proxies()
	wantStatus(t, "with the responder's key", err, http.StatusForbidden)
	browser := toxiproxy.NewClient(known)
	browser.UserAgent = "Mozilla/5.0"
	_, err = browser.Proxies()
	wantStatus(t, "from a browser", err, http.StatusForbidden)
	if _, err = toxiproxy.NewClient(strings.Replace(known, "you:", "Ada:", 1)).Proxies(); err != nil {
		t.Errorf("with a name: %v", err)
	}
	proxies, err := toxiproxy.NewClient(strings.Replace(known, "you:", "Ada:", 1)).Proxies()
	if err != nil || proxies["broker-1"].Disable() != nil || session.broken()[0].By.Name != "Ada" {
		t.Errorf("the name in the address: %v, %v", err, session.broken())
	}
}
