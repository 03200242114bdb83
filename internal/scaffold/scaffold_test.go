package scaffold

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/scenarios"
)

var update = flag.Bool("update", false, "write the golden files again")

// repositories are what is looked at, by the name of their golden file; each is a list of names and contents.
func repositories() map[string][]string {
	return map[string][]string{
		"nothing": {"README.md", "# Orders"},
		"go": {"go.mod", "module github.com/shop/orders/v2\n\ngo 1.26\n", "main.go", "package main\n", "orders_test.go",
			"package main\n"},
		"go-several": {
			"go.mod", "module orders\n", "doc.go", "package orders\n", "cmd/api/main.go", "package main\n",
			"cmd/consumer/main.go", "package main\n",
			"cmd/consumer/more.go", "package main\n", "internal/x.go", "package x\n", "package.json", "{}",
		},
		"go-library": {"go.mod", "module orders\n", "orders.go", "package orders\n"},
		"maven": {"pom.xml", `<project><parent><version>9</version></parent><artifactId>orders</artifactId><version>1.2.0</version>
<dependencies><dependency><artifactId>kafka-clients</artifactId><version>4.1.0</version></dependency></dependencies></project>`, "mvnw", "#!/bin/sh\n"},
		"maven-properties": {"pom.xml", `<project><artifactId>orders</artifactId><version>${revision}</version></project>`},
		"maven-named": {"pom.xml", "<project " +
			"xmlns=\"http://maven.apache.org/POM/4.0.0\"><artifactId>orders</artifactId><version>1</version><build><finalName>app</finalName></build></project>"},
		"maven-modules": {"pom.xml",
			"<project><artifactId>shop</artifactId><version>1</version><modules><module>messaging</module><module>consumer</module></modules></project>",
			"messaging/pom.xml", "<project/>", "consumer/pom.xml", "<project>spring-boot-maven-plugin</project>"},
		"maven-nested": {"pom.xml", "<project><artifactId>bank</artifactId><version>1</version><modules>" +
			"<module>..</module><module>.</module><module>wallet</module><module>hooks</module></modules></project>",
			"wallet/pom.xml", "<project><modules><module>..</module><module>wallet-core</module>" +
				"<module>wallet-app</module></modules>spring-boot-maven-plugin</project>",
			"wallet/wallet-core/pom.xml", "<project/>", "wallet/wallet-app/pom.xml", "<project>spring-boot-maven-plugin</project>",
			"hooks/pom.xml", "<project>quarkus-maven-plugin</project>", "hooks/src/main/java/Hooks.java",
			"@Incoming(\"hooks\") void take(String hook) {}"},
		"maven-hostile": {"pom.xml", "<project><artifactId>\n orders\n</artifactId><version> " +
			"1\n</version><modules><module>a\ncommand: [\"evil\"]</module></modules></project>"},
		"maven-broken": {"pom.xml", `<project><artifactId>`},
		"gradle": {"build.gradle", "plugins {\n  id 'application'\n}\n", "settings.gradle",
			"rootProject.name = 'orders'\n", "gradlew", "#!/bin/sh\n"},
		"gradle-kotlin": {"build.gradle.kts", "plugins {\n    application\n}\n", "settings.gradle.kts",
			"rootProject.name = \"orders\"\n"},
		"gradle-spring": {"build.gradle.kts", "plugins { id(\"org.springframework.boot\") version \"3.5.0\" }\n",
			"gradlew", ""},
		"gradle-plain": {"build.gradle", "plugins { id 'java' }\n"},
		"node": {"package.json",
			`{"name": "@shop/orders", "scripts": {"build": "tsc", "start": "node --enable-source-maps dist/index.js"}}`,
			"package-lock.json", "{}"},
		"node-nest": {"package.json", `{"scripts": {"build": "nest build", "start": "nest start", "start:prod": ` +
			`"node dist/main"}}`, "package-lock.json", ""},
		"node-start": {"package.json", `{"scripts": {"start": "NODE_ENV=x ts-node src/index.ts"}}`, "yarn.lock", ""},
		"node-main":  {"package.json", `{"name": "orders", "main": "lib/worker.js"}`, "pnpm-lock.yaml", ""},
		"node-workspace": {"package.json", `{"name": "rotor", "scripts": {"build": "tsc", "start": ` +
			`"dotenv -e ../../.env -- node dist/main.js"}, "dependencies": {"core": "workspace:*"}}`},
		"node-chain": {"package.json", `{"scripts": {"start": "prisma migrate deploy && node dist/main.js"}}`},
		"maven-r2dbc": {"pom.xml", "<project><artifactId>profile</artifactId><version>1</version>spring-boot-starter " +
			"<artifactId>r2dbc-postgresql</artifactId><groupId>org.postgresql</groupId></project>"},
		"node-file":   {"package.json", `{}`, "src/consumer.js", ""},
		"node-broken": {"package.json", `{`},
		"python":      {"requirements.txt", "confluent-kafka\n", "consumer.py", ""},
		"python-project": {"pyproject.toml", "[build-system]\nrequires = [\"hatchling\"]\n\n[project]\nname = " +
			"\"orders-consumer\"\n\n[project.scripts]\norders = \"orders.main:main\"\n\n[tool.ruff]\nname = \"no\"\n"},
		"python-uv": {"pyproject.toml", "[project]\nname = \"orders\"\n[project.scripts]\nconsume = \"orders:main\"\n",
			"uv.lock", "", "requirements.txt", "x\n"},
		"python-poetry": {"pyproject.toml", "[tool.poetry]\nname = 'orders'\n", "poetry.lock", ""},
		"python-image": {"requirements.txt", "aiokafka\n", ".env.sample", "SMTP_HOST=mail # a comment\n" +
			"KAFKA_SERVERS=kafka:9092\nexport API_KEY='it\"s'\n", "src/notes/__init__.py", "",
			"src/notes/worker/main.py", "from notes.common import settings\n", "src/notes/common/settings.py",
			`servers = os.environ["KAFKA_SERVERS"]`, "src/notes/api/main.py", "from fastapi import FastAPI\n" +
				"app = FastAPI()\nmails = os.environ[\"MAILS_URL\"]\n", "infra/Dockerfile.api",
			`CMD ["uvicorn", "notes.api.main:app"]`, "infra/Dockerfile.worker", "FROM python:3.11 AS build\n" +
				"CMD [\"python\"]\nFROM python:3.11\nWORKDIR /app\nENV PYTHONPATH=/app/src\n" +
				"ENTRYPOINT [\"tini\", \"--\"]\nCMD [\"python\", \"-u\", \\\n  \"-m\", \"notes.worker.main\"]\n"},
		"python-monorepo": {"pyproject.toml", "[project]\nname = \"shop\"\n", "services/api/main.py",
			"broker = os.environ[\"API_BROKERS\"]\nurl = os.environ[\"CATALOGUE_URL\"]\nif __name__ == '__main__':\n",
			"services/orders_worker/consumer.py", "import settings\n\nif __name__ == \"__main__\":\n",
			"services/orders_worker/settings.py", `brokers, url = getenv("ORDERS_BROKERS"), getenv("PAYMENTS_URL")`},
		"python-asgi": {"requirements.txt", "fastapi\n", "orders/main.py", "from orders import settings\n" +
			"app: FastAPI = FastAPI(lifespan=consume)\n", "orders/settings.py", `brokers = getenv("BROKERS")`},
		"monorepo": {"README.md", "# Shop", "web/package.json", "{}", "orders-consumer/go.mod", "module orders\n",
			"tests/go.mod", "module tests\n"},
		"image": {"Dockerfile", "FROM ruby:3\nENTRYPOINT [\"docker-entrypoint.sh\"]\n" +
			"CMD exec bundle exec karafka server\n", "consumer.rb", `servers = ENV["KAFKA_BROKERS"]`},
		"node-image": {"package.json", `{"scripts": {"start": "tsx src/index.ts", "build": "tsc"}}`, "Dockerfile",
			"FROM node:24 AS build\nFROM node:24\nENTRYPOINT [\"/sbin/tini\"]\nCMD [\"node\", \"--no-warnings\", \"dist/index.js\"]"},
		"go-deep": {"go.mod", "module sink\n", "cmd/console/avro/main.go", "package main\n", "cmd/sink/worker/main.go",
			"package main\n", "config/config.go", "package config\n" +
				"type broker struct {\n\tHost string `envconfig:\"HOST\"`\n\tPort string `envconfig:\"PORT\"`\n}\n" +
				"type kafka struct {\n\tBroker broker `envconfig:\"BROKER\"`\n\tTopic string `envconfig:\"TOPIC\"`\n" +
				"\tErrors *string `envconfig:\"ERROR_TOPIC\"`\n\tDone *string `envconfig:\"SUCCESS_TOPIC\"`\n}\n",
			".env.example", "KAFKA_BROKER_HOST=kafka\nKAFKA_BROKER_PORT=9092\nKAFKA_TOPIC=orders\nHTTP_METHOD=POST\n"},
		"cargo": {"Cargo.toml",
			"[package]\nname = \"orders\"\nversion = \"0.1.0\"\n\n[dependencies]\nname = \"x\"\n"},
		"cargo-bin": {"Cargo.toml",
			"[package]\nname = \"orders\"\n\n[[bin]]\nname = \"consume\"\npath = \"src/c.rs\"\n\n[[bin]]\nname = \"api\"\n"},
		"cargo-workspace": {"Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"},
		"cargo-members": {"Cargo.toml", "[package]\nname = \"relay\"\n\n[workspace]\nmembers = [\n  \"crates/*\",\n  'apps/hook',\n]\n",
			"src/main.rs", "fn main() {}", "crates/core/Cargo.toml", "[package]\nname = \"core\"\n", "crates/core/src/lib.rs",
			"", "apps/hook/Cargo.toml", "[package]\nname = \"hook\"\n", "apps/hook/src/main.rs", "mod consumer;",
			"apps/hook/src/consumer.rs", "let consumer: StreamConsumer = config.create()?;"},
		"dotnet": {"Shop.Orders.csproj", "<Project><PropertyGroup></PropertyGroup></Project>"},
		"dotnet-named": {"Orders.csproj",
			"<Project><PropertyGroup><AssemblyName>consumer</AssemblyName></PropertyGroup></Project>", "Other.csproj", ""},
		"maven-spring": {"pom.xml",
			"<project><artifactId>orders</artifactId><version>1</version><dependencies><dependency><artifactId>spring-kafka</artifactId></dependency></dependencies></project>"},
		"maven-cloud-stream": {"pom.xml", "<project><artifactId>orders</artifactId><version>1</version><dependencies>" +
			"<dependency><artifactId>spring-cloud-stream-binder-kafka</artifactId></dependency></dependencies></project>"},
		"maven-retryable-topic": retryable("3.5.0",
			`@RetryableTopic(attempts = "4", backoff = @Backoff(delay = 1000, multiplier = 2))`),
		"maven-quarkus": {"pom.xml", "<project><artifactId>orders</artifactId><version>1</version><dependencies><dependency>" +
			"<artifactId>quarkus-messaging-kafka</artifactId></dependency></dependencies><build><plugins><plugin>" +
			"<artifactId>quarkus-maven-plugin</artifactId></plugin></plugins></build></project>"},
		"go-watermill": {"go.mod", "module orders\n\nrequire github.com/ThreeDotsLabs/watermill v1.5.1\n", "main.go",
			"package main\n"},
		"hostile": {"package.json", `{"name": "a\"; rm -rf {{.X}}\n#", "main": "x\"{{.Y}}: \\ # 'y'\u0000"}`},
	}
}

func folderOf(files []string) fstest.MapFS {
	folder := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		folder[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return folder
}

// What is written for each kind of repository is as it is kept, and it decodes: the subject, the suite with that
// subject, and the workflow.
func TestGolden(t *testing.T) {
	for name, files := range repositories() {
		t.Run(name, func(t *testing.T) {
			proposal := Propose(folderOf(files), "My Orders")
			written, err := Files(proposal, "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var all bytes.Buffer
			for _, file := range written {
				if _, err := Write(dir, file, false); err != nil {
					t.Fatal(err)
				}
				if file.Path != gate.ConfigFile || name == "nothing" { // which is the same for all
					all.WriteString("=== " + file.Path + "\n")
					all.Write(file.Text)
				}
			}
			compare(t, filepath.Join("testdata", name+".golden"), all.Bytes())
			if name == "hostile" { // its braces are no template: the user is told where
				return
			}
			subject, err := scenarios.LoadSubject(filepath.Join(dir, "subject.yaml"))
			if err != nil {
				t.Fatalf("the subject does not decode: %v", err)
			}
			checkWorkflow(t, filepath.Join(dir, ".github", "workflows", "dlqbench.yml"))
			if name != "go" && name != "nothing" {
				return // the suite is the same for all
			}
			everything := func(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
				return func(*scenarios.Scenario) error { return nil }, nil
			}
			if suite, err := gate.Load(filepath.Join(dir, gate.ConfigFile), everything); err != nil || len(suite.Entries) < 3 {
				t.Errorf("the suite does not decode: %v", err)
			} else {
				checkRequired(t, suite, subject)
			}
		})
	}
}

// checkRequired: what the suite requires, the contract has judged.
func checkRequired(t *testing.T, suite *gate.Suite, subject *scenarios.SubjectFile) {
	t.Helper()
	described, err := subject.Describe()
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]bool{}
	for _, one := range described.Judged {
		judged[one.Invariant] = true
	}
	if len(suite.Required) == 0 {
		t.Error("it requires nothing")
	}
	for _, required := range suite.Required {
		if !judged[required.Invariant] {
			t.Errorf("%s is required, and the contract does not have it judged", required.Invariant)
		}
	}
}

// What is ignored is added once, and what is there stays.
func TestIgnore(t *testing.T) {
	for _, test := range []struct{ before, after string }{
		{"", "/.dlqbench/\n/gate/\n/runs/\n"}, {"bin\nruns", "bin\nruns\n/.dlqbench/\n/gate/\n"},
		{"/runs/\ngate/\n.dlqbench\n", "/runs/\ngate/\n.dlqbench\n"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, ".gitignore")
		if test.before != "" {
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := Ignore(dir); err != nil {
				t.Fatal(err)
			}
			if data, _ := os.ReadFile(path); string(data) != test.after {
				t.Errorf("of %q it makes %q, want %q", test.before, data, test.after)
			}
		}
	}
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden file (-update writes it): %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("it is not as %s has it (-update writes it):\n%s", path, got)
	}
}

func checkWorkflow(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string            `yaml:"uses"`
				With map[string]string `yaml:"with"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatalf("the workflow does not decode: %v", err)
	}
	steps := workflow.Jobs["gate"].Steps
	if len(steps) < 2 || steps[len(steps)-1].Uses != "dlqbench/dlqbench@v1.2.3" ||
		steps[len(steps)-1].With["config"] != gate.ConfigFile {
		t.Errorf("its steps are %+v", steps)
	}
}

// The words that are proposed come back as they were, whatever is in them.
func TestCommandsSurviveYAML(t *testing.T) {
	proposal := Propose(folderOf(nil), "x")
	proposal.Build = []string{"sh", "-c", "a && b <c> 'd' \"e\" \\ # : é"}
	proposal.Command = []string{"./x", "", "- y", "{{.WorkDir}}"}
	written, err := Files(proposal, "dev")
	if err != nil {
		t.Fatal(err)
	}
	subject, err := scenarios.ParseSubject("subject.yaml", written[1].Text)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(subject.Build, "|") != strings.Join(proposal.Build, "|") ||
		strings.Join(subject.Command, "|") != strings.Join(proposal.Command, "|") {
		t.Errorf("they come back as %q and %q", subject.Build, subject.Command)
	}
	if !strings.Contains(string(written[2].Text), "dlqbench/dlqbench@main\n") {
		t.Error("a program that was not released names itself in the workflow")
	}
}

func TestWriteKeeps(t *testing.T) {
	dir := t.TempDir()
	file, path := File{Path: "a/b.yaml", Text: []byte("new")}, filepath.Join(dir, "a", "b.yaml")
	for _, test := range []struct {
		force, written bool
		before, after  string
	}{{false, true, "", "new"}, {false, false, "a longer old one", "a longer old one"},
		{true, true, "a longer old one", "new"}} {
		if test.before != "" {
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		written, err := Write(dir, file, test.force)
		data, _ := os.ReadFile(path)
		if err != nil || written != test.written || string(data) != test.after {
			t.Errorf("force %v over %q: written %v, %q (%v)", test.force, test.before, written, data, err)
		}
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Skip("no links here:", err)
	}
	if written, err := Write(dir, File{Path: "link.yaml"}, false); written || err != nil {
		t.Errorf("a link to nowhere is written through: %v, %v", written, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("the file behind the link was made")
	}
}

func TestSubjectName(t *testing.T) {
	for text, want := range map[string]string{
		"Orders": "orders", "@shop/orders.v2": "shop-orders-v2", "": "consumer", "---": "consumer", "日本": "consumer",
		strings.Repeat("a", 63) + "-b": strings.Repeat("a", 63),
	} {
		if got := subjectName(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
