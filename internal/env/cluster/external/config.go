package external

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/security"
)

// Config configures the connection to a cluster and the permitted actions there. It may be printed: it shows no
// secret.
type Config struct {
	// Bootstrap are addresses (host:port) of some of its brokers, one or more.
	Bootstrap []string
	TLS       TLS
	SASL      SASL
	Commands  BrokerCommands
	// Keep leaves the run's topics and groups on the cluster when the run ends.
	Keep bool
	// Prefix is the prefix of all names that a run creates. It must be the run's own. A name is under the prefix if it
	// equals it, or continues it with '.', '-' or '_' and more.
	Prefix string
}

// TLS configures the encryption of connections to the brokers, and the mutual authentication of both sides.
type TLS struct {
	Enabled bool
	// CA contains the certificates of the trusted authorities, in PEM; empty stands for the system's.
	CA string
	// Certificate is the client's certificate with its chain, and Key its private key, both in PEM; empty for none.
	Certificate string
	Key         Secret
	// ServerName is the host that every broker's certificate must be for; "" stands for the host used in the
	// connection.
	ServerName string
	// AnyHost accepts a certificate for any host, provided that a trusted authority has signed it.
	AnyHost bool
}

// The supported SASL mechanisms, by Kafka's names.
const (
	MechanismPlain       = security.Plain
	MechanismScramSHA256 = security.ScramSHA256
	MechanismScramSHA512 = security.ScramSHA512
	MechanismOAuthBearer = security.OAuthBearer
)

// SASL is dlqbench's identity at the cluster.
type SASL struct {
	// Mechanism is one of the Mechanism constants, or "" for no authentication.
	Mechanism string
	// Username and Password are for PLAIN and SCRAM.
	Username string
	Password Secret
	// Token is for OAUTHBEARER.
	Token Secret
}

// BrokerCommands are shell commands that inject a fault into a broker and lift it, each "" if there is none. In
// them, {{broker}} stands for the broker's number (from 1, in the order of node ids) and {{id}} for its node id.
type BrokerCommands struct {
	// Kill ends a broker at once, Stop in order; Start starts it again after either.
	Kill, Stop, Start string
	// Pause stops a broker with its connections open, Resume lets it continue.
	Pause, Resume string
}

// under reports whether a name is under a prefix.
func under(prefix, name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && prefix != "" && (rest == "" || strings.ContainsRune(".-_", rune(rest[0])))
}

// checkAddress returns the problem with a broker's address, "" if there is none.
func checkAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return fmt.Sprintf("%q is no address of a broker: host:port is needed, such as kafka.example.org:9092", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Sprintf("%q is no address of a broker: its port must be a number from 1 to 65535", address)
	}
	return ""
}

// protocol is Kafka's name for the security of the cluster's listener.
func (c Config) protocol() string {
	switch {
	case c.TLS.Enabled && c.SASL.Mechanism != "":
		return "SASL_SSL"
	case c.TLS.Enabled:
		return "SSL"
	case c.SASL.Mechanism != "":
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// SubjectProtocol is the security.protocol that a subject must use towards the tap, which terminates TLS and passes
// on SASL: PLAINTEXT or SASL_PLAINTEXT.
func (c Config) SubjectProtocol() string {
	if c.SASL.Mechanism != "" {
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// secrets returns the texts of all secrets, so that they can be removed from other output.
func (c Config) secrets() []string {
	var all []string
	for _, secret := range []Secret{c.SASL.Password, c.SASL.Token, c.TLS.Key} {
		if !secret.Empty() {
			all = append(all, secret.Reveal())
		}
	}
	return all
}

// redact removes the secrets from a text of another program.
func (c Config) redact(text string) string {
	for _, secret := range c.secrets() {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// knows reports whether a mechanism is supported.
func knows(mechanism string) bool { return slices.Contains(security.Mechanisms(), mechanism) }
