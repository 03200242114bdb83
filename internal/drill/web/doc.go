// Package web is the page of a drill: it draws the running system in browsers, keeps it up to date, and lets people
// inject and lift faults.
//
// It owns everything between a session (package drill) and its browsers: access and permission to change anything
// (guard.go), the delivery of the state to any number of browsers without waiting for any (hub.go), the way from a
// click to the session (actions.go), and the page itself (page.go, assets). It must not know the harness, nor decide
// who may see what: the session provides a state for each role, and only that state is sent to the role's page.
//
//	session.State(role) ──▶ frame (one goroutine) ──▶ channel of the role ──▶ browsers, each at its own pace
//	session.Break … Stop ◀── actions ◀── guard ◀── POST
package web
