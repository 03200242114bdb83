package web

import "github.com/dlqbench/dlqbench/internal/drill"

// What a drill really is fits what its page uses.
var _ Session = (*drill.Session)(nil)
