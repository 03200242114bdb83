package web

// This file controls access. Three gates stand before every request, from the outside in:
//
//  1. the Host header: a foreign page that made its own name resolve to this address (DNS rebinding) sends its own
//     name;
//  2. the role's token, where one is needed: in a cookie, or in an Authorization header (as a bearer's, or a password);
//  3. for requests that change anything: the origin of the request (Origin, Sec-Fetch-Site), and the role's form key,
//     which only its page knows.

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/webguard"
)

// formHeader carries the form key of a script's request, formField that of a plain form.
const (
	formHeader = "X-Dlqbench-Form"
	formField  = "form"
)

// guard holds the visitors' secrets and permitted origins.
type guard struct {
	webguard.Guard
	// tokens are the tokens that each role's visitors must present. A role without one is open. Roles without a token
	// share no secret.
	tokens map[drill.Role]string
	// given are the roles whose token the user has chosen. Such a token is never displayed.
	given map[drill.Role]bool
	// keys are the roles' form keys.
	keys   map[drill.Role]string
	cookie string
	origin *http.CrossOriginProtection
}

// newGuard decides which tokens visitors of the address need. On loopback they need none, unless the roles are kept
// apart: then the injector's page needs its token, because the responder uses the same machine. On any other address
// each role has a token of its own. A token that the user has chosen is required on every address.
func newGuard(address *net.TCPAddr, apart bool, chosen map[drill.Role]string) *guard {
	g := &guard{
		Guard: webguard.Guard{Loopback: address.IP.IsLoopback(), Policy: pagePolicy, Body: bodyLimit,
			Stranger: "this name does not lead to a drill: use the address that dlqbench drill has printed",
			Failed:   "the drill's page failed; the drill itself goes on"},
		tokens: map[drill.Role]string{}, given: map[drill.Role]bool{},
		keys: map[drill.Role]string{},
		// Cookies ignore ports. The name must differ, so that two drills on one machine do not overwrite each other's
		// cookies.
		cookie: fmt.Sprintf("dlqbench-drill-%d", address.Port), origin: http.NewCrossOriginProtection(),
	}
	for _, role := range roles() {
		g.keys[role] = rand.Text()
		if chosen[role] != "" {
			g.tokens[role], g.given[role] = chosen[role], true
			continue
		}
		if !g.Loopback || apart && role == drill.RoleInjector {
			g.tokens[role] = rand.Text()
		}
	}
	if name, err := os.Hostname(); err == nil && !g.Loopback {
		g.Names = append(g.Names, strings.ToLower(name))
	}
	return g
}

// admits reports whether the request presents the role's token, if it needs one. The comparison takes constant time.
func (g *guard) admits(role drill.Role, r *http.Request) bool {
	token, needed := g.tokens[role]
	if !needed {
		return true
	}
	if shown, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		return same(shown, token)
	}
	if _, shown, found := r.BasicAuth(); found {
		return same(shown, token)
	}
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool { return same(c.Value, token) })
}

// mayChange checks that a request that changes something comes from the role's own page, or from a client that knows
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

// remember sets the role's token as a cookie that scripts cannot read and other sites cannot make the browser send.
func (g *guard) remember(w http.ResponseWriter, role drill.Role) {
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: g.tokens[role], Path: "/" + string(role) + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}

func same(shown, wanted string) bool {
	return subtle.ConstantTimeCompare([]byte(shown), []byte(wanted)) == 1
}
