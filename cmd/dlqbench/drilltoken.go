package main

// This file reads the tokens of a drill's page that the user has chosen. There is no flag for them, because other users
// of a machine can read command lines.

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/drill/web"
)

// These environment variables hold a drill's tokens. They take precedence over those of a file.
const (
	environmentInjectorToken  = "DLQBENCH_DRILL_INJECTOR_TOKEN"
	environmentResponderToken = "DLQBENCH_DRILL_RESPONDER_TOKEN"
)

// chosenTokens returns the tokens from the environment and from a file, whose first line has the injector's and whose
// second line the responder's. Missing tokens are generated for the drill.
func chosenTokens(file string) (map[drill.Role]string, error) {
	var lines []string
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the tokens of the drill: %w", err)
		}
		lines = strings.Split(strings.TrimRight(string(text), "\r\n\t "), "\n")
		if len(lines) > 2 || strings.TrimSpace(lines[0]) == "" {
			return nil, fmt.Errorf("reading the tokens of the drill: %s has the injector's in its first line, and may have "+
				"the responder's in its second", file)
		}
	}
	lines = append(lines, "", "")
	tokens := map[drill.Role]string{}
	for role, token := range map[drill.Role]string{
		drill.RoleInjector:  cmp.Or(os.Getenv(environmentInjectorToken), strings.TrimSpace(lines[0])),
		drill.RoleResponder: cmp.Or(os.Getenv(environmentResponderToken), strings.TrimSpace(lines[1])),
	} {
		if token != "" {
			tokens[role] = token
		}
	}
	if err := web.CheckTokens(tokens); err != nil {
		return nil, fmt.Errorf("reading the tokens of the drill: %w", err)
	}
	return tokens, nil
}
