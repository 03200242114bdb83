package web

// Who may see and who may do what. Three gates stand before every request, from the outside in:
//
//  1. the Host header: a page of elsewhere that made its own name resolve to this address (DNS rebinding) sends its own
//     name;
//  2. the role's token, where one is needed: in a cookie, or in an Authorization header;
//  3. for what changes anything: where the request comes from (Origin, Sec-Fetch-Site), and the role's form key, which
//     only its page knows.

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// formHeader carries the form key of a script's request; formField that of a plain form.
const (
	formHeader = "X-Dlqbench-Form"
	formField  = "form"
)

// guard holds what a visitor must know and where a visitor may come from.
type guard struct {
	// loopback: the server listens on this machine only.
	loopback bool
	// names are the host names besides addresses and localhost that the server answers to, in lower case.
	names []string
	// tokens are what a role's visitor has to show; a role that is missing is open. Roles that have none share nothing
	// secret.
	tokens map[drill.Role]string
	// given are the roles whose token the user has chosen: it is never shown to anybody.
	given map[drill.Role]bool
	// keys are the roles' form keys.
	keys   map[drill.Role]string
	cookie string
	origin *http.CrossOriginProtection
}

// newGuard decides what visitors of the address must show: on loopback nothing, unless the roles are kept apart; then
// the injector's page needs its token, because the responder sits at the same machine. On any other address each role
// has a token of its own. A token that the user has chosen is asked for on every address.
func newGuard(address *net.TCPAddr, apart bool, chosen map[drill.Role]string) *guard {
	g := &guard{
		loopback: address.IP.IsLoopback(), tokens: map[drill.Role]string{}, given: map[drill.Role]bool{},
		keys: map[drill.Role]string{},
		// Cookies know no ports: two drills on one machine must not overwrite each other's.
		cookie: fmt.Sprintf("dlqbench-drill-%d", address.Port), origin: http.NewCrossOriginProtection(),
	}
	for _, role := range roles() {
		g.keys[role] = rand.Text()
		if chosen[role] != "" {
			g.tokens[role], g.given[role] = chosen[role], true
			continue
		}
		if !g.loopback || apart && role == drill.RoleInjector {
			g.tokens[role] = rand.Text()
		}
	}
	if name, err := os.Hostname(); err == nil && !g.loopback {
		g.names = append(g.names, strings.ToLower(name))
	}
	return g
}

// knowsHost reports whether the Host header can be of a visitor that typed this server's address. An address can't be
// rebound, only a name can.
func (g *guard) knowsHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback() || !g.loopback
	}
	if name == "localhost" {
		return true
	}
	for _, known := range g.names {
		if name == known {
			return true
		}
	}
	return false
}

// admits reports whether the request shows the role's token, if it needs one. What is compared takes the same time
// wherever it differs.
func (g *guard) admits(role drill.Role, r *http.Request) bool {
	token, needed := g.tokens[role]
	if !needed {
		return true
	}
	if shown, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		return same(shown, token)
	}
	for _, cookie := range r.CookiesNamed(g.cookie) {
		if same(cookie.Value, token) {
			return true
		}
	}
	return false
}

// mayChange reports whether a request that changes something comes from the role's own page, or from someone who knows
// its form key.
func (g *guard) mayChange(role drill.Role, r *http.Request, key string) error {
	if err := g.origin.Check(r); err != nil {
		return fmt.Errorf("this request comes from another site: %w", err)
	}
	if !same(key, g.keys[role]) {
		return fmt.Errorf("the form key is missing or of another drill: reload the page")
	}
	return nil
}

// remember gives the browser the role's token as a cookie that no script sees and no other site can make it send.
func (g *guard) remember(w http.ResponseWriter, role drill.Role) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: g.tokens[role], Path: "/" + string(role) + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}

func same(shown, wanted string) bool {
	return subtle.ConstantTimeCompare([]byte(shown), []byte(wanted)) == 1
}

// guarded is what every answer says of itself, and the outermost gates: the host, the size of the request, a panic that
// stays with its request.
func (g *guard) guarded(next http.Handler, panicked func(any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if what := recover(); what != nil {
				panicked(what)
				http.Error(w, "the drill's page failed; the drill itself goes on", http.StatusInternalServerError)
			}
		}()
		header := w.Header()
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		if g.loopback { // elsewhere, without TLS, browsers ignore it and complain
			header.Set("Cross-Origin-Opener-Policy", "same-origin")
		}
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cache-Control", "no-store")
		if !g.knowsHost(r.Host) {
			http.Error(w, "this name does not lead to a drill: use the address that dlqbench drill has printed",
				http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
		next.ServeHTTP(w, r)
	})
}
