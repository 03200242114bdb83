package web

import "github.com/dlqbench/dlqbench/internal/drill"

// The real session must fit the page's interface.
var _ Session = (*drill.Session)(nil)
