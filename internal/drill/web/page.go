package web

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/reports/document"
)

//go:embed assets
var embedded embed.FS

const (
	// pagePolicy allows only what this server serves, and nothing inline in the page: a name or a note that escaped the
	// escaping could still not run.
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// filePolicy is for the reports, which bring a policy of their own for their scripts. They get a separate origin,
	// from which the drill cannot be reached.
	filePolicy = "sandbox allow-scripts allow-popups; frame-ancestors 'none'"
)

// pageView is the data of the template. Everything that changes arrives later, in frames.
type pageView struct {
	Role drill.Role
	// Key is the form key, ID the server's id.
	Key, ID  string
	Scenario string
	// Heal is the command line with which the role lifts all faults, with the role's own form key.
	Heal string
}

// page serves the role's page, or the login page to a visitor without a token.
func (s *Server) page(role drill.Role, session Session) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, view := "drill.html.tmpl", pageView{Role: role, Key: s.guard.keys[role], ID: s.id,
			Scenario: session.State(role).Scenario, Heal: s.HealCommand(role, false)}
		if !s.guard.admits(role, r) {
			name, view = "login.html.tmpl", pageView{Role: role}
		}
		templates, err := template.ParseFS(embedded, "assets/"+name)
		if err != nil {
			panic(fmt.Sprintf("reading the page: %v", err))
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := templates.Execute(w, view); err != nil {
			s.log.Printf("writing the page: %v", err)
		}
	})
}

// favicon serves the icon that browsers request by themselves, also for the reports, which have a separate origin.
func (s *Server) favicon(w http.ResponseWriter, _ *http.Request) {
	icon, err := assetNamed("icon.svg")
	if err != nil {
		panic(err)
	}
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Content-Type", contentType("icon.svg"))
	_, _ = w.Write(icon)
}

// asset serves the files of the page.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := assetNamed(name)
	if err != nil || path.Ext(name) == ".tmpl" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	_, _ = w.Write(content)
}

// assetNamed returns an embedded file, or a part of the plot library, which the reports embed.
func assetNamed(name string) ([]byte, error) {
	switch name {
	case "uplot.js":
		return []byte(document.PlotScript), nil
	case "uplot.css":
		return []byte(document.PlotStyle), nil
	}
	return embedded.ReadFile("assets/" + name)
}

// login takes a token and gives the browser a cookie for it.
func (s *Server) login(role drill.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard.origin.Check(r); err != nil {
			http.Error(w, "this request comes from another site", http.StatusForbidden)
			return
		}
		token, needed := s.guard.tokens[role]
		if needed && !same(r.PostFormValue("token"), token) {
			http.Error(w,
				"this is not the token of this page: it stands behind the # of the address that dlqbench drill has printed",
				http.StatusUnauthorized)
			return
		}
		if needed {
			s.guard.remember(w, role)
		}
		http.Redirect(w, r, "./", http.StatusSeeOther)
	})
}

// files lists the files of a drill that a browser may request.
func files() []string {
	return []string{"report.html", "debrief.html", "debrief.md", "recorded.yaml", "verdict.json"}
}

// file serves one of the run's files once the run is over. Earlier, a report would reveal everything to the responder.
func (s *Server) file(role drill.Role, session Session) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result := session.State(role).Result
		if result == nil {
			http.Error(w, "there is no report before the drill is over", http.StatusNotFound)
			return
		}
		for _, name := range files() {
			if r.PathValue("name") != name {
				continue
			}
			content, err := os.ReadFile(filepath.Join(result.Dir, name))
			if err != nil {
				break
			}
			w.Header().Set("Content-Security-Policy", filePolicy)
			w.Header().Set("Content-Type", contentType(name))
			_, _ = w.Write(content)
			return
		}
		http.NotFound(w, r)
	}
}

// contentType is the content type of a file, independent of the machine's table of types.
func contentType(name string) string {
	return cmp.Or(map[string]string{
		".html": "text/html; charset=utf-8", ".json": "application/json", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}[path.Ext(name)], "text/plain; charset=utf-8")
}
