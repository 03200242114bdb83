package scaffold

// Which environment variables the program reads, and what each is probably for.

import (
	"cmp"
	"regexp"
	"strings"
)

// Variable is an environment variable that gets one of the addresses.
type Variable struct {
	Name string
	// Because says where it is read; "" if the name is an example.
	Because string
}

// Comment is what the line of the variable says of it.
func (v Variable) Comment() string {
	if v.Because == "" {
		return "  # an example: put in its own name"
	}
	return "  # " + oneLine(v.Because)
}

// Variables are those of the addresses.
type Variables struct {
	Bootstrap, Topic, DLQ, Group, Downstream, Registry, Database, Transactions Variable
	// Downstreams are all that Downstream may be, Addresses those of services without a URL, which may be gRPC's.
	Downstreams, Addresses []Variable
	// Brokers are further settings with addresses of Kafka, such as those of a consumer and a producer.
	Brokers []Variable
	// Fixed says where an address of Kafka is in the code, if no variable of Bootstrap was found.
	Fixed string
}

var (
	// reads matches an access to the environment by a variable's name, and Go's struct tags: whatever has env in its name
	// takes the name as its first argument, key or tag.
	reads = regexp.MustCompile(`(?i:\w*env)[\w.:?!]*(?:\(\)(?:\??\.\w+)?)?\s*[\[(:]\s*` +
		"[\"'`]([A-Z][A-Z0-9_]*)[\"'`,;]" + `|\benv\??\.([A-Z][A-Z0-9_]*)\b` +
		"|\\(\\s*(?:process\\.)?env,\\s*[\"'`]([A-Z][A-Z0-9_]*)[\"'`]")
	// takes matches names that are taken out of Node's environment at once, and names one of them.
	takes, taken = regexp.MustCompile(`\{([^{}]*)\}\s*=\s*process\.env\b`), regexp.MustCompile(`\b([A-Z][A-Z0-9_]*)\b`)
	// placeholder matches a variable in settings, such as those of Spring, Quarkus and Benthos, and in shell scripts;
	// inCamel matches one in settings and routes of Camel.
	placeholder = regexp.MustCompile(`\$\{([A-Z][A-Z0-9_]*)[:}]`)
	inCamel     = regexp.MustCompile(`\{\{env:([A-Z][A-Z0-9_]*)[:}]`)
)

// names are the variables that a file reads, in order.
func (s source) names() []string {
	names := oneOf(inCamel, s.text)
	if !codeFile.MatchString(s.path) {
		return append(names, oneOf(placeholder, s.text)...)
	}
	names = append(names, oneOf(reads, s.text)...)
	for _, list := range oneOf(takes, s.text) {
		names = append(names, oneOf(taken, list)...)
	}
	return names
}

// role is what a variable may be for: it has one of the words, and none of the others. Without a target it is one of
// the addresses.
type role struct {
	target     func(*Variables) *Variable
	has, hasNo *regexp.Regexp
}

// words matches names that have one of these words; words of a name are joined by _.
func words(list string) *regexp.Regexp { return regexp.MustCompile(`(?:^|_)(?:` + list + `)(?:_|$)`) }

const (
	deadWords  = `DLQS?|DLTS?|DEAD|DEAD_?LETTERS?(?:_?QUEUE)?`
	limitWords = `ENABLED?|MAX|MIN|COUNT|LIMIT|SIZE|TIMEOUT|MS|SECONDS|INTERVAL|RETENTION|PARTITIONS?|REPLICAS|` +
		`REPLICATION|FACTOR|RETRIES|ATTEMPTS`
	brokerWords = `BOOTSTRAP|BROKERS?|` +
		`KAFKA_(?:BOOTSTRAP_)?(?:SERVERS?|HOSTS?|URLS?|ADDR|ADDRS|ADDRESS|ADDRESSES|ENDPOINTS?)`
	otherKafka = `REGISTRY|SCHEMAS?|REST|PROXY|CONNECT|ZOOKEEPER|UI|USER|USERNAME|PASSWORD|PROTOCOL|VERSION`
	otherTopic = `RETRY|RETRIES|OUT|OUTPUT|SINK|TARGET|DESTINATION|PRODUCER?|PUBLISH|RESULTS?|REPLY|RESPONSE|LOG|LOGS|` +
		`CHANGELOG|AUDIT|PREFIX|SUFFIX|PATTERN`
	otherURL = `DB|DATABASE|JDBC|SQL|POSTGRES|POSTGRESQL|PG|MYSQL|MONGO|MONGODB|REDIS|RABBITMQ|AMQP|ELASTIC\w*|S3|` +
		`OTEL|OTLP|SENTRY|JAEGER|ZIPKIN|TEMPO|LOKI|PROMETHEUS|METRICS|TRACING|LOG|LOGS|VAULT|CONSUL|AUTH|OAUTH|OIDC|JWKS|` +
		`TOKEN|PROXY|KAFKA|BROKERS?|BOOTSTRAP|STORE|CALLBACK|PUBLIC|CORS|ORIGINS?|` +
		`FRONTEND|REDIRECT`
)

// roles are in the order in which a variable is given one.
func roles() []role {
	return []role{
		{func(v *Variables) *Variable { return &v.DLQ },
			regexp.MustCompile(`(?:^|_)(?:` + deadWords + `)(?:_\w*(?:TOPICS?|NAME|QUEUE))?$`),
			words(limitWords + `|GROUP|URL|PREFIX|SUFFIX|ON`)},
		{func(v *Variables) *Variable { return &v.Group }, words(`GROUP|GROUPID`), words(limitWords + `|INSTANCE|PROTOCOL|` +
			deadWords)},
		{func(v *Variables) *Variable { return &v.Topic }, words(`TOPICS?`), words(limitWords + `|` + otherTopic + `|` +
			deadWords)},
		{func(v *Variables) *Variable { return &v.Bootstrap },
			words(brokerWords), words(limitWords + `|` + otherKafka + `|ID|PORT`)},
		{func(v *Variables) *Variable { return &v.Registry }, words(`REGISTRY`), words(limitWords + `|USER|PASSWORD|TOPIC`)},
		{func(v *Variables) *Variable { return &v.Database },
			words(`(?:DB|DATABASE|DATASOURCE|POSTGRES|POSTGRESQL|PG|JDBC)\w*_(?:URL|URI|DSN)`), words(limitWords)},
		{func(v *Variables) *Variable { return &v.Transactions }, words(`TRANSACTIONAL_ID(?:_PREFIX)?`), words(limitWords)},
		{func(v *Variables) *Variable { return &v.Downstream }, words(`URL|URI|ENDPOINT`), words(limitWords + `|` +
			otherKafka + `|` + otherURL)},
		{nil, words(`ADDR|ADDRESS|TARGET|HOST|HOSTPORT`), words(limitWords + `|` + otherKafka + `|` + otherURL +
			`|LISTEN|BIND|SERVER|HTTP|PORT|TOPIC`)},
	}
}

// variables gives each role the first variable that fits it, and names the others. A variable that dlqbench sets anyway
// needs no line of its own, but does no harm.
func variables(sources []source) Variables {
	var v Variables
	var all []candidate
	for _, one := range sources {
		for _, name := range one.names() {
			all = append(all, candidate{name, name, "read in " + one.path})
		}
	}
	named := len(all)
	all = append(all, properties(sources)...)
	given := map[string]bool{}
	for i, one := range all {
		if !given[one.name] {
			given[one.name] = v.give(one, i >= named)
		}
	}
	return v
}

// give gives a variable the first role that fits it, and reports whether one does. A setting is one in a file of
// Spring's, or one that Spring takes from the environment.
func (v *Variables) give(one candidate, setting bool) bool {
	for _, role := range roles() {
		if !role.has.MatchString(one.words) || role.hasNo.MatchString(one.words) {
			continue
		}
		of := Variable{one.name, one.because}
		if role.target == nil {
			v.Addresses = append(v.Addresses, of)
			return true
		}
		target := role.target(v)
		if target == &v.Downstream {
			v.Downstreams = append(v.Downstreams, of)
		}
		switch {
		case target.Name == "":
			*target = of
		case setting && target == &v.Bootstrap:
			v.Brokers = append(v.Brokers, of)
		case strings.Contains(target.Because, "; or "):
			target.Because = strings.TrimSuffix(target.Because, "?") + ", " + one.name + "?"
		default:
			target.Because += "; or " + one.name + "?"
		}
		return true
	}
	return false
}

// inCode matches the address of a broker in code, at a port that Kafka usually has, and remark a line, or the end of a
// line, that is a comment.
var (
	inCode = regexp.MustCompile("[\"'`]([\\w.-]+:(?:[123]?9092|909[345]))\\b")
	remark = regexp.MustCompile(`(?m)(?:^|\s)//.*$|^\s*(?:#|\*|/\*).*$`)
)

// fixedBrokers is the first address of Kafka in code, and the file that has it.
func fixedBrokers(sources []source) (address, in string) {
	for _, one := range sources {
		code := remark.ReplaceAllString(one.text, "")
		if found := inCode.FindStringSubmatch(code); found != nil && codeFile.MatchString(one.path) {
			return found[1], one.path
		}
	}
	return "", ""
}

// or fills in examples, and what the framework reads.
func (v Variables) or(f Framework) Variables {
	for _, one := range []struct {
		of               *Variable
		known, otherwise string
	}{
		{&v.Bootstrap, f.Bootstrap, "KAFKA_BOOTSTRAP_SERVERS"}, {&v.Topic, "", "KAFKA_TOPIC"},
		{&v.DLQ, "", "KAFKA_DLQ_TOPIC"}, {&v.Group, f.Group, "KAFKA_GROUP_ID"}, {&v.Downstream, "", "DOWNSTREAM_URL"},
	} {
		if one.of.Name == "" {
			one.of.Name = cmp.Or(one.known, one.otherwise)
			if one.known != "" {
				one.of.Because = "read by " + f.dependency
			}
			if one.of == &v.Bootstrap && v.Fixed != "" {
				one.of.Because = cmp.Or(one.of.Because, "an example") + "; but " + v.Fixed
			}
		}
	}
	return v
}
