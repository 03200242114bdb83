package scaffold

// The subject file that learning begins with: how the consumer is started, and what is known of it without watching it.

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Records are what the records of a consumer are made from.
type Records struct {
	// Samples is the path of a file with samples, relative to the subject file; "" for none.
	Samples string
	// Lines is envelope, or "" for values alone.
	Lines string
	// IDs are the places at which a record's id may stand, the likeliest first.
	IDs []string
	// Format and Schema are how records are written, "" for JSON; Guessed says that they are a guess.
	Format, Schema string
	Guessed        bool
	// Answer is the body with which calls that succeed are answered; "" for the usual one.
	Answer string
}

// single is a text as YAML has it in single quotes.
func single(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// service matches the definition of a gRPC service in a .proto file.
var service = regexp.MustCompile(`(?m)^\s*service\s+\w+\s*\{`)

// schemas are the files of a repository that describe records, by format, and those that describe gRPC services.
func schemas(files fs.FS) (records map[string][]string, services []string) {
	records = map[string][]string{}
	r := repository{files, ""}
	for name := range r.files(r.foreign) {
		switch {
		case strings.HasSuffix(name, ".proto") && service.MatchString(r.read(name)):
			services = append(services, name)
		case strings.HasSuffix(name, ".proto"):
			records["protobuf"] = append(records["protobuf"], name)
		case strings.HasSuffix(name, ".avsc"):
			records["avro"] = append(records["avro"], name)
		case strings.HasSuffix(name, ".schema.json"):
			records["json-schema"] = append(records["json-schema"], name)
		}
	}
	return records, services
}

// FindSchema returns the format and the path of the schema of records in a repository, if there is exactly one, or if
// the samples fit exactly one of several; nil stands for samples that are not known.
func FindSchema(files fs.FS, fits func(format, schema string) bool) (format, schema string) {
	records, _ := schemas(files)
	var found [][2]string
	for of, all := range records {
		for _, one := range all {
			found = append(found, [2]string{of, one})
		}
	}
	if len(found) > 1 {
		found = slices.DeleteFunc(found, func(one [2]string) bool { return fits == nil || !fits(one[0], one[1]) })
	}
	if len(found) != 1 {
		return "", ""
	}
	return found[0][0], found[0][1]
}

// Address is an environment variable and the template that it is filled with.
type Address struct {
	Variable
	Value string
}

// Downstream is a service that is called, by the name that its variable gives it. Schema is that of a gRPC service.
type Downstream struct{ Name, Kind, Schema string }

var urlWord = regexp.MustCompile(`_(?:BASE_|GRPC_)?(?:URL|URI|ENDPOINT|ADDR|ADDRESS|TARGET|HOST|HOSTPORT)$`)

// ToLearn is the subject file of a consumer that is started by this command in a repository.
func ToLearn(files fs.FS, folder string, command []string, records Records) ([]byte, error) {
	r := repository{files, folder}
	proposal := propose(r, command)
	all, err := parsed()
	if err != nil {
		return nil, err
	}
	values := struct {
		Name           string
		Build, Command []string
		Env            []Address
		Records
		Downstreams []Downstream
		Variables
		Examples []Address
		Needs    []string
	}{proposal.Name, proposal.Build, command, proposal.Env, records, proposal.Called, proposal.Variables,
		proposal.Examples, nil}
	for _, note := range proposal.Notes {
		if strings.Contains(note, "name that in needs") {
			values.Needs = append(values.Needs, strings.Join(wrapped(note+".", 118), "\n# "))
		}
	}
	for i := range values.Env { // what else it may be is not asked here
		values.Env[i].Because, _, _ = strings.Cut(values.Env[i].Because, "; or ")
	}
	var text strings.Builder
	if err := all.ExecuteTemplate(&text, "learn.yaml.tmpl", values); err != nil {
		return nil, fmt.Errorf("filling in subject.yaml: %w", err)
	}
	return []byte(text.String()), nil
}

// wrapped breaks a text into lines of so many bytes at most, if no word is longer.
func wrapped(text string, columns int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= columns {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// addresses are the variables that the program reads, and the services that it calls at them. Kafka's is there even if
// it was not found.
func (p *Proposal) addresses(r repository) (env []Address, called []Downstream) {
	v := p.Variables
	known := v.or(p.Framework)
	for _, one := range append([]Variable{known.Bootstrap}, v.Brokers...) {
		env = append(env, Address{one, "{{.BootstrapServers}}"})
	}
	if v.BootstrapPort.Name != "" {
		env[0].Value = "{{.BootstrapHost}}"
		env = append(env, Address{v.BootstrapPort, "{{.BootstrapPort}}"})
	}
	if known.Group.Name == p.Framework.Group && v.Group.Name == "" {
		v.Group = Variable{} // what the framework reads has a value in the settings already
	}
	add := func(of Variable, value string) {
		if of.Name != "" {
			env = append(env, Address{of, value})
		}
	}
	add(v.Topic, "{{.InputTopic}}")
	add(v.DLQ, "{{.DLQTopic}}")
	add(v.Group, "{{.GroupID}}")
	add(v.Transactions, p.Name+"-{{.Instance}}")
	add(v.Registry, "{{.SchemaRegistryURL}}")
	_, services := schemas(r.FS)
	if len(services) != 1 {
		v.Addresses = nil // which of the services is at an address is not known
	}
	found := slices.Concat(v.Downstreams, v.Addresses)
	found = found[:min(len(found), mostCalled)]
	for i, one := range found {
		name, value := nameOf(one, called), "{{.OracleURL}}"
		if len(found) > 1 || p.hasDatabase(r) {
			value = "{{.DownstreamURLs." + name + "}}"
		}
		add(one, value)
		if i < len(v.Downstreams) {
			called = append(called, Downstream{name, "http", ""})
		} else {
			called = append(called, Downstream{name, "grpc", services[0]})
		}
	}
	env = append(env, p.ports(r)...)
	if !p.hasDatabase(r) {
		return env, called
	}
	return append(env, p.database(r)...), append(called, Downstream{"database", "postgres", ""})
}

// database are the variables with the address of the program's database.
func (p *Proposal) database(r repository) (env []Address) {
	v := p.Variables
	add := func(of Variable, value string) { env = append(env, Address{of, value}) }
	spring := "SPRING_DATASOURCE_"
	switch name := v.Database.Name; {
	case name == "" && len(v.DatabaseParts) > 0:
		env = append(env, v.DatabaseParts...)
	case name == "" || strings.HasPrefix(name, spring):
		because := "read by Spring, which has a driver for PostgreSQL here"
		drivers := [][2]string{{spring, "jdbc"}}
		if strings.Contains(r.buildText(p.File), "r2dbc-postgresql") {
			drivers = append(drivers, [2]string{"SPRING_R2DBC_", "r2dbc"})
		}
		for _, one := range drivers {
			add(Variable{one[0] + "URL", because},
				one[1]+":postgresql://{{.DatabaseHost}}:{{.DatabasePort}}/{{.DatabaseName}}"+p.Database.query)
			add(Variable{one[0] + "USERNAME", because}, "{{.DatabaseUser}}")
			add(Variable{one[0] + "PASSWORD", because}, "{{.DatabasePassword}}")
		}
	case strings.Contains(name, "JDBC"):
		add(v.Database, "jdbc:postgresql://{{.DatabaseHost}}:{{.DatabasePort}}/{{.DatabaseName}}?user={{.DatabaseUser}}")
	case p.Database.scheme != "":
		add(v.Database, p.Database.scheme+"://{{.DatabaseUser}}:{{.DatabasePassword}}@{{.DatabaseHost}}:"+
			"{{.DatabasePort}}/{{.DatabaseName}}")
	default:
		add(v.Database, "{{.DatabaseURL}}")
	}
	return env
}

// databaseAddress is the form of a database's address: a scheme that {{.DatabaseURL}} does not have, and the query of
// one for JDBC. Each is "" for the usual one.
type databaseAddress struct{ scheme, query string }

var (
	dialect   = regexp.MustCompile(`\b(postgresql\+\w+)://`)
	jdbcQuery = regexp.MustCompile(`\bjdbc:postgresql://[^\s"'?]+(\?[\w.=&,-]+)`)
)

// databaseForm finds the form in which a program has the address of its database. SQLAlchemy has schemes of its own,
// and takes none that is called postgres.
func databaseForm(sources []source, build string) (form databaseAddress) {
	for _, one := range sources {
		if found := dialect.FindStringSubmatch(one.text); found != nil && form.scheme == "" {
			form.scheme = found[1]
		}
		found := jdbcQuery.FindStringSubmatch(one.text)
		if found != nil && form.query == "" && !strings.Contains(found[1], "ssl") {
			form.query = found[1]
		}
	}
	if form.scheme == "" && strings.Contains(strings.ToLower(build), "sqlalchemy") {
		form.scheme = "postgresql"
	}
	return form
}

// webServer is a framework that listens at a port, which it reads from a variable.
type webServer struct {
	build *regexp.Regexp // what a build file has that uses it
	port  Address
}

func webServers() []webServer {
	return []webServer{
		{regexp.MustCompile(`spring-boot-starter-web`),
			Address{Variable{"SERVER_PORT", "read by Spring Boot, which serves HTTP here"}, "{{.Port}}"}},
		{regexp.MustCompile(`quarkus-(?:rest|resteasy|vertx-http|smallrye-health)`),
			Address{Variable{"QUARKUS_HTTP_PORT", "read by Quarkus, which serves HTTP here"}, "{{.Port}}"}},
		{regexp.MustCompile(`\bMicrosoft\.NET\.Sdk\.Web\b`),
			Address{Variable{"ASPNETCORE_URLS", "read by ASP.NET Core, which serves HTTP here"},
				"http://127.0.0.1:{{.Port}}"}},
	}
}

// ports are those at which it listens: each instance needs its own.
func (p *Proposal) ports(r repository) (env []Address) {
	build := r.buildText(p.File)
	for _, one := range webServers() {
		if len(p.Variables.Ports) == 0 && one.build.MatchString(build) {
			return []Address{one.port}
		}
	}
	for i, one := range p.Variables.Ports {
		value := "{{.Port}}"
		if i > 0 {
			value = "{{.Ports." + strings.ToLower(one.Name) + "}}"
		}
		env = append(env, Address{one, value})
	}
	return env
}

// missing are the names that it is given under examples of names, as its code does not show them.
func (p *Proposal) missing() []Address {
	var missing []Address
	v := p.Variables.or(p.Framework)
	for _, one := range []Address{{v.Topic, "{{.InputTopic}}"}, {v.DLQ, "{{.DLQTopic}}"}, {v.Group, "{{.GroupID}}"}} {
		if one.Because == "" {
			missing = append(missing, one)
		}
	}
	return missing
}

// mostCalled bounds the services that are called: a subject has eight downstreams at most, and one may be a database.
const mostCalled = 7

// nameOf is the name of the service whose address is in the variable. No other of those that are called has it.
func nameOf(address Variable, called []Downstream) string {
	const longest = 32
	words := strings.ReplaceAll(hump.ReplaceAllString(address.Name, "${1}_${2}"), "__", "_") // Payments__BaseUrl
	whole := strings.ToLower(words)
	name := strings.ToLower(urlWord.ReplaceAllString(strings.ToUpper(words), ""))
	if slices.ContainsFunc(called, func(d Downstream) bool { return d.Name == name }) || len(name) > longest {
		name = whole[max(len(whole)-longest, 0):] // the ends of names differ as much as their beginnings
	}
	return strings.TrimLeft(name, "_0123456789")
}

// hasDatabase reports whether the program uses PostgreSQL.
func (p *Proposal) hasDatabase(r repository) bool {
	if p.Variables.Database.Name != "" || len(p.Variables.DatabaseParts) > 0 {
		return true
	}
	build := r.buildText(p.File)
	return strings.Contains(build, "spring-boot") && strings.Contains(build, "org.postgresql")
}
