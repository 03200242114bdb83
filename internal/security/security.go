// Package security says what a secured Kafka wants of a client: who it is, and that the connection is encrypted. It
// knows no cluster and keeps nothing.
package security

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SASL mechanisms that are supported, by Kafka's names.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms returns all of them.
func Mechanisms() []string { return []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer} }

// Mechanism returns franz-go's form of a mechanism; the secret is the password or, for OAUTHBEARER, the token.
func Mechanism(name, user, secret string) (sasl.Mechanism, error) {
	switch name {
	case Plain:
		return plain.Auth{User: user, Pass: secret}.AsMechanism(), nil
	case ScramSHA256:
		return scram.Auth{User: user, Pass: secret}.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scram.Auth{User: user, Pass: secret}.AsSha512Mechanism(), nil
	case OAuthBearer:
		return oauth.Auth{Token: secret}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("there is no SASL mechanism %q; there are %s", name, strings.Join(Mechanisms(), ", "))
}

// FromEnvironment returns the client options that the variables of a subject ask for; lookup is os.LookupEnv.
//
//	DLQBENCH_SECURITY_PROTOCOL  PLAINTEXT (default), SASL_PLAINTEXT, SSL or SASL_SSL, the latter two with the system's
//	                            certificate authorities
//	DLQBENCH_SASL_MECHANISM     PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
//	DLQBENCH_SASL_USERNAME      for PLAIN and SCRAM
//	DLQBENCH_SASL_PASSWORD      the password or, for OAUTHBEARER, the token
func FromEnvironment(lookup func(string) (string, bool)) ([]kgo.Opt, error) {
	value := func(name string) string {
		text, _ := lookup(name)
		return text
	}
	var options []kgo.Opt
	protocol := value("DLQBENCH_SECURITY_PROTOCOL")
	switch protocol {
	case "", "PLAINTEXT":
		return nil, nil
	case "SSL", "SASL_SSL":
		options = append(options, kgo.DialTLS())
	case "SASL_PLAINTEXT":
	default:
		return nil, fmt.Errorf(
			"reading DLQBENCH_SECURITY_PROTOCOL: %q is none; write PLAINTEXT, SASL_PLAINTEXT, SSL or SASL_SSL", protocol)
	}
	if strings.HasPrefix(protocol, "SASL_") {
		mechanism, err := Mechanism(value("DLQBENCH_SASL_MECHANISM"), value("DLQBENCH_SASL_USERNAME"),
			value("DLQBENCH_SASL_PASSWORD"))
		if err != nil {
			return nil, fmt.Errorf("reading DLQBENCH_SASL_MECHANISM: %w", err)
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}
