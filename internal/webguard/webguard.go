// Package webguard protects the pages that dlqbench serves on this machine: only visitors that typed their address
// reach them, and no other page can frame, read or script them.
package webguard

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Guard is the outermost gate of a server.
type Guard struct {
	// Loopback means that the server listens on this machine only.
	Loopback bool
	// Names are the host names, in lower case, that the server answers to, besides addresses and localhost.
	Names []string
	// Policy is the content security policy of responses that set no other.
	Policy string
	// Body is the maximum size of a request's body, in bytes.
	Body int64
	// Stranger is the answer to a request with another host name, Failed that to one that panicked.
	Stranger, Failed string
}

// KnowsHost reports whether the Host header can come from a visitor that typed this server's address. Only a name can
// be rebound, an address cannot.
func (g Guard) KnowsHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback() || !g.Loopback
	}
	return name == "localhost" || slices.Contains(g.Names, name)
}

// Handler adds the common response headers and the outermost gates to next: the host, the size of the request, and a
// panic handler per request.
func (g Guard) Handler(next http.Handler, panicked func(any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if what := recover(); what != nil {
				panicked(what)
				http.Error(w, g.Failed, http.StatusInternalServerError)
			}
		}()
		header := w.Header()
		header.Set("Content-Security-Policy", g.Policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		if g.Loopback { // on other addresses without TLS, browsers ignore it with a warning
			header.Set("Cross-Origin-Opener-Policy", "same-origin")
		}
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cache-Control", "no-store")
		if !g.KnowsHost(r.Host) {
			http.Error(w, g.Stranger, http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, g.Body)
		next.ServeHTTP(w, r)
	})
}
