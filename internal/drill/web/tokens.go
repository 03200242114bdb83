package web

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// leastToken and mostToken are the minimum and maximum length of a chosen token, in characters. A short one can be
// guessed.
const leastToken, mostToken = 16, 256

// tokenForm matches text that a header and a cookie carry unescaped (RFC 6750, b64token).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// CheckTokens checks the tokens that the user has chosen. The error never contains a token.
func CheckTokens(tokens map[drill.Role]string) error {
	for _, role := range roles() {
		token, chosen := tokens[role]
		switch {
		case !chosen:
		case len(token) < leastToken || len(token) > mostToken:
			return fmt.Errorf("the %s's token has %d characters: take %d to %d, such as `openssl rand -hex 16` makes", role,
				len(token), leastToken, mostToken)
		case !tokenForm.MatchString(token):
			return fmt.Errorf(
				"the %s's token has characters that no header carries: take letters, digits and any of . _ ~ + / = -", role)
		}
	}
	if token := tokens[drill.RoleInjector]; token != "" && token == tokens[drill.RoleResponder] {
		return errors.New("injector and responder have the same token: who is on call could open the injector's page with it")
	}
	return nil
}
