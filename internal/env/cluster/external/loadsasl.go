package external

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/security"
)

// sasl reads dlqbench's identity at the cluster.
func (s *settings) sasl(wanted bool) SASL {
	mechanism, mechanismKey := s.get("sasl.mechanism", "sasl.mechanisms")
	username, usernameKey := s.get("sasl.username")
	result := SASL{Mechanism: strings.ToUpper(mechanism), Username: username, Password: s.secret("sasl.password")}
	s.jaas(&result)
	if !wanted {
		if key := cmp.Or(mechanismKey, usernameKey, s.present("sasl.password"), s.present("sasl.jaas.config")); key != "" {
			s.problem(key+" is set, but security.protocol has no authentication: set it to SASL_SSL or SASL_PLAINTEXT, as the "+
				"cluster's listener has it", key)
		}
		return SASL{}
	}
	if username := s.env(EnvUsername); username != "" {
		result.Username = username
	}
	if password := s.env(EnvPassword); password != "" {
		result.Password = NewSecret(password)
	}
	if token := s.env(EnvToken); token != "" {
		result.Token = NewSecret(token)
	}
	s.checkSASL(result)
	return result
}

func (s *settings) checkSASL(sasl SASL) {
	mechanismKeys := []string{"sasl.mechanism", "sasl.mechanisms", "security.protocol"}
	switch {
	case sasl.Mechanism == "":
		s.problem("security.protocol asks for authentication, but sasl.mechanism is not set: it must be one of "+
			strings.Join(security.Mechanisms(), ", "), mechanismKeys...)
	case !knows(sasl.Mechanism):
		s.problem(fmt.Sprintf("sasl.mechanism is %q: it must be one of %s", sasl.Mechanism,
			strings.Join(security.Mechanisms(), ", ")), mechanismKeys...)
	case sasl.Mechanism == MechanismOAuthBearer:
		if sasl.Token.Empty() {
			s.problem(MechanismOAuthBearer+" needs a token: put it into "+EnvToken, mechanismKeys...)
		}
	default:
		if sasl.Username == "" {
			s.problem(sasl.Mechanism+" needs a user: set sasl.username, or put it into "+EnvUsername, mechanismKeys...)
		}
		if sasl.Password.Empty() {
			s.problem(sasl.Mechanism+" needs a password: put it into "+EnvPassword+", or set sasl.password", mechanismKeys...)
		}
	}
}

// present returns the key if it is given.
func (s *settings) present(key string) string {
	if _, ok := s.given[key]; ok {
		return key
	}
	return ""
}

// jaas reads sasl.jaas.config, which contains the user and password of Java clients.
func (s *settings) jaas(to *SASL) {
	const key = "sasl.jaas.config"
	text, given := s.get(key)
	if given == "" {
		return
	}
	module, options, err := parseJAAS(text)
	if err != nil {
		s.problem(fmt.Sprintf("%s can't be read: %v", key, err), key)
		return
	}
	fits := map[string][]string{
		"PlainLoginModule": {MechanismPlain}, "ScramLoginModule": {MechanismScramSHA256, MechanismScramSHA512},
		"OAuthBearerLoginModule": {MechanismOAuthBearer},
	}[module[strings.LastIndex(module, ".")+1:]]
	switch {
	case fits == nil:
		s.problem(fmt.Sprintf("%s names %s: PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule are supported", key,
			module), key)
		return
	case knows(to.Mechanism) && !slices.Contains(fits, to.Mechanism):
		s.problem(fmt.Sprintf("%s names %s, which is for %s, but sasl.mechanism is %s", key, module,
			strings.Join(fits, " and "), to.Mechanism), key)
		return
	}
	if fits[0] != MechanismOAuthBearer {
		to.Username, to.Password = cmp.Or(to.Username, options["username"]), firstSecret(to.Password, options["password"])
		return
	}
	if token := cmp.Or(options["oauth.access.token"], unsecured(options["unsecuredLoginStringClaim_sub"],
		time.Now())); token != "" {
		to.Token = NewSecret(token)
	}
}

func firstSecret(first Secret, otherwise string) Secret {
	if first.Empty() {
		return NewSecret(otherwise)
	}
	return first
}

// unsecured creates the unsigned token that Kafka's OAuthBearerLoginModule creates for tests (KIP-255), with a
// principal's name and, as there, valid for an hour; "" for no name.
func unsecured(principal string, now time.Time) string {
	if principal == "" {
		return ""
	}
	// strings and numbers always encode
	claims, _ := json.Marshal(map[string]any{"sub": principal, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
}

// parseJAAS parses `module flag key="value" … ;`, the form of sasl.jaas.config. Its errors quote nothing, because
// that may be the password.
func parseJAAS(text string) (module string, options map[string]string, err error) {
	text = strings.TrimSpace(text)
	if !strings.HasSuffix(text, ";") {
		return "", nil, errors.New("it must end with a semicolon")
	}
	words, err := jaasWords(strings.TrimSuffix(text, ";"))
	if err != nil {
		return "", nil, err
	}
	if len(words) < 2 {
		return "", nil, errors.New(`the form is: module required key="value" … ;`)
	}
	options = map[string]string{}
	for _, word := range words[2:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return "", nil, errors.New(`what follows the word required must be key="value", with one blank or more between`)
		}
		options[key] = value
	}
	return words[0], options, nil
}

// jaasWords splits at blanks outside quotes, and removes the quotes.
func jaasWords(text string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
