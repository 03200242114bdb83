package external

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/security"
)

// Config says how to reach a cluster and what may be done there. It may be printed: it shows no secret.
type Config struct {
	// Bootstrap are addresses (host:port) of some of its brokers, one or more.
	Bootstrap []string
	TLS       TLS
	SASL      SASL
	Commands  BrokerCommands
	// Keep leaves the run's topics and groups on the cluster when the run ends.
	Keep bool
	// Prefix is what the names of everything begin with that a run creates; it must be the run's own. A name is under
	// it if it is the prefix, or the prefix followed by '.', '-' or '_' and more.
	Prefix string
}

// TLS says how connections to the brokers are encrypted, and by what both sides know each other.
type TLS struct {
	Enabled bool
	// CA are the certificates of the authorities to trust, in PEM; empty stands for those that the system trusts.
	CA string
	// Certificate is the client's certificate with its chain, and Key its private key, both in PEM; empty for none.
	Certificate string
	Key         Secret
	// ServerName is the host that every broker's certificate must be for; "" stands for the host that the broker is
	// reached by.
	ServerName string
	// AnyHost accepts a certificate for any host, if only a trusted authority has signed it.
	AnyHost bool
}

// The SASL mechanisms that are supported, by Kafka's names.
const (
	MechanismPlain       = security.Plain
	MechanismScramSHA256 = security.ScramSHA256
	MechanismScramSHA512 = security.ScramSHA512
	MechanismOAuthBearer = security.OAuthBearer
)

// SASL says who dlqbench is to the cluster.
type SASL struct {
	// Mechanism is one of the Mechanism constants, or "" for no authentication.
	Mechanism string
	// Username and Password are for PLAIN and SCRAM.
	Username string
	Password Secret
	// Token is for OAUTHBEARER.
	Token Secret
}

// BrokerCommands are shell commands that break a broker and mend it, each "" if there is none. In them, {{broker}}
// stands for the broker's number (from 1, in the order of node ids) and {{id}} for its node id.
type BrokerCommands struct {
	// Kill ends a broker at once, Stop in order; Start starts it again after either.
	Kill, Stop, Start string
	// Pause lets a broker stand still with its connections open, Resume lets it go on.
	Pause, Resume string
}

// merge returns the commands with those of over put in their place.
func (c BrokerCommands) merge(over BrokerCommands) BrokerCommands {
	pick := func(mine, theirs string) string {
		if theirs != "" {
			return theirs
		}
		return mine
	}
	return BrokerCommands{
		Kill: pick(c.Kill, over.Kill), Stop: pick(c.Stop, over.Stop), Start: pick(c.Start, over.Start),
		Pause: pick(c.Pause, over.Pause), Resume: pick(c.Resume, over.Resume),
	}
}

// under says whether a name is under a prefix.
func under(prefix, name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && prefix != "" && (rest == "" || strings.ContainsRune(".-_", rune(rest[0])))
}

// checkAddress returns what is wrong with the address of a broker, "" if nothing is.
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

// SubjectProtocol is the security.protocol that a subject must use towards the tap, which takes TLS off and passes SASL
// on: PLAINTEXT or SASL_PLAINTEXT.
func (c Config) SubjectProtocol() string {
	if c.SASL.Mechanism != "" {
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// Secrets returns the texts of all secrets, for those who have to keep them out of what others write.
func (c Config) secrets() []string {
	var all []string
	for _, secret := range []Secret{c.SASL.Password, c.SASL.Token, c.TLS.Key} {
		if !secret.Empty() {
			all = append(all, secret.Reveal())
		}
	}
	return all
}

// redact takes the secrets out of a text that something else has written.
func (c Config) redact(text string) string {
	for _, secret := range c.secrets() {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// knows says whether a mechanism is supported.
func knows(mechanism string) bool { return slices.Contains(security.Mechanisms(), mechanism) }
