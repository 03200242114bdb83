package scaffold

// Which environment variables the program reads, and what each is probably for.

import (
	"cmp"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
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
	// BootstrapPort is the port of Kafka if Bootstrap is the host alone.
	BootstrapPort Variable
	// DatabaseParts are the host, port, name, user and password of a database of PostgreSQL without a URL.
	DatabaseParts []Address
	// Brokers are further settings with addresses of Kafka, such as those of a consumer and a producer.
	Brokers []Variable
	// Ports are those at which it listens.
	Ports []Variable
	// Fixed says where an address of Kafka is in the code, if no variable of Bootstrap was found.
	Fixed string
	// FixedPort is the port of that address if it is one of this machine, else 0.
	FixedPort int
}

var (
	// reads matches an access to the environment by a variable's name, and Go's struct tags: whatever has env in its name
	// takes the name as its first argument, key or tag.
	reads = regexp.MustCompile(`(?i:\w*env)[\w.:?!]*(?:\(\)(?:\??\.\w+)?)?\s*[\[(:]\s*` +
		"[\"'`]([A-Z][A-Z0-9_]*)[\"'`,;]" + `|\benv\??\.([A-Z][A-Z0-9_]*)\b` +
		"|\\(\\s*(?:\\w+\\.)*(?i:\\w*env),\\s*[\"'`]([A-Z][A-Z0-9_]*)[\"'`]")
	// configured matches a variable that a library of settings looks up, as viper and NestJS' ConfigService do, and
	// mapstructure's tags. nested matches a tag of envconfig, which is the end of a name: outer structs prefix it.
	configured = regexp.MustCompile(`(?i:\w*conf(?:ig)?\w*|viper)(?:\??\.\w+)*(?:<[^<>()]*>)?\(\s*` +
		"[\"'`]([A-Z][A-Z0-9_]+)[\"'`]" + `|\bmapstructure:"([A-Z][A-Z0-9_]+)[",]`)
	nested       = regexp.MustCompile(`\benvconfig:"([A-Z][A-Z0-9_]*)[",]`)
	structFields = regexp.MustCompile(`\bstruct\s*\{([^{}]*)\}`)
	// fields matches a field of a class of pydantic's settings, which is read from the variable of its name after the
	// prefix.
	fields       = regexp.MustCompile(`(?m)^[ \t]+([a-z]\w*)\s*:\s*[\w"']`)
	fieldsPrefix = regexp.MustCompile(`\benv_prefix["']?\s*[=:]\s*["'](\w*)["']`)
	// exampleFile matches the names of files such as .env.example, and assigned a variable in them with its value.
	exampleFile = regexp.MustCompile(`env\.(?:example|sample|template|dist)$|^\.?(?:example|sample)\.env$`)
	assigned    = regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?([A-Z][A-Z0-9_]*)[ \t]*=[ \t]*(.*)$`)
	// takes matches names that are taken out of Node's environment at once, and names one of them.
	takes, taken = regexp.MustCompile(`\{([^{}]*)\}\s*=\s*process\.env\b`), regexp.MustCompile(`\b([A-Z][A-Z0-9_]*)\b`)
	// placeholder matches a variable in settings, such as those of Spring, Quarkus, Benthos and Platformatic ("{NAME}"),
	// and in shell scripts; inCamel matches one in settings and routes of Camel, and inSpring one in Spring's annotations:
	// @KafkaListener(topics = "${ORDERS_TOPIC}").
	placeholder = regexp.MustCompile(`[$"']\{([A-Z][A-Z0-9_]*)[:}]`)
	inCamel     = regexp.MustCompile(`\{\{env:([A-Z][A-Z0-9_]*)[:}]`)
	inSpring    = regexp.MustCompile(`"\\?\$\{([A-Z][A-Z0-9_]*)[:}]`)
)

// names are the variables that a file reads, in order.
func (s source) names() []string {
	names := oneOf(inCamel, s.text)
	if !codeFile.MatchString(s.path) {
		return append(names, oneOf(placeholder, s.text)...)
	}
	names = append(append(names, oneOf(reads, s.text)...), oneOf(configured, s.text)...)
	if strings.Contains(s.text, "org.springframework") {
		names = append(names, oneOf(inSpring, s.text)...)
	}
	if strings.Contains(s.text, "BaseSettings") {
		prefix := strings.Join(oneOf(fieldsPrefix, s.text), "")
		for _, field := range oneOf(fields, s.text) {
			names = append(names, strings.ToUpper(prefix+field))
		}
	}
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
	deadWords   = `DLQS?|DLTS?|DEAD|DEAD_?LETTERS?(?:_?QUEUE)?`
	failedWords = `ERRORS?|FAILED|FAILURES?`
	limitWords  = `ENABLED?|MAX|MIN|COUNT|LIMIT|SIZE|TIMEOUT|MS|SECONDS|INTERVAL|RETENTION|PARTITIONS?|REPLICAS|` +
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
	// searchIndex are names of addresses of a search index, whose clients take URLs by the name of hosts or nodes, too.
	searchIndex = `(?:ES|ELASTIC(?:_?SEARCH)?|OPEN_?SEARCH)(?:_\w+)?_` +
		`(?:URLS?|URIS?|ENDPOINTS?|HOSTS|NODES?|ADDRESS(?:ES)?)`
)

// roles are in the order in which a variable is given one.
func roles() []role {
	return []role{
		{func(v *Variables) *Variable { return &v.DLQ },
			regexp.MustCompile(`(?:^|_)(?:(?:` + deadWords + `)(?:_\w*(?:TOPICS?|NAME|QUEUE))?|(?:` + failedWords +
				`)_TOPIC(?:_NAME)?)$`),
			words(limitWords + `|GROUP|URL|PREFIX|SUFFIX|ON`)},
		{func(v *Variables) *Variable { return &v.Group }, words(`GROUP|GROUPID`), words(limitWords + `|INSTANCE|PROTOCOL|` +
			deadWords)},
		{func(v *Variables) *Variable { return &v.Topic }, words(`TOPICS?`), words(limitWords + `|` + otherTopic + `|` +
			deadWords + `|SUCCESS|` + failedWords)},
		{func(v *Variables) *Variable { return &v.Bootstrap },
			words(brokerWords), words(limitWords + `|` + otherKafka + `|ID|PORT`)},
		{func(v *Variables) *Variable { return &v.Registry }, words(`REGISTRY`), words(limitWords + `|USER|PASSWORD|TOPIC`)},
		{func(v *Variables) *Variable { return &v.Database },
			words(`(?:DB|DATABASE|DATASOURCE|POSTGRES|POSTGRESQL|PG|JDBC)\w*_(?:URL|URI|DSN)`), words(limitWords)},
		{func(v *Variables) *Variable { return &v.Transactions }, words(`TRANSACTIONAL_ID(?:_PREFIX)?`), words(limitWords)},
		{func(v *Variables) *Variable { return &v.Downstream }, words(`URL|URI|ENDPOINT`), words(limitWords + `|` +
			otherKafka + `|` + otherURL)},
		{func(v *Variables) *Variable { return &v.Downstream }, words(searchIndex), words(limitWords + `|APM|LOGS?|METRICS`)},
		{listensAt, regexp.MustCompile(`^PORT$|(?:^|_)(?:HTTP|SERVER|APP|API|LISTEN|METRICS|HEALTH|ADMIN|MANAGEMENT)_PORT$`),
			words(`KAFKA|DB|DATABASE|POSTGRES|POSTGRESQL|PG|MYSQL|MONGO|MONGODB|REDIS|PROXY|REST|REGISTRY`)},
		{nil, words(`ADDR|ADDRESS|TARGET|HOST|HOSTPORT`), words(limitWords + `|` + otherKafka + `|` + otherURL +
			`|LISTEN|BIND|SERVER|HTTP|PORT|TOPIC`)},
	}
}

// listensAt makes room for one more port.
func listensAt(v *Variables) *Variable {
	v.Ports = append(v.Ports, Variable{})
	return &v.Ports[len(v.Ports)-1]
}

// variables gives each role the first variable that fits it, and names the others. A variable that dlqbench sets anyway
// needs no line of its own, but does no harm.
func variables(sources []source) Variables {
	var v Variables
	var all []candidate
	set := assignments(sources)
	for _, one := range sources {
		tags := oneOf(nested, one.text)
		for _, name := range one.names() {
			whole := name
			if slices.Contains(tags, name) {
				whole = one.wholeName(name, set)
			}
			all = append(all, candidate{whole, whole, "read in " + one.path})
		}
	}
	all = append(all, set...)
	named := len(all)
	all = append(all, properties(sources)...)
	given := map[string]bool{}
	for i, one := range all {
		if !given[one.name] {
			given[one.name] = v.give(one, i >= named)
		}
	}
	v.parts(all, sources)
	return v
}

var (
	// ofDatabase matches what is before the parts of a database's address, and postgres what shows that the database is
	// one of PostgreSQL.
	ofDatabase = regexp.MustCompile(`(?:^|_)(?:DB|DATABASE|POSTGRES|POSTGRESQL|PG)$`)
	postgres   = regexp.MustCompile(`(?i)postgres|asyncpg|psycopg|\bpgx\b|lib/pq\b`)
	// itsPort matches a variable whose value is PostgreSQL's own port if it is not set.
	itsPort = regexp.MustCompile(`\b([A-Z][A-Z0-9_]*PORT)["'` + "`" + `)\]]*\s*` +
		`(?:,|\|\||\?\?|\?:|:-?)\s*["'` + "`" + `]?5432\b`)
)

// parts finds the addresses that are given in parts, such as KAFKA_HOST and KAFKA_PORT.
func (v *Variables) parts(all []candidate, sources []source) {
	names := map[string]Variable{}
	database := "" // the variable with the host of one
	for _, one := range slices.Backward(all) {
		names[one.name] = Variable{one.name, one.because}
		if stem, isHost := hostOf(one.name); isHost && ofDatabase.MatchString(stem) {
			database = one.name
		}
	}
	if stem, isHost := hostOf(v.Bootstrap.Name); isHost {
		v.BootstrapPort = names[stem+"_PORT"]
	}
	stem, isHost := hostOf(database)
	if !isHost || v.Database.Name != "" ||
		!slices.ContainsFunc(sources, func(s source) bool { return postgres.MatchString(s.text) }) {
		return
	}
	for _, part := range []struct{ ends, value string }{{"HOST HOSTNAME", "Host"}, {"PORT", "Port"},
		{"NAME DB DATABASE", "Name"}, {"USER USERNAME", "User"}, {"PASSWORD PASS", "Password"}} {
		for end := range strings.FieldsSeq(part.ends) {
			if of, known := names[stem+"_"+end]; known {
				v.DatabaseParts = append(v.DatabaseParts, Address{of, "{{.Database" + part.value + "}}"})
			}
		}
	}
	v.portByDefault(names, sources)
}

// portByDefault finds the port of the database by its default, if no name goes with that of the host.
func (v *Variables) portByDefault(names map[string]Variable, sources []source) {
	const value = "{{.DatabasePort}}"
	if slices.ContainsFunc(v.DatabaseParts, func(a Address) bool { return a.Value == value }) {
		return
	}
	for _, one := range sources {
		for _, name := range oneOf(itsPort, one.text) {
			if of, known := names[name]; known {
				v.DatabaseParts = append(v.DatabaseParts, Address{of, value})
				return
			}
		}
	}
}

// hostOf returns what is before _HOST in a name.
func hostOf(name string) (stem string, isHost bool) {
	return strings.CutSuffix(strings.TrimSuffix(name, "NAME"), "_HOST")
}

// assignments are the variables in files such as .env and .env.example. Programs read these into their environment, or
// have them to show which variables they read; a variable of the environment usually takes precedence.
func assignments(sources []source) (set []candidate) {
	for _, one := range sources {
		if dotenvFile.MatchString(path.Base(one.path)) {
			for _, found := range assigned.FindAllStringSubmatch(one.text, -1) {
				set = append(set, candidate{found[1], found[1], "set in " + one.path})
			}
		}
	}
	return set
}

// mostExamples bounds the variables that are named because a file sets them.
const mostExamples = 30

// examples are the variables that files such as .env.example set, and that get no address: a program may read them in
// ways that its code does not show, and not start without them.
func (p *Proposal) examples(r repository) (all []Address) {
	known := map[string]bool{}
	for _, one := range p.Env {
		known[one.Name] = true
	}
	for _, one := range p.sources(r, nil) {
		if !exampleFile.MatchString(path.Base(one.path)) {
			continue
		}
		for _, found := range assigned.FindAllStringSubmatch(one.text, -1) {
			if name := found[1]; !known[name] && len(all) < mostExamples {
				known[name] = true
				value, _, _ := strings.Cut(found[2], " #")
				value = strings.Trim(strings.TrimSpace(value), `"'`)
				all = append(all, Address{Variable{name, "set in " + one.path}, oneLine(value)})
			}
		}
	}
	return all
}

// wholeName is the name that ends in that of a tag, or "" if the tag is of a struct, whose name only prefixes others. A
// tag that no file has a variable for has the prefix of those beside it.
func (s source) wholeName(tag string, set []candidate) string {
	known := setName(tag, set)
	if known != tag || slices.ContainsFunc(set, func(c candidate) bool { return c.name == tag }) {
		return known
	}
	for _, fields := range oneOf(structFields, s.text) {
		beside := oneOf(nested, fields)
		if !slices.Contains(beside, tag) {
			continue
		}
		for _, other := range beside {
			if prefix, isTag := strings.CutSuffix(setName(other, set), "_"+other); isTag {
				return prefix + "_" + tag
			}
		}
	}
	return tag
}

// setName is the name of a variable that is set and ends in that of a tag, the tag itself if there is none, and "" if
// the tag only prefixes others.
func setName(tag string, set []candidate) string {
	whole := tag
	for _, one := range set {
		switch {
		case one.name == tag:
			return tag
		case strings.HasSuffix(one.name, "_"+tag) && whole == tag:
			whole = one.name
		case strings.Contains("_"+one.name, "_"+tag+"_") && whole == tag:
			whole = ""
		}
	}
	return whole
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
	inCode = regexp.MustCompile("[\"'`](?:\\w+://)?([\\w.-]+:(?:[123]?9092|909[345]))\\b")
	remark = regexp.MustCompile(`(?m)(?:^|\s)//.*$|^\s*(?:#|\*|/\*).*$`)
)

// localPort is the port of an address of this machine, 0 of any other.
func localPort(address string) int {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" && host != "127.0.0.1" {
		return 0
	}
	number, _ := strconv.Atoi(port) // of four or five digits, see inCode
	return number
}

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
