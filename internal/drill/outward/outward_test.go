package outward

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		println("after all tests:", err.Error())
		code = 1
	}
	os.Exit(code)
}

// told is a session that goes through the given states. It is over with the last one.
type told struct {
	mu     sync.Mutex
	states []drill.State
	at     int
}

func (s *told) State(drill.Role) drill.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[s.at]
}

func (s *told) Next(_ context.Context, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at < len(s.states)-1 {
		s.at++
		return nil
	}
	return context.Canceled
}

func ptr[T any](v T) *T { return &v }

// eventful is a drill with one fault that Bob noticed and healed, and one that the end of the load lifted.
func eventful() []drill.State {
	ada, bob := &drill.Actor{Name: "Ada", Role: drill.RoleInjector}, &drill.Actor{Name: "Bob", Role: drill.RoleResponder}
	first := drill.Fault{ID: "1", Name: "produce-error", What: "Produce to dlq answered <NO>", By: ada,
		Injected: 2 * time.Second}
	second := drill.Fault{ID: "2", Name: "slow", What: "every attempt answered 1s later", Injected: 7 * time.Second}
	healed := first
	healed.Noticed, healed.Healed, healed.HealedBy, healed.Lifted = ptr(4*time.Second), ptr(6*time.Second), bob,
		drill.LiftedByHand
	ended := second
	ended.Healed, ended.Lifted = ptr(9*time.Second), drill.LiftedAtEnd
	notice := []drill.Entry{{Number: 3, At: 4 * time.Second, Who: bob, Action: drill.ActionNotice,
		Text: "dead letters stopped"}}
	result := &drill.Result{Verdict: assertions.Pass, Dir: "runs/1", Figures: drill.Figures{Faults: 2, Noticed: 1,
		Healed:      1,
		LiftedAtEnd: 1, ToNotice: drill.Spread{Median: 2 * time.Second}, ToHeal: drill.Spread{Median: 4 * time.Second}}}
	state := func(stage drill.Stage, at time.Duration, log []drill.Entry, faults ...drill.Fault) drill.State {
		return drill.State{Stage: stage, Scenario: "quorum-outage", At: at, Faults: faults, Log: log}
	}
	over := state(drill.StageOver, 12*time.Second, notice, healed, ended)
	over.Ending, over.Result = "stopped by Ada", result
	return []drill.State{state(drill.StageSetUp, 0, nil), state(drill.StageOpen, 0, nil),
		state(drill.StageOpen, 2*time.Second, nil, first), state(drill.StageOpen, 6*time.Second, notice, healed),
		state(drill.StageOpen, 7*time.Second, notice, healed, second), over}
}

// taken is what a server on loopback was sent.
type taken struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	paths  []string
	tokens []string
}

func serve(t *testing.T, answer func(w http.ResponseWriter, n int)) *taken {
	t.Helper()
	s := &taken{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies, s.paths = append(s.bodies, string(body)), append(s.paths, r.URL.Path)
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		n := len(s.bodies)
		s.mu.Unlock()
		answer(w, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func fine(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusOK) }

// follow follows the drill and returns the warnings.
func follow(t *testing.T, discreet bool, targets ...Target) []string {
	t.Helper()
	var warnings []string
	var mu sync.Mutex
	Follow(t.Context(), &told{states: eventful()}, Options{Targets: targets, Discreet: discreet,
		Warn: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			warnings = append(warnings, line)
		}})
	return warnings
}

func webhook(t *testing.T, address string, format Format) *Webhook {
	t.Helper()
	out := must.Get(NewWebhook(address, format))(t)
	return out
}

// TestMessagesOfADrill checks the messages of each format, in their order.
func TestMessagesOfADrill(t *testing.T) {
	want := []string{"dlqbench: A drill of quorum-outage has begun.",
		"dlqbench: Injected: produce-error (Produce to dlq answered <NO>) by Ada.",
		"dlqbench: Healed: produce-error (Produce to dlq answered <NO>) after 4 s, by hand by Bob.",
		"dlqbench: Injected: slow (every attempt answered 1s later).",
		"dlqbench: Healed: slow (every attempt answered 1s later) after 2 s, at the end of the load.",
		"dlqbench: The drill of quorum-outage is over (stopped by Ada): verdict pass; 1 of 2 faults noticed, 1 healed by " +
			"hand; 2 s to notice; 4 s to heal; debrief: runs/1/debrief.md."}
	for format, text := range map[Format]func(map[string]any) string{
		FormatSlack: func(m map[string]any) string {
			return strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(m["text"].(string))
		},
		FormatTeams: func(m map[string]any) string {
			content := m["attachments"].([]any)[0].(map[string]any)["content"].(map[string]any)
			return content["body"].([]any)[0].(map[string]any)["text"].(string)
		},
		FormatGeneric: func(m map[string]any) string { return "dlqbench: " + m["text"].(string) },
	} {
		server := serve(t, fine)
		if warnings := follow(t, false, webhook(t, server.URL+"/hook", format)); len(warnings) > 0 {
			t.Errorf("%s: %q", format, warnings)
		}
		var got []string
		for _, body := range server.bodies {
			if format == FormatSlack && strings.Contains(body, "<") {
				t.Errorf("Slack would find a link in %s", body)
			}
			var message map[string]any
			must.Do(t, json.Unmarshal([]byte(body), &message))
			got = append(got, text(message))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s tells\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestNothingIsRevealedBeforeTheEnd checks that a channel that the person on call may read learns the start and the end
// only, and Grafana gets its regions when the drill is over.
func TestNothingIsRevealedBeforeTheEnd(t *testing.T) {
	states := eventful()
	var seen seen
	for _, state := range states[:len(states)-1] {
		for _, event := range seen.fresh(state, time.Unix(1000, 0), true) {
			text, _ := json.Marshal(event)
			if event.Kind != KindStart || strings.Contains(string(text), "quorum") {
				t.Errorf("before the end it tells %s", text)
			}
		}
	}
	hook, dashboards := serve(t, fine), serve(t, fine)
	grafana := must.Get(NewGrafana(dashboards.URL+"/grafana/", "token-of-a-service-account"))(t)
	if warnings := follow(t, true, webhook(t, hook.URL, FormatGeneric), grafana); len(warnings) > 0 {
		t.Errorf("%q", warnings)
	}
	if len(hook.bodies) != 2 || !strings.Contains(hook.bodies[1], `"event":"end"`) {
		t.Errorf("the webhook is told %q", hook.bodies)
	}
	if len(dashboards.bodies) != 4 {
		t.Errorf("Grafana is told %q", dashboards.bodies)
	}
}

// TestAnnotations checks the requests to Grafana: a region for each fault and the load, a moment for each notice.
func TestAnnotations(t *testing.T) {
	server := serve(t, fine)
	grafana := must.Get(NewGrafana(server.URL, "token-of-a-service-account"))(t)
	follow(t, false, grafana)
	spans := map[string]int64{}
	for i, body := range server.bodies {
		var got annotation
		must.Do(t, json.Unmarshal([]byte(body), &got))
		if server.paths[i] != "/api/annotations" || server.tokens[i] != "Bearer token-of-a-service-account" ||
			!slices.Equal(got.Tags[:2], []string{"dlqbench", "drill"}) || got.Time == 0 {
			t.Errorf("%s with %q: %s", server.paths[i], server.tokens[i], body)
		}
		spans[strings.Join(got.Tags[2:], " ")] = max(got.TimeEnd-got.Time, 0)
	}
	want := map[string]int64{"fault produce-error": 4000, "notice": 0, "fault slow": 2000, "": 12000}
	for tags, length := range want {
		if got, is := spans[tags]; !is || got != length {
			t.Errorf("the annotations are %v, want %v", spans, want)
		}
	}
}

// TestFailuresAreToldOnceWithoutSecrets checks every way in which a target fails.
func TestFailuresAreToldOnceWithoutSecrets(t *testing.T) {
	const secret = "T00/B00/very-secret"
	refusing := serve(t, func(w http.ResponseWriter, _ int) { http.Error(w, "no "+secret, http.StatusForbidden) })
	elsewhere := serve(t, fine)
	redirecting := serve(t, func(w http.ResponseWriter, _ int) {
		w.Header().Set("Location", elsewhere.URL+"/"+secret)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for address, want := range map[string]string{refusing.URL: "the answer is 403 Forbidden",
		redirecting.URL: "the answer is 307", gone.URL: "refused"} {
		warnings := follow(t, false, webhook(t, address+"/"+secret+"?key="+secret, FormatSlack))
		if len(warnings) != 1 || !strings.Contains(warnings[0], want) || strings.Contains(warnings[0], "secret") {
			t.Errorf("the warnings are %q, want one with %q", warnings, want)
		}
	}
	if len(elsewhere.bodies) > 0 {
		t.Error("a redirect was followed")
	}
}

// slow is a target that takes no answer before its deadline.
type slow struct {
	mu   sync.Mutex
	sent int
}

func (s *slow) name() string     { return "slow" }
func (s *slow) takes(Event) bool { return true }
func (s *slow) send(ctx context.Context, _ Event) error {
	s.mu.Lock()
	s.sent++
	s.mu.Unlock()
	<-ctx.Done()
	return plainly(ctx.Err())
}

// TestASlowTargetHoldsNothingUp checks that a target that never answers neither delays the others nor the end by more
// than the limit, and that each message is sent once.
func TestASlowTargetHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, target := time.Now(), &slow{}
		warnings := follow(t, false, target)
		if took := time.Since(began); took > closeLimit {
			t.Errorf("the end waits for %s", took)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "no answer within 5s") {
			t.Errorf("the warnings are %q", warnings)
		}
		if target.sent > 7 {
			t.Errorf("7 messages were sent %d times", target.sent)
		}
	})
}

// TestTheFormatFollowsTheHost checks which hosts are recognized, and what is refused, without the secret in the error.
func TestTheFormatFollowsTheHost(t *testing.T) {
	for address, want := range map[string]Format{
		"https://hooks.slack.com/services/T0/B0/x":                          FormatSlack,
		"https://example.webhook.office.com/webhookb2/x":                    FormatTeams,
		"https://prod-1.westeurope.logic.azure.com:443/workflows/x":         FormatTeams,
		"https://x.1.environment.api.powerplatform.com:443/powerautomate/x": FormatTeams,
		"https://chat.example.org/hooks/x":                                  FormatGeneric,
		"http://hooks.slack.com.example.org/x":                              FormatGeneric,
	} {
		if got := webhook(t, address, "").format; got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	for _, address := range []string{"very-secret", "ftp://example.org/very-secret", "http://%zz/very-secret", ""} {
		if _, err := NewWebhook(address, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := NewWebhook("https://example.org/very-secret", "discord"); err == nil ||
		strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "discord") {
		t.Errorf("an unknown format: %v", err)
	}
	for _, address := range []string{"https://admin:very-secret@example.org", "https://example.org/?key=very-secret"} {
		if _, err := NewGrafana(address, "token"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := NewGrafana("https://example.org", ""); err == nil {
		t.Error("Grafana needs no token")
	}
}
