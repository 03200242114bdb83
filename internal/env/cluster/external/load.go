package external

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/security"
)

// The environment variables that Load reads. They take precedence over the file.
const (
	EnvUsername = "DLQBENCH_SASL_USERNAME"
	EnvPassword = "DLQBENCH_SASL_PASSWORD"
	EnvToken    = "DLQBENCH_SASL_TOKEN"
)

// ErrSettings is in the chain of every error about unusable settings. The user has to change them.
var ErrSettings = errors.New("the cluster's settings can't be used")

// Overrides are settings from other sources that take precedence over the file. They contain no secret, because
// other users of the machine can read command lines.
type Overrides struct {
	Bootstrap []string
	Keep      bool
}

// Load reads the connection settings of a cluster from a properties file in the style of librdkafka or of the Java
// clients, from the environment (env returns a variable's value, "" for none; os.Getenv) and from overrides. Without
// a file (path is "") connections are PLAINTEXT. The error matches ErrSettings and lists all problems at once, each
// with file and line. It shows no values that may be secret. The notes list the unused settings of the file; they
// may accompany an error.
func Load(path string, env func(string) string, overrides Overrides) (config Config, notes []string, err error) {
	s := &settings{path: path, env: env, given: map[string]entry{}}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return Config{}, nil, fmt.Errorf("%w: reading them: %w", ErrSettings, err)
		}
		s.read(string(data))
	}
	config = Config{Keep: overrides.Keep, Bootstrap: s.bootstrap(overrides.Bootstrap)}
	tls, sasl := s.protocol()
	config.SASL = s.sasl(sasl)
	config.TLS = s.tls(tls)
	config.Commands = s.commands()
	s.unread()
	if len(s.problems) == 0 {
		return config, s.sorted(s.notes), nil
	}
	return Config{}, s.sorted(s.notes), fmt.Errorf("%w:\n%s", ErrSettings, strings.Join(s.sorted(s.problems), "\n"))
}

// settings are the settings of a file and the environment, with the problems found so far.
type settings struct {
	path     string
	env      func(string) string
	given    map[string]entry
	problems []finding
	notes    []finding
}

// entry is one property. It counts as used once it was looked up.
type entry struct {
	value string
	line  int
	used  bool
}

// finding is a sentence about a line of the file, 0 for none.
type finding struct {
	line int
	text string
}

// sorted returns the findings in the order of the file, each with its place.
func (s *settings) sorted(findings []finding) []string {
	slices.SortStableFunc(findings, func(a, b finding) int { return a.line - b.line })
	var lines []string
	for _, found := range findings {
		switch {
		case s.path == "":
			lines = append(lines, found.text)
		case found.line == 0:
			lines = append(lines, s.path+": "+found.text)
		default:
			lines = append(lines, fmt.Sprintf("%s:%d: %s", s.path, found.line, found.text))
		}
	}
	return lines
}

// problem records a problem that makes the settings unusable. It concerns the first of the keys that is set.
func (s *settings) problem(text string, keys ...string) {
	s.problems = append(s.problems, finding{s.lineOf(keys...), text})
}

func (s *settings) note(text string, keys ...string) {
	s.notes = append(s.notes, finding{s.lineOf(keys...), text})
}

func (s *settings) lineOf(keys ...string) int {
	for _, key := range keys {
		if e, ok := s.given[key]; ok {
			return e.line
		}
	}
	return 0
}

// get returns the value of the first of the keys that is set, without surrounding blanks, and marks all of them as
// used.
func (s *settings) get(keys ...string) (value, key string) {
	for _, k := range keys {
		e, ok := s.given[k]
		if !ok {
			continue
		}
		e.used = true
		s.given[k] = e
		if key == "" {
			value, key = strings.TrimSpace(e.value), k
		} else if strings.TrimSpace(e.value) != value {
			s.problem(fmt.Sprintf("%s and %s say different things: keep one", key, k), k)
		}
	}
	return value, key
}

// secret returns a value unchanged, including blanks.
func (s *settings) secret(key string) Secret {
	e, ok := s.given[key]
	if !ok {
		return Secret{}
	}
	e.used = true
	s.given[key] = e
	if strings.TrimSpace(e.value) != e.value {
		s.note(key+" begins or ends with a blank, which counts as part of it", key)
	}
	return NewSecret(e.value)
}

func (s *settings) bootstrap(override []string) (addresses []string) {
	text, key := s.get("bootstrap.servers", "metadata.broker.list")
	list := strings.Split(text, ",")
	if len(override) > 0 {
		list, key = override, ""
	}
	for _, address := range list {
		address = strings.TrimSpace(address)
		if _, rest, scheme := strings.Cut(address, "://"); scheme {
			address = rest // SASL_SSL://host:port, as librdkafka accepts it; only security.protocol counts
		}
		if address == "" {
			continue
		}
		if wrong := checkAddress(address); wrong != "" {
			s.problem(wrong, key)
			continue
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 && !slices.ContainsFunc(list, func(a string) bool { return strings.TrimSpace(a) != "" }) {
		s.problem("no broker to begin with is given: set bootstrap.servers in the file, or --bootstrap")
	}
	return addresses
}

// protocol reads security.protocol. Both kinds of clients default to PLAINTEXT.
func (s *settings) protocol() (tls, sasl bool) {
	text, key := s.get("security.protocol")
	switch strings.ToUpper(text) {
	case "SSL":
		return true, false
	case "SASL_PLAINTEXT":
		return false, true
	case "SASL_SSL":
		return true, true
	case "PLAINTEXT", "":
		return false, false
	}
	s.problem(fmt.Sprintf("security.protocol is %q: it must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", text), key)
	return false, false
}

// commands reads the broker commands. They are not client settings and so have dlqbench's own keys.
func (s *settings) commands() (c BrokerCommands) {
	for key, to := range map[string]*string{
		"kill": &c.Kill, "stop": &c.Stop, "start": &c.Start, "pause": &c.Pause, "resume": &c.Resume,
	} {
		*to, _ = s.get("dlqbench.broker." + key)
	}
	return c
}

// unread reports the unused settings. Unused client settings are not a problem, but a setting about security must
// not be ignored silently.
func (s *settings) unread() {
	for key, e := range s.given {
		if e.used {
			continue
		}
		switch {
		case strings.HasPrefix(key, "ssl."), strings.HasPrefix(key, "sasl."), strings.HasPrefix(key, "security."),
			strings.HasPrefix(key, "enable.ssl."), strings.HasPrefix(key, "dlqbench."):
			s.problem(refusal(key), key)
		default:
			s.note(shown(key)+" is not used: dlqbench reads only how to reach the cluster", key)
		}
	}
}

// shown returns the form in which a key is shown. A text that does not look like a client's setting may be part of a
// secret that was not continued correctly.
func shown(key string) string {
	plain := strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
	if plain && (strings.Contains(key, ".") ||
		strings.Trim(key, "abcdefghijklmnopqrstuvwxyz") == "" && len(key) <= longestWord) {
		return key
	}
	return "this key"
}

// longestWord is the maximum length at which a key without dots is shown.
const longestWord = 12

// refusal returns the reason why a security setting cannot be used.
func refusal(key string) string {
	switch {
	case strings.HasPrefix(key, "sasl.oauthbearer.") || strings.HasPrefix(key, "sasl.login."):
		return key + " is not supported: dlqbench asks nobody for tokens; get one and put it into " + EnvToken
	case strings.HasPrefix(key, "sasl.kerberos."):
		return key + " is not supported: no mechanism but " + strings.Join(security.Mechanisms(), ", ") + " is"
	case key == "ssl.key.password":
		return key + " is not supported: take the password off with `openssl pkey -in client.key -out client-plain.key`, " +
			"and keep that file to yourself"
	case key == "enable.ssl.certificate.verification":
		return key + " is not supported: brokers' certificates are always verified; give the authority that signed them " +
			"with ssl.ca.location"
	case strings.HasPrefix(key, "dlqbench."):
		return key +
			" is not known; there are dlqbench.broker.kill, .stop, .start, .pause and .resume, and dlqbench.ssl.server.name"
	}
	return key + " is not supported, and a setting about security is not left aside: take the line out if the cluster " +
		"can be reached without it"
}
