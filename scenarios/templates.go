package scenarios

// The values a subject instance is given, as environment variables and as {{.Name}} in the texts of its subject.yaml.

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
)

// Values are what an instance of the subject is told.
type Values struct {
	// BootstrapServers is this instance's own tap; BootstrapHost and BootstrapPort are those of its first address.
	BootstrapServers, BootstrapHost, BootstrapPort string
	// InputTopic is the source topic; InputTopics lists all of them, comma-separated.
	InputTopic, InputTopics string
	DLQTopic                string
	// RetryTopics are comma-separated, or empty.
	RetryTopics string
	// ReplayTopic is where dead letters go back to if that is not the input topic, else empty.
	ReplayTopic string
	GroupID     string
	// Instance counts from 0.
	Instance int
	// OracleURL is the downstream, behind its link.
	OracleURL string
	// DownstreamURLs are the addresses of its downstreams by their names, each behind its link; output topics have none.
	DownstreamURLs map[string]string
	// Port is a TCP port of this machine that was free when the run began, one of each instance: for its health,
	// metrics or the like. "" for tools.
	Port string
	// Ports are further such ports of the instance, by the names that the subject file gives them.
	Ports map[string]string
	// StoreURL is the dead-letter store's database; empty when there is none.
	StoreURL string
	// DatabaseURL is the database that the subject writes to, behind its link, postgres://…; the others are its parts.
	// Empty when there is none.
	DatabaseURL, DatabaseHost, DatabasePort, DatabaseName, DatabaseUser, DatabasePassword string
	// CAFile is the certificate of the authority that signed those of downstreams with TLS, as PEM; CATrustStore has the
	// same as PKCS #12. Empty when none has TLS.
	CAFile, CATrustStore string
	// SchemaRegistryURL is the registry that has the schema of the records; empty when they have none.
	SchemaRegistryURL string
	// WorkDir is the instance's own folder, in which its files are written.
	WorkDir string
	// Folder is that of the subject file, absolute.
	Folder string
	// Needs are the addresses (127.0.0.1:PORT) of what the subject needs, by name.
	Needs map[string]string
	// IDsFile names the records to put back, one id per line, and ReplayRate is how many the replay tool may write per
	// second; empty for instances.
	IDsFile, ReplayRate string
	// RunID prefixes everything of the run.
	RunID string
	// SecurityProtocol is PLAINTEXT unless the cluster wants SASL.
	SecurityProtocol                          string
	SASLMechanism, SASLUsername, SASLPassword string
}

// TellBrokers sets the addresses of Kafka, HOST:PORT and comma-separated.
func (v *Values) TellBrokers(addresses string) {
	v.BootstrapServers = addresses
	first, _, _ := strings.Cut(addresses, ",")
	v.BootstrapHost, v.BootstrapPort, _ = net.SplitHostPort(first) // empty if it is none, as before a run
}

// Security returns the environment variables that say who a client is to the brokers.
func (v Values) Security() map[string]string {
	return map[string]string{
		"DLQBENCH_SECURITY_PROTOCOL": v.SecurityProtocol,
		"DLQBENCH_SASL_MECHANISM":    v.SASLMechanism,
		"DLQBENCH_SASL_USERNAME":     v.SASLUsername,
		"DLQBENCH_SASL_PASSWORD":     v.SASLPassword,
	}
}

// Environment returns the values as environment variables, DLQBENCH_BOOTSTRAP_SERVERS and so on.
func (v Values) Environment() map[string]string {
	environment := map[string]string{
		"DLQBENCH_BOOTSTRAP_SERVERS":   v.BootstrapServers,
		"DLQBENCH_BOOTSTRAP_HOST":      v.BootstrapHost,
		"DLQBENCH_BOOTSTRAP_PORT":      v.BootstrapPort,
		"DLQBENCH_INPUT_TOPIC":         v.InputTopic,
		"DLQBENCH_INPUT_TOPICS":        v.InputTopics,
		"DLQBENCH_DLQ_TOPIC":           v.DLQTopic,
		"DLQBENCH_RETRY_TOPICS":        v.RetryTopics,
		"DLQBENCH_REPLAY_TOPIC":        v.ReplayTopic,
		"DLQBENCH_GROUP_ID":            v.GroupID,
		"DLQBENCH_INSTANCE":            strconv.Itoa(v.Instance),
		"DLQBENCH_ORACLE_URL":          v.OracleURL,
		"DLQBENCH_DATABASE_URL":        v.DatabaseURL,
		"DLQBENCH_DATABASE_HOST":       v.DatabaseHost,
		"DLQBENCH_DATABASE_PORT":       v.DatabasePort,
		"DLQBENCH_DATABASE_NAME":       v.DatabaseName,
		"DLQBENCH_DATABASE_USER":       v.DatabaseUser,
		"DLQBENCH_DATABASE_PASSWORD":   v.DatabasePassword,
		"DLQBENCH_PORT":                v.Port,
		"DLQBENCH_STORE_URL":           v.StoreURL,
		"DLQBENCH_CA_FILE":             v.CAFile,
		"DLQBENCH_CA_TRUST_STORE":      v.CATrustStore,
		"DLQBENCH_SCHEMA_REGISTRY_URL": v.SchemaRegistryURL,
		"DLQBENCH_WORK_DIR":            v.WorkDir,
		"DLQBENCH_FOLDER":              v.Folder,
		"DLQBENCH_IDS_FILE":            v.IDsFile,
		"DLQBENCH_REPLAY_RATE":         v.ReplayRate,
		"DLQBENCH_RUN_ID":              v.RunID,
	}
	for name, port := range v.Ports {
		environment["DLQBENCH_PORT_"+strings.ToUpper(name)] = port
	}
	for name, address := range v.Needs {
		environment["DLQBENCH_NEEDS_"+strings.ToUpper(name)] = address
	}
	for name, address := range v.DownstreamURLs {
		environment["DLQBENCH_DOWNSTREAM_"+strings.ToUpper(name)+"_URL"] = address
	}
	maps.Copy(environment, v.Security())
	return environment
}

// TakesFrom returns the values with the subject's own input topics in them, if it has any. InputTopic is the first.
func (s *SubjectFile) TakesFrom(values Values) (Values, error) {
	var topics []string
	for _, name := range s.Input.own() {
		topic, err := renderText(name, values)
		if err != nil {
			return values, fmt.Errorf("filling in the input topic of the subject %s: %w", s.Name, err)
		}
		topics = append(topics, topic)
	}
	if len(topics) > 0 {
		values.InputTopic, values.InputTopics = topics[0], strings.Join(topics, ",")
	}
	return values, nil
}

// TopicNames are the names of topics in a run, each once, but for an input topic that is a retry topic as well.
type TopicNames struct{ Inputs, DeadLetters, Retries []string }

// TopicNames returns the names of the subject's topics, with values after TakesFrom. Those of its dead-letter and retry
// topics may contain that of the input topic; then each input topic has its own. A downstream that takes the dead
// letters is there in the place of their topic.
func (s *SubjectFile) TopicNames(values Values) (TopicNames, error) {
	var names TopicNames
	for input := range strings.SplitSeq(cmp.Or(values.InputTopics, values.InputTopic), ",") {
		values.InputTopic = input
		rendered, err := s.Render(values)
		if err != nil {
			return names, err
		}
		letters, retries := cmp.Or(rendered.Letters(), rendered.Contract.DLQ.Topic, values.DLQTopic),
			rendered.Contract.RetryTopics
		known := func(name string) bool {
			return slices.Contains(names.DeadLetters, name) || slices.Contains(names.Retries, name)
		}
		if !known(letters) {
			names.DeadLetters = append(names.DeadLetters, letters)
		}
		if retries = slices.DeleteFunc(slices.Clone(retries), known); len(names.Inputs) == 0 {
			retries = rendered.Contract.RetryTopics // checkTopicNames tells what has two purposes
		}
		names.Retries = append(names.Retries, retries...)
		names.Inputs = append(names.Inputs, input)
	}
	return names, nil
}

// onlyRegistry matches the template of the schema registry's address alone.
var onlyRegistry = regexp.MustCompile(`^\s*\{\{-?\s*\.SchemaRegistryURL\s*-?\}\}\s*$`)

// Render returns the subject with the values in the place of all templates. A list of retry topics that was one
// comma-joined template becomes a list. Without names among the values, retry topics are called as those of the
// reference consumer.
func (s *SubjectFile) Render(values Values) (*SubjectFile, error) {
	rendered := *s
	values.RetryTopics = cmp.Or(values.RetryTopics, s.usualRetryTopics(values.InputTopic))
	var failed error
	text := func(from string) string {
		to, err := renderText(from, values)
		if err != nil && failed == nil {
			failed = err
		}
		return to
	}
	list := func(from []string) []string {
		var to []string
		for _, entry := range from {
			to = append(to, text(entry))
		}
		return to
	}
	all := func(from map[string]string) map[string]string {
		to := make(map[string]string, len(from))
		for name, entry := range from {
			to[name] = text(entry)
		}
		return to
	}
	rendered.Build, rendered.Command, rendered.Args = list(s.Build), list(s.Command), list(s.Args)
	rendered.Dir = text(s.Dir)
	rendered.Env, rendered.Files = all(s.Env), all(s.Files)
	if values.SchemaRegistryURL == "" {
		// Clients take an empty address for that of a registry. Without the variable, they use none.
		maps.DeleteFunc(rendered.Env, func(name, _ string) bool { return onlyRegistry.MatchString(s.Env[name]) })
	}
	rendered.Contract.Group, rendered.Contract.DLQ.Topic = text(s.Contract.Group), text(s.Contract.DLQ.Topic)
	if s.Contract.Effects != nil {
		effects := *s.Contract.Effects
		effects.Topic, rendered.Contract.Effects = text(effects.Topic), &effects
	}
	rendered.Contract.Health, rendered.Ready.URL = text(s.Contract.Health), text(s.Ready.URL)
	rendered.Replay = ReplayTool{To: text(s.Replay.To), Command: list(s.Replay.Command)}
	rendered.Contract.RetryTopics = splitList(strings.Join(list(s.Contract.RetryTopics), ","))
	rendered.Topics = list(s.Topics)
	rendered.Downstreams = slices.Clone(s.Downstreams)
	for i, one := range rendered.Downstreams {
		if one.Kafka != nil {
			named := *one.Kafka
			named.Topic, rendered.Downstreams[i].Kafka = text(named.Topic), &named
		}
	}
	if s.Input != nil {
		input := *s.Input
		input.Topic, input.Topics, rendered.Input = text(input.Topic), slices.Clone(input.Topics), &input
		for i := range input.Topics {
			input.Topics[i].Topic = text(input.Topics[i].Topic)
		}
	}
	if s.External != nil {
		external, signals := *s.External, s.External.Signals
		external.Signals = Signals{Start: list(signals.Start), Term: list(signals.Term), Kill: list(signals.Kill),
			Stop: list(signals.Stop), Cont: list(signals.Cont)}
		rendered.External = &external
	}
	if s.Store != nil {
		own := *s.Store
		own.URL, rendered.Store = text(own.URL), &own
	}
	if failed != nil {
		return nil, fmt.Errorf("filling in the subject %s: %w", s.Name, failed)
	}
	return &rendered, nil
}

// usualRetryTopics are the comma-separated names of retry topics that the contract leaves to dlqbench, "" without any.
func (s *SubjectFile) usualRetryTopics(input string) string {
	if s.Contract.Retry != string(history.RetryTopics) {
		return ""
	}
	return strings.Join(consumer.RetryTopicNames(input, int(s.Contract.Attempts.Max)), ",")
}

func renderText(text string, values Values) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	parsed, err := template.New("text").Option("missingkey=zero").Parse(text)
	if err != nil {
		return "", fmt.Errorf("reading the template %q: %w", text, err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, values); err != nil {
		return "", fmt.Errorf("filling in the template %q: %w", text, err)
	}
	return out.String(), nil
}

// eachTemplate calls do for each text below n with a template in it.
func eachTemplate(n *node, do func(n *node, text string)) {
	if n == nil || n.bad {
		return
	}
	for _, child := range n.fields {
		eachTemplate(child, do)
	}
	for _, item := range n.items {
		eachTemplate(item, do)
	}
	if text, isText := n.scalar.(string); isText && strings.Contains(text, "{{") {
		do(n, text)
	}
}

// checkTemplates reports the templates below n that can't be filled in.
func (d *document) checkTemplates(n *node) { eachTemplate(n, d.checkTemplate) }

func (d *document) checkTemplate(n *node, text string) {
	parsed, err := template.New("text").Parse(text)
	if err != nil {
		_, reason, _ := strings.Cut(err.Error(), "template: text:")
		d.add(n.at, "this template can't be read: "+strings.TrimLeft(reason, "0123456789: "), "")
		return
	}
	known := valueNames()
	for _, name := range fieldNames(parsed.Root) {
		if !slices.Contains(known, name) {
			suggestion := cmp.Or(hint(name, known), "known here: "+strings.Join(known, ", "))
			d.add(d.find(n, "."+name), fmt.Sprintf("there is no value {{.%s}}", name), suggestion)
		}
	}
	if _, err := renderText(text, Values{}); err != nil && allKnown(known, fieldNames(parsed.Root)) {
		_, reason, _ := strings.Cut(err.Error(), ">: ")
		d.add(n.at, "this template can't be filled in: "+reason, "")
	}
}

func allKnown(known, names []string) bool {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return false
		}
	}
	return true
}

func valueNames() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Values]()) {
		names = append(names, field.Name)
	}
	return names
}

// portNames returns the names of the ports that templates below n use, {{.Ports.NAME}}, sorted.
func portNames(n *node) []string {
	named := regexp.MustCompile(`\.Ports\.([A-Za-z0-9_]+)`)
	names := map[string]bool{}
	eachTemplate(n, func(_ *node, text string) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			names[found[1]] = true
		}
	})
	return slices.Sorted(maps.Keys(names))
}

// checkNamed reports the templates below n that use {{.VALUE.NAME}} with a name that is not known. where is the key
// under which such names are given.
func (d *document) checkNamed(n *node, value, where string, known map[string]bool) {
	named := regexp.MustCompile(`\.` + value + `\.([A-Za-z0-9_]+)`)
	eachTemplate(n, func(n *node, text string) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if !known[found[1]] {
				d.add(d.find(n, found[0]), fmt.Sprintf("there is no %s in %s", found[1], where),
					hint(found[1], slices.Sorted(maps.Keys(known))))
			}
		}
	})
}

// checkAbsent reports the templates below n with values that the subject does not have, and why.
func (d *document) checkAbsent(n *node, values, why string) {
	absent := regexp.MustCompile(values)
	eachTemplate(n, func(n *node, text string) {
		if found := absent.FindString(text); found != "" {
			d.add(d.find(n, found), why, "")
		}
	})
}

// fieldNames returns the names of the values that a template uses.
func fieldNames(from parse.Node) []string {
	var names []string
	switch v := from.(type) {
	case *parse.ListNode:
		if v != nil {
			for _, child := range v.Nodes {
				names = append(names, fieldNames(child)...)
			}
		}
	case *parse.ActionNode:
		names = fieldNames(v.Pipe)
	case *parse.IfNode:
		names = append(append(fieldNames(v.Pipe), fieldNames(v.List)...), fieldNames(v.ElseList)...)
	case *parse.PipeNode:
		for _, command := range v.Cmds {
			for _, argument := range command.Args {
				names = append(names, fieldNames(argument)...)
			}
		}
	case *parse.FieldNode:
		names = append(names, v.Ident[0])
	}
	return names
}

// find is the place of a text inside a value, which may go over several lines.
func (d *document) find(n *node, text string) place {
	from := n.at.column - 1
	for line := n.at.line; line >= 1 && line <= len(d.lines); line++ {
		runes := []rune(d.lines[line-1])
		from = min(from, len(runes))
		if before, _, found := strings.Cut(string(runes[from:]), text); found {
			return d.place(line, from+len([]rune(before))+1)
		}
		from = 0
	}
	return n.at
}
