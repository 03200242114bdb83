package scaffold

import (
	"slices"
	"strings"
	"testing"
)

// Of several programs, the one whose code reads topics is chosen, whatever comes first.
func TestTheProgramThatReadsTopics(t *testing.T) {
	subject, text := proposed(t, "go.mod", "module orders\n", "cmd/producer/main.go", "package main\n",
		"cmd/server/main.go", "package main\nvar c = kafka.NewConsumer(brokers)\n")
	if want := "./cmd/server"; !slices.Contains(subject.Build, want) {
		t.Errorf("%v is built, want %s\n%s", subject.Build, want, text)
	}
}

// A helper that looks variables up in an environment that it is given reads them.
func TestVariablesOfAnEnvironmentThatIsPassedOn(t *testing.T) {
	subject, text := proposed(t, "pom.xml", "<project/>", "src/main/java/Config.java", `class Config {
  String a = getString(dotenv, "KAFKA_BROKER"), b = getOptionalString(this.env, "GROUP_ID", null);
  int c = sum(invented, "NOT_READ_TOPIC");
}`)
	if subject.Env["KAFKA_BROKER"] != "{{.BootstrapServers}}" || subject.Env["GROUP_ID"] != "{{.GroupID}}" {
		t.Errorf("it is given %v\n%s", subject.Env, text)
	}
	if strings.Contains(text, "NOT_READ_TOPIC") {
		t.Errorf("it is given a variable that nothing reads\n%s", text)
	}
}

// The port of the database is found by its default, if its name does not go with that of the host.
func TestThePortOfADatabase(t *testing.T) {
	const pgx = "package main\nimport \"github.com/jackc/pgx\"\n"
	for _, line := range []string{`getEnv("BD_PORT", "5432")`, `process.env.BD_PORT || 5432`,
		`os.environ.get('BD_PORT', 5432)`, `System.getenv("BD_PORT") ?: "5432"`, `process.env["BD_PORT"] ?? '5432'`} {
		subject, text := proposed(t, "go.mod", "module orders\n", "main.go", pgx+
			"var host, port = getEnv(\"DB_HOST\", \"db\"), "+line+"\n")
		if subject.Env["BD_PORT"] != "{{.DatabasePort}}" {
			t.Errorf("%s: it is given %v\n%s", line, subject.Env, text)
		}
	}
	subject, text := proposed(t, "go.mod", "module orders\n", "main.go", pgx+
		"var a, b, c = getEnv(\"DB_HOST\", \"\"), getEnv(\"DB_PORT\", \"5432\"), getEnv(\"OTHER_PORT\", \"5432\")\n")
	if _, has := subject.Env["OTHER_PORT"]; has || subject.Env["DB_PORT"] != "{{.DatabasePort}}" {
		t.Errorf("with a port of its name, it is given %v\n%s", subject.Env, text)
	}
}

// The statements that a container of PostgreSQL runs at its first start have to be run for a database of dlqbench's.
func TestStatementsOfTheContainerAreTold(t *testing.T) {
	_, text := proposed(t, "go.mod", "module orders\n", "main.go",
		"package main\nvar url = os.Getenv(\"DATABASE_URL\")\n", "docker-compose.yml",
		"services:\n  db:\n    image: postgres:17\n    volumes:\n"+
			"      - ./db/init.sql:/docker-entrypoint-initdb.d/init.sql\n  sender:\n    image: bash:5.2\n")
	const want = `docker-compose.yml has PostgreSQL run db/init.sql: name that in needs, with once: true, such as ` +
		`command: [psql, "{{.DatabaseURL}}", -f, db/init.sql]`
	if !strings.Contains(text, want) {
		t.Errorf("it does not say %q\n%s", want, text)
	}
	if strings.Contains(text, "starts bash") {
		t.Errorf("it takes a shell for a program that is needed\n%s", text)
	}
}

// What Bazel builds is started as it is there, and a package.json beside it is not the consumer's.
func TestAProgramOfBazel(t *testing.T) {
	subject, text := proposed(t, "package.json", "{}", "WORKSPACE", "", "tools/BUILD", "java_binary(name = \"fmt\")\n",
		"src/BUILD.bazel", "java_library(name = \"lib\")\n\njava_binary(\n    name = \"main\",\n    deps = [\":lib\"],\n)\n",
		"src/main/java/Consumer.java", `@KafkaListener class Consumer { String a = System.getenv("KAFKA_BROKER"); }`)
	if want := []string{"bazel", "build", "//src:main"}; !slices.Equal(subject.Build, want) {
		t.Errorf("%v is built, want %v\n%s", subject.Build, want, text)
	}
	if want := []string{"bazel-bin/src/main"}; !slices.Equal(subject.Command, want) {
		t.Errorf("%v is started, want %v\n%s", subject.Command, want, text)
	}
	if subject.Env["KAFKA_BROKER"] != "{{.BootstrapServers}}" {
		t.Errorf("it is given %v\n%s", subject.Env, text)
	}
}

// Of an image that Compose starts in several ways, that of the consumer is taken.
func TestACommandOfCompose(t *testing.T) {
	for _, command := range []string{"\n      - python\n      - src/feature_consumer.py\n",
		" python src/feature_consumer.py\n",
		" [\"python\", \"src/feature_consumer.py\"]\n",
		"\n      - sh\n      - -c\n      - exec python src/feature_consumer.py\n"} {
		subject, text := proposed(t, "requirements.txt", "aiokafka\n", "Dockerfile",
			"FROM python\nCMD [\"uvicorn\", \"app.main:app\"]\n", "app/main.py", "app = FastAPI()\n", "src/feature_consumer.py",
			"class C:\n    pass\nif __name__ == \"__main__\":\n    C()\n", "docker-compose.yml",
			"services:\n  look:\n    command: kafka-console-consumer --topic a\n  features:\n    command:"+command+
				"    ports: []\n")
		if !slices.Contains(subject.Command, "src/feature_consumer.py") ||
			!strings.Contains(text, "that of docker-compose.yml") {
			t.Errorf("%q: it is started as %v\n%s", command, subject.Command, text)
		}
	}
}
