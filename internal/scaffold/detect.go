package scaffold

// What a repository is built with, told from the files at its top, and how a consumer in it is probably built and
// started.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Proposal is how the consumer of a repository is probably built and started.
type Proposal struct {
	// File is the build file that was found, "" if none was.
	File string
	// Name is the subject's.
	Name string
	// Build and Command are commands as subject.yaml has them; Build may be empty.
	Build, Command []string
	// Notes say what was guessed, a sentence each.
	Notes []string
	// Framework is the one that probably writes its dead letters, Because what says so; "" where nothing does.
	Framework
	Because string
	// Variables get the addresses; Failures and Retries are what the code shows of how records fail.
	Variables Variables
	Failures  Failures
	// Env are the variables that it is given, Called the services that it calls at them. Missing are examples of those
	// that the code does not show.
	Env, Missing []Address
	Called       []Downstream
	// Database is the form in which the program has the address of a database.
	Database databaseAddress
	// Format and Schema are those of its records, if the repository has the schema of one kind of record; "" if not.
	Format, Schema string
	Retries        Retries
	// Folder is that of the program, "" if it is not known, and Others are those of other programs beside it.
	Folder string
	Others []string
	// Set are variables of the environment that the command needs, Examples those that a file such as .env.example
	// sets and that get no address.
	Set, Examples []Address
	// Refused says why a scenario can't be run with the subject file that is there already, by name, and Unpromised are
	// the invariants that this file does not promise.
	Refused    map[string]string
	Unpromised []string
	// Setup is the step of GitHub Actions that installs what the build needs, "" if the runner has it.
	Setup string
}

// repository is the folder that is looked at.
type repository struct {
	fs.FS
	// name is that of the folder, for want of a better one.
	name string
}

// kind is a way of building.
type kind struct {
	file    string // name, or a pattern
	propose func(repository, string) Proposal
}

// kinds are in the order in which they are tried. A repository with several is one of the first, and is told of the
// others: a package.json beside a pom.xml is more often a website's than a consumer's.
func kinds() []kind {
	return []kind{
		{"go.mod", proposeGo}, {"pom.xml", proposeMaven}, {"build.gradle", proposeGradle},
		{"build.gradle.kts", proposeGradle},
		{"Cargo.toml", proposeCargo}, {"*.csproj", proposeDotnet}, {"pyproject.toml", proposePython},
		{"requirements.txt", proposePython}, {"MODULE.bazel", proposeBazel}, {"WORKSPACE*", proposeBazel},
		{"package.json", proposeNode},
	}
}

// Propose looks at the files at the top of a repository whose folder has this name.
func Propose(files fs.FS, name string) Proposal { return propose(repository{files, name}, nil) }

// propose reads the files that the command names besides the code.
func propose(r repository, command []string) Proposal {
	var chosen *Proposal
	for _, kind := range kinds() {
		matches, err := fs.Glob(r, kind.file)
		if err != nil || len(matches) == 0 {
			continue
		}
		if chosen == nil {
			proposal := kind.propose(r, matches[0])
			proposal.File = matches[0]
			chosen = &proposal
			if len(matches) > 1 {
				chosen.note("there are also " + strings.Join(matches[1:], ", "))
			}
			continue
		}
		if chosen.File != "pyproject.toml" || matches[0] != "requirements.txt" {
			chosen.note("there is also " + matches[0])
		}
	}
	if chosen == nil {
		chosen = r.unbuilt()
	}
	chosen.Name = subjectName(chosen.Name, r.name)
	chosen.Framework, chosen.Because = r.framework(chosen.File)
	chosen.look(r, command)
	chosen.Env, chosen.Called = chosen.addresses(r)
	chosen.Env = append(chosen.Env, chosen.Set...)
	chosen.Examples = chosen.examples(r)
	chosen.Format, chosen.Schema = FindSchema(r, nil)
	return *chosen
}

// unbuilt is the proposal for a folder without a build file that is known.
func (r repository) unbuilt() *Proposal {
	p := &Proposal{Command: []string{"./consumer"}}
	const none = "no go.mod, pom.xml, build.gradle, Cargo.toml, *.csproj, pyproject.toml, requirements.txt, " +
		"MODULE.bazel, WORKSPACE or package.json was found"
	var below []string
	for _, kind := range kinds() {
		for _, pattern := range []string{"*/", "*/*/"} {
			matches, _ := fs.Glob(r, pattern+kind.file) // the patterns are good ones
			for _, folder := range folders(matches) {
				if !r.foreign(folder) && !slices.Contains(below, folder) {
					below = append(below, folder)
				}
			}
		}
	}
	slices.SortStableFunc(below, r.likelier)
	starts := r.dockerStarts()
	switch {
	case len(below) > 0:
		p.note(none + " here, but in " + strings.Join(below[:min(len(below), mostNamed)], ", ") +
			": the folder of the consumer is the one to name (dlqbench init " + below[0] + ")")
	case len(starts) > 0 && !path.IsAbs(starts[0].words[0]):
		p.Command = here(starts[0].words)
		p.note(none + ", and the command is that of " + starts[0].file + ": write how yours is built")
	default:
		p.note(none + ": write how yours is built and started")
	}
	return p
}

// look adds what the program's own code shows, and the files that the command names.
func (p *Proposal) look(r repository, command []string) {
	sources := p.sources(r, command)
	p.Variables, p.Failures = variables(sources), failures(sources)
	if address, in := fixedBrokers(sources); p.Variables.Bootstrap.Name == "" && address != "" {
		p.Variables.Fixed = in + " has the address " + address + " in its code"
		p.Variables.FixedPort = localPort(address)
		otherwise := "start it yourself (kind: external)"
		if p.Variables.FixedPort > 0 {
			otherwise = fmt.Sprintf("have Kafka there, with one instance (listen: {kafka: %d})", p.Variables.FixedPort)
		}
		p.note(p.Variables.Fixed + ": unless that is a default, let it read the address from the environment, or " +
			otherwise)
	}
	if p.Variables.Bootstrap.Name == "" && p.Framework.Bootstrap == "" {
		if settings := r.brokerSettings(); len(settings) > 0 {
			p.note("Kafka's address is in " + strings.Join(settings, ", ") + ": if the consumer reads such a file, let " +
				"dlqbench write it (files), and start it where that is (dir: \"{{.WorkDir}}\")")
		}
	}
	p.springLetters(sources, springKafka(r.buildText(p.File)))
	if p.Framework.Group != "" && slices.ContainsFunc(sources, namesGroup) {
		p.Framework.Group = ""
	}
	p.Database = databaseForm(sources, r.buildText(p.File))
	p.migrations(r)
	if awsLibrary.MatchString(r.buildText(p.File)) {
		p.note("it has AWS' library: if it calls AWS for a record, give it AWS_ENDPOINT_URL with the address of a " +
			"downstream, and any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	if programs, file := r.beside(); len(programs) > 0 {
		p.note(file + " starts " + strings.Join(programs, ", ") + ": a program that the consumer can't work without goes " +
			"under needs, or downstreams if it calls it for a record")
	}
	var notes []string
	if p.Retries, notes = r.retries(sources, p.File); p.Retries.Found {
		p.Framework, p.Because = p.Retries.framework(), "@RetryableTopic in "+p.Retries.In
	}
	if p.Retries.Why != "" {
		notes = append(notes, "the names of the retry topics are not known ("+p.Retries.Why+
			"): the contract is refused until retry_topics has them")
	}
	for _, note := range notes {
		p.note(note)
	}
}

var (
	// ownLetters matches code that tells Spring's recoverer the topic of dead letters; recovers matches its use, and
	// listens a listener, without which the code was not found.
	ownLetters = regexp.MustCompile(`(?s)DeadLetterPublishingRecoverer\(.*\bTopicPartition\(`)
	recovers   = regexp.MustCompile(`DeadLetterPublishingRecoverer|RetryTopicConfiguration`)
	listens    = regexp.MustCompile(`@KafkaListener\b`)
)

// has reports whether a pattern matches one of the sources.
func has(sources []source, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(sources, func(s source) bool { return pattern.MatchString(s.text) })
}

// springsGroup matches what reads the property in which Spring has the group.
var springsGroup = regexp.MustCompile(`spring\.kafka\.consumer\.group-?[iI]d`)

// namesGroup reports whether code for Spring names its group itself.
func namesGroup(s source) bool {
	return (strings.Contains(s.text, "GROUP_ID_CONFIG") || ownGroup.MatchString(s.text)) &&
		!springsGroup.MatchString(s.text)
}

// awsLibrary matches the dependencies on AWS' libraries. All of them read AWS_ENDPOINT_URL.
var awsLibrary = regexp.MustCompile(`aws-sdk|awssdk|\b(?:aio)?boto(?:core|3)\b`)

// migrations tells the programs that make tables.
func (p *Proposal) migrations(r repository) {
	if !p.hasDatabase(r) {
		return
	}
	for _, one := range [][2]string{{"alembic.ini", "alembic upgrade head"},
		{"prisma/schema.prisma", "prisma migrate deploy"}, {"manage.py", "manage.py migrate"},
		{"diesel.toml", "diesel migration run"}} {
		if r.has(one[0]) {
			p.note(fmt.Sprintf("%s: if %s makes the tables, name that in needs, with once: true", one[0], one[1]))
		}
	}
	for _, pattern := range []string{"migrations/*.up.sql", "*/migrations/*.up.sql"} { // as golang-migrate names them
		if files, _ := fs.Glob(r, pattern); len(files) > 0 {
			folder := path.Dir(files[0])
			p.note(fmt.Sprintf("%s: if another program makes the tables, name that in needs, with once: true, such as "+
				"command: [sh, -c, 'cat %s/*.up.sql | psql -v ON_ERROR_STOP=1 \"{{.DatabaseURL}}\"']", folder, folder))
			break
		}
	}
	if statements, file := r.statementsAtFirst(); len(statements) > 0 {
		p.note(fmt.Sprintf("%s has PostgreSQL run %s: name that in needs, with once: true, such as command: "+
			"[psql, \"{{.DatabaseURL}}\", -f, %s]", file, strings.Join(statements, ", "), statements[0]))
	}
}

// springLetters says where Spring's recoverer writes dead letters. If the code decides that, learning has to find it.
func (p *Proposal) springLetters(sources []source, spring release) {
	const byDefault = `topic: "{{.InputTopic}}-dlt", `
	switch at := slices.IndexFunc(sources, func(s source) bool { return ownLetters.MatchString(s.text) }); {
	case !strings.Contains(p.Framework.Letters, byDefault):
	case has(sources, listens) && !has(sources, recovers): // without it, Spring writes none
		p.Framework.Letters, p.Framework.Envelope = "", ""
	case at >= 0:
		p.Framework.Letters = strings.Replace(p.Framework.Letters, byDefault, "", 1)
		p.note(sources[at].path + " chooses the dead-letter topic: dlqbench learn finds it, or write it into dlq.topic")
	case spring.before(3, 3):
		p.Framework.Letters = strings.Replace(p.Framework.Letters, "-dlt", ".DLT", 1)
	}
}

// note keeps a sentence in one line: it becomes a comment, and names of the repository may be in it.
func (p *Proposal) note(sentence string) { p.Notes = append(p.Notes, oneLine(sentence)) }

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

var (
	noName  = regexp.MustCompile(`[^a-z0-9]+`)
	goMain  = regexp.MustCompile(`(?m)^package main$`)
	goName  = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
	version = regexp.MustCompile(`^v[0-9]+$`)
)

// subjectName makes a name that a subject can have out of the first that leaves something.
func subjectName(candidates ...string) string {
	for _, candidate := range append(candidates, "consumer") {
		name := strings.Trim(noName.ReplaceAllString(strings.ToLower(candidate), "-"), "-")
		if name = strings.TrimRight(name[:min(len(name), 64)], "-"); name != "" {
			return name
		}
	}
	return "consumer"
}

// read is the text of a file, "" if it can't be read: what is proposed is then less, and the user will see.
func (r repository) read(name string) string {
	data, err := fs.ReadFile(r, name)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}

func (r repository) has(name string) bool {
	_, err := fs.Stat(r, name)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}

// found returns the first of the files that is there.
func (r repository) found(names ...string) string {
	for _, name := range names {
		if r.has(name) {
			return name
		}
	}
	return ""
}

// binary is where builds that can be told put what they make; the folder is easily ignored.
const binary = ".dlqbench/consumer"

func proposeGo(r repository, file string) Proposal {
	p := Proposal{Setup: "actions/setup-go@v5\n        with: {go-version-file: go.mod}"}
	if module := goName.FindStringSubmatch(r.read(file)); module != nil {
		p.Name = path.Base(module[1])
		if version.MatchString(p.Name) {
			p.Name = path.Base(path.Dir(module[1]))
		}
	}
	mains := r.goMains()
	main := "."
	switch {
	case len(mains) == 0:
		p.note("no package main was found: write which package it is")
	default:
		main = mains[0]
		p.Folder = path.Clean(main)
		for _, other := range mains[1:] {
			p.Others = append(p.Others, path.Clean(other))
		}
		if len(mains) > 1 {
			p.note("there are several programs (" + strings.Join(mains, ", ") + "): choose the consumer")
		}
	}
	p.Build, p.Command = []string{"go", "build", "-o", binary, main}, []string{binary}
	return p
}

// goMains are the packages that are programs: at the top, in cmd/* and in the folders below the top, or else in any
// folder. A name that sounds like a consumer comes first.
func (r repository) goMains() (mains []string) {
	add := func(file string) {
		folder := "./" + path.Dir(file)
		if path.Dir(file) == "." {
			folder = "."
		}
		if !strings.HasSuffix(file, "_test.go") && !slices.Contains(mains, folder) && goMain.MatchString(r.read(file)) {
			mains = append(mains, folder)
		}
	}
	for _, pattern := range []string{"*.go", "cmd/*/*.go", "*/*.go"} {
		files, _ := fs.Glob(r, pattern) // the patterns are good ones
		for _, file := range files {
			add(file)
		}
	}
	if len(mains) == 0 {
		r.eachText(func(name, _ string) (more bool) {
			if strings.HasSuffix(name, ".go") {
				add(name)
			}
			return true
		})
	}
	slices.SortStableFunc(mains, r.likelier)
	return mains
}

// reader matches code that reads topics.
var reader = regexp.MustCompile(`(?i)kafka_?listener|(?:stream|base|kafka)_?consumer|consumer_?group|consume_?topics` +
	`|new_?(?:reader|consumer)|@incoming|\.consumer\(`)

// likelier compares two folders of programs: the one that is likelier to be a consumer is less, by its name, or else by
// its code.
func (r repository) likelier(a, b string) int {
	return cmp.Or(sounds(b)-sounds(a), r.reads(b)-r.reads(a))
}

// reads is 1 if code in a folder reads topics.
func (r repository) reads(folder string) int {
	inside, err := fs.Sub(r, path.Clean(folder)) // without ./
	if err != nil {
		return 0
	}
	found := 0
	repository{inside, ""}.eachText(func(name, text string) (more bool) {
		if codeFile.MatchString(name) && reader.MatchString(text) {
			found = 1
		}
		return found == 0
	})
	return found
}

// sounds tells how much a name sounds like a consumer's.
func sounds(name string) int {
	for i, word := range []string{"consum", "worker", "listener", "processor"} {
		if strings.Contains(strings.ToLower(name), word) {
			return 4 - i
		}
	}
	return 0
}

var (
	cargoName    = regexp.MustCompile(`(?m)^name\s*=\s*["']([^"']+)["']`)
	cargoMembers = regexp.MustCompile(`(?s)\bmembers\s*=\s*\[(.*?)\]`)
	cargoMember  = regexp.MustCompile(`["']([^"']+)["']`)
)

// crate is a package of a workspace that has a program, in a folder.
type crate struct{ folder, name, program string }

func proposeCargo(r repository, file string) Proposal {
	text := r.read(file)
	// In a member of a workspace, what is built would be in the workspace's folder.
	p := Proposal{Build: []string{"cargo", "build", "--release", "--target-dir", "target"}}
	own, _ := r.crate(".")
	p.Name = own.name
	if strings.Count(text, "[[bin]]") > 1 {
		p.note("there are several [[bin]]: choose the consumer")
	}
	crates := r.crates(text)
	switch {
	case len(crates) == 0:
		p.Command = []string{"target/release/consumer"}
		p.note("this Cargo.toml names no package: write which program of target/release it is")
		return p
	case len(crates) > 1:
		var names []string
		for _, one := range crates {
			names = append(names, one.program)
		}
		p.note("there are several programs (" + strings.Join(names, ", ") + "): choose the consumer")
	}
	if chosen := crates[0]; chosen.folder != "." {
		p.Name, p.Build = chosen.name, append(p.Build, "--package", chosen.name)
	}
	p.Command = []string{"target/release/" + crates[0].program}
	return p
}

// crates are the packages of a workspace that have programs, the consumer's first, if something shows which it is.
func (r repository) crates(text string) []crate {
	var all []crate
	folders := []string{"."}
	for _, member := range oneOf(cargoMember, strings.Join(oneOf(cargoMembers, section(text, "workspace")), "")) {
		matches, _ := fs.Glob(r, path.Join(member, "Cargo.toml")) // of a bad pattern there are none
		for _, match := range matches {
			folders = append(folders, path.Dir(match))
		}
	}
	for _, folder := range folders {
		if one, has := r.crate(folder); has {
			all = append(all, one)
		}
	}
	code := func(of crate) string { return path.Join(of.folder, "src") } // beside it may be the other members
	slices.SortStableFunc(all, func(a, b crate) int { return r.likelier(code(a), code(b)) })
	return all
}

// crate is the package in a folder, and whether it has a program.
func (r repository) crate(folder string) (found crate, has bool) {
	text := r.read(path.Join(folder, "Cargo.toml"))
	found.folder = folder
	if name := cargoName.FindStringSubmatch(section(text, "package")); name != nil {
		found.name = name[1]
		if r.has(path.Join(folder, "src/main.rs")) || !r.has(path.Join(folder, "src/lib.rs")) {
			found.program = name[1]
		}
	}
	if name := cargoName.FindStringSubmatch(section(text, "[bin]")); name != nil {
		found.program = name[1]
	}
	return found, found.program != ""
}

// section is the text below a heading of a TOML file, up to the next; "[bin]" is the first entry of a list of tables.
func section(text, heading string) string {
	_, rest, found := strings.Cut("\n"+text, "\n["+heading+"]")
	if !found {
		return ""
	}
	body, _, _ := strings.Cut(rest, "\n[")
	return body
}

var assemblyName = regexp.MustCompile(`<AssemblyName>\s*([^<\s]+)\s*</AssemblyName>`)

func proposeDotnet(r repository, file string) Proposal {
	name := strings.TrimSuffix(path.Base(file), ".csproj")
	p := Proposal{
		Name: name, Build: []string{"dotnet", "publish", file, "-c", "Release", "-o", ".dlqbench/out", "--nologo", "-v",
			"quiet"},
		Setup: "actions/setup-dotnet@v4",
	}
	if assembly := assemblyName.FindStringSubmatch(r.read(file)); assembly != nil {
		name = assembly[1]
	}
	p.Command = []string{"dotnet", ".dlqbench/out/" + name + ".dll"}
	return p
}
