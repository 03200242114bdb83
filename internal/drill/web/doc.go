// Package web is the page of a drill: it draws the running system in browsers, keeps it up to date, and lets people
// inject and lift faults.
//
// It owns what happens between a session (package drill) and the browsers that look at it: who may come in and who may
// change anything (guard.go), how the state gets to any number of browsers without anyone waiting for one (hub.go), how
// what is clicked gets back to the session (actions.go), and the page itself (page.go, assets). It must not know the
// harness, nor decide who may see what: the session hands out a state for each role, and nothing else is ever sent to
// that role's page.
//
//	session.State(role) ──▶ frame (one goroutine) ──▶ channel of the role ──▶ browsers, each at its own pace
//	session.Break … Stop ◀── actions ◀── guard ◀── POST
package web
