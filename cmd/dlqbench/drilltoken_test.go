package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// A drill's tokens come from the environment or a file, never from the command line, and no error contains one.
func TestChosenTokens(t *testing.T) {
	const first, second, third = "first-token-0123", "second-token-012", "third-token-0123"
	for _, one := range []struct {
		name, file          string // "" means no file
		injector, responder string // from the environment
		want                map[drill.Role]string
		wrong               string
	}{
		{name: "none", want: map[drill.Role]string{}},
		{name: "a file with one", file: first + "\n", want: map[drill.Role]string{drill.RoleInjector: first}},
		{name: "a file with two, from Windows", file: first + "\r\n" + second + "\r\n",
			want: map[drill.Role]string{drill.RoleInjector: first, drill.RoleResponder: second}},
		{name: "the environment comes first", file: first + "\n" + second, injector: third,
			want: map[drill.Role]string{drill.RoleInjector: third, drill.RoleResponder: second}},
		{name: "the environment alone", responder: second, want: map[drill.Role]string{drill.RoleResponder: second}},
		{name: "too short", file: "0123456789", wrong: "the injector's token has 10 characters"},
		{name: "the same", injector: first, responder: first, wrong: "the same token"},
		{name: "an empty file", file: "\n", wrong: "in its first line"},
		{name: "another file", file: first + "\n" + second + "\n" + third, wrong: "in its first line"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Setenv(environmentInjectorToken, one.injector)
			t.Setenv(environmentResponderToken, one.responder)
			file := ""
			if one.file != "" {
				file = filepath.Join(t.TempDir(), "tokens")
				must.Do(t, os.WriteFile(file, []byte(one.file), 0o600))
			}
			got, err := chosenTokens(file)
			if one.wrong == "" && (err != nil || !maps.Equal(got, one.want)) {
				t.Errorf("%v, %v", got, err)
			}
			if one.wrong != "" && (err == nil || !strings.Contains(err.Error(), one.wrong)) {
				t.Errorf("%v, want an error with %q", err, one.wrong)
			}
			for _, token := range []string{first, second, third, "0123456789"} {
				if err != nil && strings.Contains(err.Error(), token) {
					t.Errorf("the error tells a token: %v", err)
				}
			}
		})
	}
	if _, err := chosenTokens(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a file that is not there is no error")
	}
}
