package scaffold

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/dlqbench/dlqbench/scenarios"
)

// proposed returns the subject.yaml that is written for these files, and its text.
func proposed(t *testing.T, files ...string) (*scenarios.SubjectFile, string) {
	t.Helper()
	written, err := Files(Propose(folderOf(files), "orders"), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	text := string(written[1].Text)
	subject, err := scenarios.ParseSubject("subject.yaml", written[1].Text)
	if err != nil {
		t.Fatalf("it does not decode: %v\n%s", err, text)
	}
	return subject, text
}

// The variables that the code reads get the addresses, in whatever language it reads them.
func TestVariables(t *testing.T) {
	python := []string{"requirements.txt", "confluent-kafka\n"}
	for name, test := range map[string]struct {
		files []string
		// names of the variables of the bootstrap servers, the topic, the dead-letter topic, the group and the URL, - for
		// those that are not found; then of the registry and the database
		want string
	}{
		"python": {append(python, "consumer.py", `import os
servers = os.environ["KAFKA_BOOTSTRAP"]
group = os.environ.get('CONSUMER_GROUP', "orders")
topic, dlq = os.getenv("ORDERS_TOPIC"), os.getenv("ORDERS_DLQ", "orders.dlq")
url = os.environ.get("PAYMENTS_URL", "http://localhost")
`), "KAFKA_BOOTSTRAP ORDERS_TOPIC ORDERS_DLQ CONSUMER_GROUP PAYMENTS_URL"},
		"python, below the top": {append(python, "orders/settings.py",
			`from os import environ, getenv
BROKERS = getenv("BROKERS")
DLQ = environ["DEAD_LETTER_TOPIC"]`), "BROKERS - DEAD_LETTER_TOPIC - -"},
		"go": {[]string{"go.mod", "module orders\n", "main.go", "package main\n\n" +
			`var brokers = os.Getenv("KAFKA_BROKERS")
var group, ok = os.LookupEnv("GROUP_ID")
var topic = envOr("INPUT_TOPIC", "orders")
type config struct {
	DLQ string ` + "`env:\"DLQ_TOPIC,required\"`" + `
}`}, "KAFKA_BROKERS INPUT_TOPIC DLQ_TOPIC GROUP_ID -"},
		"go, viper": {[]string{"go.mod", "module orders\n", "config.go", "package main\n\n" +
			`func load() { viper.SetDefault("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"); viper.AutomaticEnv() }
type config struct {
	Topic string ` + "`mapstructure:\"KAFKA_TOPIC\"`" + `
	Name string ` + "`mapstructure:\"group_name\"`" + `
}`}, "KAFKA_BOOTSTRAP_SERVERS KAFKA_TOPIC - - -"},
		"go, envconfig with structs in structs": {[]string{"go.mod", "module sink\n", "config.go", "package main\n\n" +
			"type kafka struct {\n\tBroker broker `envconfig:\"BROKER\"`\n\tTopic string `envconfig:\"TOPIC\"`\n}\n" +
			"type config struct {\n\tKafka kafka `envconfig:\"KAFKA\"`\n\tURL string `envconfig:\"API_URL\"`\n}\n",
			".env.example", "KAFKA_BROKER_LIST=kafka:9092\nKAFKA_TOPIC=orders\nAPI_URL=http://localhost\n"},
			"KAFKA_BROKER_LIST KAFKA_TOPIC - - API_URL"},
		"python, settings of pydantic": {append(python, "app/config.py", `from pydantic_settings import BaseSettings
class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="WORKER_", env_file=".env")
    kafka_bootstrap_servers: str = "kafka:29092"
    orders_topic: str = "orders"
    dlq_topic: str | None = None
    def url(self, payments_url: str): pass
`), "WORKER_KAFKA_BOOTSTRAP_SERVERS WORKER_ORDERS_TOPIC WORKER_DLQ_TOPIC - -"},
		"nest": {[]string{"package.json", "{}", "src/app.ts", `constructor(private configService: ConfigService) {
  this.brokers = [configService.get<string>('KAFKA_BROKER')]; this.topic = this.config.getOrThrow("ORDERS_TOPIC");
  this.port = config.get('http.port'); headers.get('KAFKA_GROUP_ID');
}`}, "KAFKA_BROKER ORDERS_TOPIC - - -"},
		"a file for the environment": {append(python, "app.py", `BROKERS = environ["BROKERS"]`, "env.py", "KAFKA_GROUP=1",
			".env.sample", "# Kafka\nexport ORDERS_TOPIC=orders\nKAFKA_BOOTSTRAP=kafka:9092\nPAYMENTS_URL = http://x\nKAFKA_PORT=9092\n"),
			"BROKERS ORDERS_TOPIC - - PAYMENTS_URL"},
		"node": {[]string{"package.json", "{}", "src/consumer.ts",
			`const kafka = new Kafka({ brokers: process.env.KAFKA_BROKER_LIST!.split(",") });
const { ORDERS_TOPIC, GROUP_ID: groupId = "orders" } = process.env;
const url = process.env["API_ENDPOINT"] ?? "x", dlq = process.env?.DLQ;`},
			"KAFKA_BROKER_LIST ORDERS_TOPIC DLQ GROUP_ID API_ENDPOINT"},
		"java": {[]string{"pom.xml", "<project/>", "src/main/java/shop/Main.java",
			`props.put(BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_URL"));
String topic = System.getenv().getOrDefault("SOURCE_TOPIC", "orders");
String dlq = System.getenv().get("DLT_TOPIC");`}, "KAFKA_URL SOURCE_TOPIC DLT_TOPIC - -"},
		"placeholders of Spring": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/resources/application.yml", "spring.kafka.bootstrap-servers: ${BROKERS:localhost:9092}\n" +
				"orders.topic: ${ORDERS_TOPIC}\n"},
			"BROKERS ORDERS_TOPIC - SPRING_KAFKA_CONSUMER_GROUP_ID -"},
		"placeholders of Camel": {[]string{"pom.xml", "<project>camel-kafka</project>",
			"src/main/resources/application.properties", "camel.component.kafka.brokers = {{env:KAFKA_BROKERS:x:9092}}\n" +
				"orders.topic = {{env:ORDERS_TOPIC}}\n", "src/main/java/R.java",
			`from("kafka:{{orders.topic}}?groupId={{env:ORDERS_GROUP:orders}}").to("{{env:PAYMENTS_URL}}");`},
			"KAFKA_BROKERS ORDERS_TOPIC - ORDERS_GROUP PAYMENTS_URL"},
		"Spring Cloud Stream": {[]string{"pom.xml", "<project>spring-cloud-stream-binder-kafka</project>",
			"src/main/resources/application.yml", "a: ${ORDERS_TOPIC}\nb: ${PAYMENTS_URL}\n"},
			"SPRING_CLOUD_STREAM_KAFKA_BINDER_BROKERS ORDERS_TOPIC - - PAYMENTS_URL"},
		"Spring Boot 4": {[]string{"pom.xml", "<project>spring-boot-starter-kafka</project>",
			"src/main/resources/application.yml", "a: ${ORDERS_TOPIC}\n"},
			"SPRING_KAFKA_BOOTSTRAP_SERVERS ORDERS_TOPIC - SPRING_KAFKA_CONSUMER_GROUP_ID -"},
		"settings of Spring with values": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/java/shop/C.java", `import org.springframework.kafka.annotation.KafkaListener;
@Value("${orders.topic}") String topic; @Value("${orders.dlt-topic}") String dlt; @Value("${pay.api}") String pay;
@Value("${retry.url:http://x}") String other;`,
			"src/main/resources/application.yml", "spring:\n  cloud: {config: {uri: http://localhost:8888}}\n" +
				"kafka:\n  bootstrap-servers: localhost:9092\n  group: shop\norders.topic: orders\n" +
				"risk:\n  - {base: \"https://risk.example.org/api\"}\ncors: {origins: \"http://localhost:3000\"}\n"},
			"KAFKA_BOOTSTRAP_SERVERS - ORDERS_DLT_TOPIC SPRING_KAFKA_CONSUMER_GROUP_ID RISK_0_BASE"},
		"brokers as the default of a variable": {[]string{"pom.xml", "<project><modules><module>bus</module></modules></project>",
			"bus/pom.xml", "<project>spring-kafka</project>", "app/src/main/java/shop/C.java",
			"import org.springframework.kafka.annotation.KafkaListener;", "app/src/main/resources/application.yml",
			"spring:\n  kafka:\n    bootstrap-servers: ${KAFKA_IP_PORT:localhost:9092}\n"},
			"KAFKA_IP_PORT - - SPRING_KAFKA_CONSUMER_GROUP_ID -"},
		"Quarkus in modules": {[]string{"pom.xml", "<project><modules><module>hook</module></modules></project>", "hook/pom.xml",
			"<project>quarkus-messaging-kafka</project>"}, "KAFKA_BOOTSTRAP_SERVERS - - - -"},
		"placeholders in settings of any name": {[]string{"package.json", "{}", "platformatic.json",
			`{"kafka": {"brokers": ["{PLT_KAFKA_BROKER}"], "topics": [{"topic": "{PLT_KAFKA_TOPIC}", "url": "{PLT_HOOK_URL}"}]}}`,
			"docker-compose.yaml", "environment: {KAFKA_GROUP: \"${KAFKA_GROUP}\"}\n"},
			"PLT_KAFKA_BROKER PLT_KAFKA_TOPIC - - PLT_HOOK_URL"},
		"an address as the default of a variable": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/java/shop/C.java", "import org.springframework.kafka.annotation.KafkaListener;",
			"src/main/resources/application.yml", "pay: {api: \"${PAY_API:http://pay}\"}\n"},
			"SPRING_KAFKA_BOOTSTRAP_SERVERS - - SPRING_KAFKA_CONSUMER_GROUP_ID PAY_API"},
		"a property of Spring that no file has": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/java/shop/C.java", `import org.springframework.kafka.annotation.KafkaListener;
@Value("${kafka.bootstrap-servers}") String servers;`, "src/main/resources/application.properties",
			"# a.url=http://x\nstock.endpoint = http://stock/api\n"},
			"KAFKA_BOOTSTRAP_SERVERS - - SPRING_KAFKA_CONSUMER_GROUP_ID STOCK_ENDPOINT"},
		"placeholders in annotations of Spring": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/java/shop/C.java", `import org.springframework.kafka.annotation.KafkaListener;
@KafkaListener(topics = "${ORDERS_TOPIC}", groupId = "${ORDERS_GROUP:orders}")`},
			"SPRING_KAFKA_BOOTSTRAP_SERVERS ORDERS_TOPIC - ORDERS_GROUP -"},
		"such a text without Spring": {[]string{"package.json", "{}", "src/app.ts", "log(\"${ORDERS_TOPIC}\")"},
			"KAFKA_BOOTSTRAP_SERVERS - - - -"},
		"the same without Spring": {[]string{"pom.xml", "<project/>", "src/main/resources/application.properties",
			"stock.endpoint = http://stock/api\n"},
			"KAFKA_BOOTSTRAP_SERVERS - - - -"},
		"dotnet": {[]string{"Orders.csproj", "<Project/>", "Program.cs",
			`var servers = Environment.GetEnvironmentVariable("BOOTSTRAP_SERVERS");
var uri = Environment.GetEnvironmentVariable("WAREHOUSE_URI");`},
			"BOOTSTRAP_SERVERS - - - WAREHOUSE_URI"},
		"settings of .NET": {[]string{"Orders.csproj", "<Project/>", "Program.cs", `var b = Host.CreateApplicationBuilder();`,
			"appsettings.json", "\ufeff{\n  // of the container\n" + `  "Kafka": {"Topic": "orders", "Consumer": {"GroupId": "o",
    "BootstrapServers": "localhost:9092"}, "SchemaRegistry": {"Url": "http://localhost:8081"}},
  "Payments": {"BaseAddress": "http://payments"}, "Kestrel": {"Endpoints": {"Http": {"Url": "http://*:5000"}}},
  "Serilog": {"WriteTo": [{"Args": {"serverUrl": "http://seq"}}]}, "AllowedHosts": "*"}`,
			"bin/Debug/net8.0/appsettings.json", `{"Kafka": {"Consumer": {"BootstrapServers": "localhost:9092"}}}`},
			"Kafka__Consumer__BootstrapServers - - - Payments__BaseAddress Kafka__SchemaRegistry__Url"},
		"a list of brokers in settings of .NET": {[]string{"Orders.csproj", "<Project/>", "Program.cs", "var a = 1;",
			"appsettings.json", `{"Kafka": {"Brokers": ["localhost:9092"]}}`}, "Kafka__Brokers__0 - - - -"},
		"a web application of .NET": {[]string{"Orders.csproj", `<Project Sdk="Microsoft.NET.Sdk.Web"/>`, "Program.cs",
			`var servers = Environment.GetEnvironmentVariable("BROKERS");`}, "BROKERS - - - - - - ASPNETCORE_URLS"},
		"rust": {[]string{"Cargo.toml", "[package]\nname = \"orders\"\n", "src/main.rs",
			`let brokers = env::var("KAFKA_HOSTS")?; let group = std::env::var_os("GROUP");`},
			"KAFKA_HOSTS - - GROUP -"},
		"a search index": {append(python, "indexer.py", `import os
os.getenv('KAFKA_BROKERS'), os.getenv('ELASTIC_APM_SERVER_URL'), os.getenv('ES_INDEX'), os.getenv('OPENSEARCH_TIMEOUT')
hosts = os.getenv('OPENSEARCH_HOSTS', 'http://localhost:9200')`), "KAFKA_BROKERS - - - OPENSEARCH_HOSTS"},
		"nothing else is taken for one": {append(python, "consumer.py", `import os
os.environ["SCHEMA_REGISTRY_URL"], os.environ["DATABASE_URL"], os.environ["GROUP_INSTANCE_ID"], os.environ["LOG_TOPICS"]
os.environ["RETRY_TOPIC"], os.environ["DLQ_ENABLED"], os.environ["ON_DLQ_FAILURE"], os.environ["OUTPUT_TOPIC"]
os.environ["OTEL_EXPORTER_ENDPOINT"]
os.environ[KAFKA_BOOTSTRAP]  # a name that is somewhere else
KAFKA_BROKERS = "localhost:9092"`),
			"KAFKA_BOOTSTRAP_SERVERS - - - - SCHEMA_REGISTRY_URL DATABASE_URL"},
		"tests and packages are not read": {append(python, "tests/test_x.py", `os.environ["TEST_BROKERS"]`, "x_test.go",
			`os.Getenv("A_BROKERS")`, ".venv/lib/a.py", `os.environ["B_BROKERS"]`, "node_modules/a.js", `process.env.C_BROKERS`),
			"KAFKA_BOOTSTRAP_SERVERS - - - -"},
		"the consumer's before the others'": {append(python, "api.py", `os.environ["API_BROKERS"]`, "consumer.py",
			`os.environ["CONSUMER_BROKERS"]`), "CONSUMER_BROKERS - - - -"},
	} {
		t.Run(name, func(t *testing.T) {
			subject, text := proposed(t, test.files...)
			values := []string{"{{.BootstrapServers}}", "{{.InputTopic}}", "{{.DLQTopic}}", "{{.GroupID}}", "{{.OracleURL}}",
				"{{.SchemaRegistryURL}}", "{{.DatabaseURL}}", "http://127.0.0.1:{{.Port}}"}
			want := map[string]string{}
			for i, name := range strings.Fields(test.want) {
				if name != "-" {
					want[name] = values[i]
				}
			}
			if !maps.Equal(subject.Env, want) {
				t.Errorf("it is given %v, want %v\n%s", subject.Env, want, text)
			}
		})
	}
}

// An address that is given in parts gets the parts of the one that dlqbench has.
func TestAddressesInParts(t *testing.T) {
	subject, text := proposed(t, "requirements.txt", "asyncpg\n", "app.py", `from pydantic_settings import BaseSettings
class Settings(BaseSettings):
    db_host: str = "db"
    db_port: int = 5432
    db_name: str = "shop"
    db_user: str = "shop"
    db_password: str = "secret"
    url = "postgresql://"
`, ".env.example", "KAFKA_BROKER_HOST=kafka\nKAFKA_BROKER_PORT=9092\nKAFKA_UI_HOST=ui\nPG_PORT=5433\n")
	want := map[string]string{"KAFKA_BROKER_HOST": "{{.BootstrapHost}}", "KAFKA_BROKER_PORT": "{{.BootstrapPort}}",
		"DB_HOST": "{{.DatabaseHost}}", "DB_PORT": "{{.DatabasePort}}", "DB_NAME": "{{.DatabaseName}}",
		"DB_USER": "{{.DatabaseUser}}", "DB_PASSWORD": "{{.DatabasePassword}}"}
	if !maps.Equal(subject.Env, want) || len(subject.Downstreams) != 1 || subject.Downstreams[0].Postgres == nil {
		t.Errorf("it is given %v, want %v\n%s", subject.Env, want, text)
	}
	if subject, text = proposed(t, "requirements.txt", "pymysql\n", "app.py", `os.environ["DB_HOST"]`); len(subject.Env) !=
		1 || subject.Downstreams[0].HTTP == nil {
		t.Errorf("a database that is not PostgreSQL's is given %v\n%s", subject.Env, text)
	}
}

// A consumer that has Kafka's address in its code can't be given another one.
func TestAnAddressInTheCode(t *testing.T) {
	says := "KAFKA_BOOTSTRAP_SERVERS: \"{{.BootstrapServers}}\"  # an example; but app.js has the address localhost:9092 in " +
		"its code"
	fixed := []string{"package.json", "{}", "app.js", `const kafka = new Kafka({ brokers: ["localhost:9092"] })`}
	if _, text := proposed(t, fixed...); !strings.Contains(text, says) ||
		!strings.Contains(text, "let it read the address from the environment, or have Kafka there, with one instance "+
			"(listen: {kafka: 9092})") {
		t.Errorf("it does not say so:\n%s", text)
	}
	if text, err := ToLearn(folderOf(fixed), "orders", []string{"node", "app.js"}, Records{}); err != nil ||
		!strings.Contains(string(text), says) || !strings.Contains(string(text), "\nlisten: {kafka: 9092}  # app.js has") {
		t.Errorf("%v\n%s", err, text)
	}
	schemed := []string{"pom.xml", "<project>spring-kafka</project>", "Config.java",
		`Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, "http://localhost:9092")`}
	if text, err := ToLearn(folderOf(schemed), "orders", []string{"java"}, Records{}); err != nil ||
		!strings.Contains(string(text), "\nlisten: {kafka: 9092}  # Config.java has the address localhost:9092") {
		t.Errorf("an address with a scheme: %v\n%s", err, text)
	}
	elsewhere := []string{"package.json", "{}", "app.js", `const kafka = new Kafka({ brokers: ["kafka:9092"] })`}
	if _, text := proposed(t, elsewhere...); !strings.Contains(text, "start it yourself") {
		t.Errorf("an address of another machine:\n%s", text)
	}
	if text, err := ToLearn(folderOf(elsewhere), "orders", []string{"node", "app.js"}, Records{}); err != nil ||
		strings.Contains(string(text), "listen") {
		t.Errorf("an address of another machine: %v\n%s", err, text)
	}
	fixed[3] = `const brokers = (process.env.KAFKA_BROKERS ?? "localhost:9092").split(",")`
	if _, text := proposed(t, fixed...); strings.Contains(text, "in its code") {
		t.Errorf("a default:\n%s", text)
	}
	fixed[3] = "servers string // a list: \"broker1:9092,broker2:9092\"\n# or \"kafka:9092\"\n * @param x 'kafka:9092'\n"
	if _, text := proposed(t, fixed...); strings.Contains(text, "in its code") {
		t.Errorf("a comment:\n%s", text)
	}
}

// A consumer and a producer with settings of their own both get the address.
func TestAddressesOfBrokers(t *testing.T) {
	subject, text := proposed(t, "pom.xml", "<project>spring-kafka</project>", "src/main/java/shop/C.java",
		"import org.springframework.kafka.annotation.KafkaListener;", "src/main/resources/application.yml",
		"spring: {kafka: {consumer: {bootstrap-servers: \"localhost:9092, localhost:9093\"}}}\n---\n"+
			"spring: {kafka: {producer: {bootstrap-servers: \"localhost:9092\"}}}\n")
	for _, name := range []string{"SPRING_KAFKA_CONSUMER_BOOTSTRAP_SERVERS", "SPRING_KAFKA_PRODUCER_BOOTSTRAP_SERVERS"} {
		if subject.Env[name] != "{{.BootstrapServers}}" {
			t.Errorf("%s is %q\n%s", name, subject.Env[name], text)
		}
	}
}

// A consumer that reads Kafka's address from a file of its own is given one.
func TestAnAddressInAFile(t *testing.T) {
	says := `Kafka's address is in mail/config/config.yaml: if the consumer reads such a file, let dlqbench write it (files)`
	files := []string{"go.mod", "module mail\n", "main.go", "package main\n", "mail/config/config.yaml",
		"kafka:\n  bootstrap-servers: kafka:29092\n", "docker-compose.yaml", "BROKERS: kafka:9092\n", "x.yaml", "broker: \n"}
	if _, text := proposed(t, files...); !strings.Contains(text, says) {
		t.Errorf("it does not say so:\n%s", text)
	}
	files[3] = `package main; var brokers = os.Getenv("KAFKA_BROKERS")`
	if _, text := proposed(t, files...); strings.Contains(text, "Kafka's address is in") {
		t.Errorf("with a variable:\n%s", text)
	}
}

// However many addresses there are, and however they are called, the subject decodes, and so does that to learn from.
func TestManyAddresses(t *testing.T) {
	code := `os.environ["CARDS_URL"], os.environ["CARDS_ENDPOINT"],`
	for i := range 9 {
		code += fmt.Sprintf(`os.environ["A_SERVICE_WITH_A_RATHER_LONG_NAME_%d_URL"],`, i)
	}
	files := []string{"requirements.txt", "", "consumer.py", code}
	subject, text := proposed(t, files...)
	names := map[string]bool{}
	for _, one := range subject.Downstreams {
		names[one.Name] = true
	}
	if len(names) != mostCalled || !names["cards"] || !names["cards_endpoint"] {
		t.Errorf("it has %v\n%s", names, text)
	}
	learns, err := ToLearn(folderOf(files), "orders", []string{"./consumer.py"}, Records{})
	if err == nil {
		_, err = scenarios.ParseSubject("subject.yaml", learns)
	}
	if err != nil {
		t.Errorf("to learn from: %v\n%s", err, learns)
	}
}

// Where several variables may be meant, the others are named, and so is the file of each.
func TestVariablesSay(t *testing.T) {
	_, text := proposed(t, "requirements.txt", "", "consumer.py", `os.environ["A_TOPIC"], os.environ["B_TOPIC"]`)
	for _, want := range []string{"A_TOPIC: \"{{.InputTopic}}\"  # read in consumer.py; or B_TOPIC?",
		"# KAFKA_GROUP_ID: \"{{.GroupID}}\"\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}

// What becomes of a business failure is promised where the code shows it, and else said to be open.
func TestLogical(t *testing.T) {
	all := "503 429 timeout reset 400 422"
	for name, test := range map[string]struct {
		files              []string
		logical, retryable string
	}{
		"nothing is read": {[]string{"requirements.txt", ""}, "", ""},
		"no dead letters": {[]string{"requirements.txt", "", "consumer.py", "process(record)"}, "", ""},
		"every failure is dead-lettered": {[]string{"requirements.txt", "", "consumer.py",
			"try: process(record)\nexcept Exception: producer.produce(dead_letter_topic)"}, "dead-letter", all},
		"a framework that is set up to dead-letter": {[]string{"pom.xml", "<project>spring-kafka:3.3.1</project>",
			"src/main/java/L.java", "@RetryableTopic @KafkaListener void on(String order) { payments.pay(order); }"},
			"dead-letter", all},
		"a framework whose dead letters are not set up": {[]string{"pom.xml", "<project>spring-kafka</project>",
			"src/main/java/L.java", "@KafkaListener void on(String order) { payments.pay(order); }"}, "", ""},
		"a framework, and no code": {[]string{"pom.xml", "<project>spring-kafka</project>"}, "", ""},
		"422 has its own way": {[]string{"requirements.txt", "", "consumer.py",
			"if status == 422: return\nsend(DLQ_TOPIC)"}, "", ""},
		"422 by its name": {[]string{"pom.xml", "<project>spring-kafka</project>", "src/main/java/L.java",
			"catch (HttpClientErrorException.UnprocessableEntity e) { return; }"}, "", ""},
		"failures are told apart by class": {[]string{"go.mod", "module orders\n", "main.go",
			"package main\nfunc f() { if resp.StatusCode >= 500 { retry() } else { deadLetter() } }"}, "dead-letter", ""},
		"failures are told apart by class, without dead letters": {[]string{"go.mod", "module orders\n", "main.go",
			"package main\nfunc f() { if resp.StatusCode >= 500 { retry() } else { drop() } }"}, "", ""},
		"a delay is no status": {[]string{"requirements.txt", "", "consumer.py", "delay = 500; sleep(400)\ndead_letter(r)"},
			"dead-letter", all},
		"a list of statuses": {[]string{"requirements.txt", "", "consumer.py", "if status in (400, 404): dead_letter(r)"},
			"dead-letter", ""},
		"a package named example": {[]string{"pom.xml", "<project/>", "src/main/java/com/example/L.java",
			"if (status == 422) return; deadLetter();"}, "", ""},
		"a virtual environment's 422 is not the program's": {[]string{"requirements.txt", "", "consumer.py", "dead_letter(r)",
			"env/pyvenv.cfg", "", "env/lib/a.py", "422"}, "dead-letter", all},
	} {
		t.Run(name, func(t *testing.T) {
			subject, text := proposed(t, test.files...)
			var retryable []string
			for _, one := range subject.Contract.Classes.Retryable {
				retryable = append(retryable, string(one))
			}
			written := strings.Contains(text, "\n  logical: ")
			if got := strings.Join(retryable, " "); got != test.retryable ||
				written != (test.logical != "") || written && subject.Contract.Logical != test.logical {
				t.Errorf("it promises logical: %s (written: %v) and retries %q\n%s", subject.Contract.Logical, written, got, text)
			}
			if !written && !strings.Contains(text, "Without it, both are accepted") {
				t.Errorf("it does not say what holds without it\n%s", text)
			}
		})
	}
}

// retryable returns the files of a Spring application of this version whose listener has the annotation.
func retryable(boot, annotation string) []string {
	return []string{"pom.xml", "<project><parent><artifactId>spring-boot-starter-parent</artifactId><version>" + boot +
		"</version></parent><artifactId>orders</artifactId><dependency>spring-kafka</dependency></project>",
		"src/main/java/shop/Listener.java", "class Listener {\n  " + annotation +
			"\n  @KafkaListener(topics = \"${topic}\")\n  void on(String order) { payments.pay(order); }\n}\n"}
}

// @RetryableTopic is written down as far as it is literal. Expected names are those of spring-kafka's
// DestinationTopicPropertiesFactory before and since 3.2 (Spring Boot 3.3).
func TestRetryableTopic(t *testing.T) {
	const second = time.Second
	for name, test := range map[string]struct {
		boot, annotation string
		// topics without the input topic, "?" for unknown
		topics   string
		attempts int
		initial  time.Duration
		mult     float64
		limit    time.Duration
		dlq      string
	}{
		"defaults":             {"3.5.0", `@RetryableTopic`, "-retry", 3, second, 1, 0, "-dlt"},
		"defaults before 3.2":  {"3.2.5", `@RetryableTopic()`, "-retry-0 -retry-1", 3, second, 1, 0, "-dlt"},
		"two attempts":         {"3.3.0", `@RetryableTopic(attempts = "2")`, "-retry", 2, second, 1, 0, "-dlt"},
		"two attempts, before": {"3.1.0", `@RetryableTopic(attempts = "2")`, "-retry-1000", 2, second, 1, 0, "-dlt"},
		"one attempt":          {"3.3.0", `@RetryableTopic(attempts = "1")`, "", 1, second, 1, 0, "-dlt"},
		"exponential, of old": {"2.7.0", `@RetryableTopic(attempts="4", backoff=@Backoff(delay = 1_000L, multiplier = 2.0))`,
			"-retry-1000 -retry-2000 -retry-4000", 4, second, 2, 30 * second, "-dlt"},
		"exponential, of 4.0": {"4.0.0", `@RetryableTopic(attempts = "4", backOff = @BackOff(delay = 1000, multiplier = 2))`,
			"-retry-1000 -retry-2000 -retry-4000", 4, second, 2, 0, "-dlt"},
		"one topic for equal waits": {"3.5.0",
			`@RetryableTopic(attempts = "5", backoff = @Backoff(delay = 1000, multiplier = 2, maxDelay = 2000))`,
			"-retry-1000 -retry-2000", 5, second, 2, 2 * second, "-dlt"},
		"topics for equal waits": {"3.5.0", `@RetryableTopic(attempts = "5",
      sameIntervalTopicReuseStrategy = SameIntervalTopicReuseStrategy.MULTIPLE_TOPICS,
      backoff = @Backoff(delay = 1000, multiplier = 2, maxDelay = 2000))`,
			"-retry-1000 -retry-2000-0 -retry-2000-1 -retry-2000-2", 5, second, 2, 2 * second, "-dlt"},
		"by index": {"3.5.0", `@RetryableTopic(attempts = "4", backoff = @Backoff(delay = 500, multiplier = 3),
      topicSuffixingStrategy = TopicSuffixingStrategy.SUFFIX_WITH_INDEX_VALUE)`, "-retry-0 -retry-1 -retry-2", 4,
			second / 2, 3, 30 * second, "-dlt"},
		"one topic for a fixed delay, of old": {"2.7.0",
			`@RetryableTopic(backoff = @Backoff(2000), fixedDelayTopicStrategy = FixedDelayStrategy.SINGLE_TOPIC)`, "-retry", 3,
			2 * second, 1, 0, "-dlt"},
		"suffixes": {"3.5.0", `@RetryableTopic(retryTopicSuffix = "-again", dltTopicSuffix = ".dead")`, "-again", 3, second,
			1, 0, ".dead"},
		"kotlin": {"3.5.0", `@RetryableTopic(attempts = "3", backoff = Backoff(delay = 1000, multiplier = 2.0))`,
			"-retry-1000 -retry-2000", 3, second, 2, 30 * second, "-dlt"},
		"the cap is reached without a word": {"3.5.0",
			`@RetryableTopic(attempts = "4", backoff = @Backoff(delay = 20000, multiplier = 2))`,
			"-retry-20000 -retry-30000", 4, 20 * second, 2, 30 * second, "-dlt"},
		"a version that is not told, and does not matter": {"${boot}",
			`@RetryableTopic(attempts = "3", backoff = @Backoff(delay = 1000, multiplier = 2))`, "-retry-1000 -retry-2000", 3,
			second, 2, 0, "-dlt"},
		"a version that is not told": {"${boot}", `@RetryableTopic`, "?", 3, second, 1, 0, "-dlt"},
		"attempts from a property":   {"3.5.0", `@RetryableTopic(attempts = "${tries}")`, "?", 0, second, 1, 0, "-dlt"},
		"a delay from a property": {"3.5.0", `@RetryableTopic(attempts = "4", backoff = @Backoff(delayExpression = "${d}"))`,
			"?", 4, 0, 1, 0, "-dlt"},
		"random waits": {"3.5.0",
			`@RetryableTopic(attempts = "4", backoff = @Backoff(delay = 1000, multiplier = 2, random = true))`,
			"?", 4, 0, 1, 0, "-dlt"},
		"some exceptions are not retried": {"3.5.0", `@RetryableTopic(exclude = {ValidationException.class, A.class})`,
			"-retry", 0, second, 1, 0, "-dlt"},
		"a time limit":    {"3.5.0", `@RetryableTopic(timeout = "10000")`, "-retry", 0, second, 1, 0, "-dlt"},
		"no dead letters": {"3.5.0", `@RetryableTopic(dltStrategy = DltStrategy.NO_DLT)`, "-retry", 3, second, 1, 0, "none"},
		"two that differ": {"3.5.0", "@RetryableTopic void a() {}\n@RetryableTopic(timeout = \"5\")",
			"?", 0, 0, 1, 0, "-dlt"},
		"parts in strings": {"3.5.0",
			`@RetryableTopic(concurrency = "a),(b", attempts = "2")`, "-retry", 2, second, 1, 0, "-dlt"},
	} {
		t.Run(name, func(t *testing.T) {
			written, err := Files(Propose(folderOf(retryable(test.boot, test.annotation)), "orders"), "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			text := string(written[1].Text)
			if test.topics == "?" {
				_, err := scenarios.ParseSubject("subject.yaml", written[1].Text)
				if err == nil || !strings.Contains(err.Error(), "retry_topics") {
					t.Fatalf("it is taken although its retry topics are not known: %v\n%s", err, text)
				}
				if !strings.Contains(text, "# Look here: the names of the retry topics are not known (") {
					t.Errorf("it does not ask for them\n%s", text)
				}
				text = strings.ReplaceAll(text, "\n  # retry_topics: [", "\n  retry_topics: [")
			}
			subject, err := scenarios.ParseSubject("subject.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			c := subject.Contract
			if c.Backoff.Initial != 0 {
				t.Errorf("it promises waits that Spring does not keep under load: %+v", c.Backoff)
			}
			var topics []string
			for suffix := range strings.FieldsSeq(test.topics) {
				topics = append(topics, "{{.InputTopic}}"+suffix)
			}
			retry := "topics"
			if test.topics == "" {
				retry = "in-place"
			}
			if c.Retry != retry || test.topics != "?" && !slices.Equal(c.RetryTopics, topics) {
				t.Errorf("it retries by %s, through %v\n%s", c.Retry, c.RetryTopics, text)
			}
			suite := string(written[0].Text)
			if strings.Contains(suite, "\n  - retry-topics\n") != (retry == "topics") {
				t.Errorf("it retries by %s, and the suite is\n%s", retry, suite)
			}
			if int(c.Attempts.Max) != test.attempts || test.attempts > 0 && c.Attempts.Counter != "header" {
				t.Errorf("it promises %+v\n%s", c.Attempts, text)
			}
			uncommented := regexp.MustCompile(`# (backoff: .*late: 10s})`).ReplaceAllString(text, "$1")
			if subject, err = scenarios.ParseSubject("subject.yaml", []byte(uncommented)); err != nil {
				t.Fatalf("with the waits it does not decode: %v\n%s", err, uncommented)
			}
			b := subject.Contract.Backoff
			if b.Initial.D() != test.initial || b.Multiplier != test.mult || b.Cap.D() != test.limit {
				t.Errorf("it waits %+v\n%s", b, text)
			}
			if got := c.DLQ; got.Enabled != (test.dlq != "none") || got.Enabled && got.Topic != "{{.InputTopic}}"+test.dlq {
				t.Errorf("it dead-letters to %+v\n%s", got, text)
			}
		})
	}
}

// What the contract can't hold of an annotation is said.
func TestRetryableTopicSays(t *testing.T) {
	for annotation, want := range map[string]string{
		`@RetryableTopic @KafkaListener(topics = "x", groupId = "orders")`: "the retry topics have groups of their own",
		`@RetryableTopic(exceptionBasedDltRouting = {})`:                   "dead letters of some exceptions go to topics",
		"// @RetryableTopic": "",
	} {
		subject, text := proposed(t, retryable("3.5.0", annotation)...)
		if (subject.Contract.Retry == "topics") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("of %s it retries by %s, and does not say %q\n%s", annotation, subject.Contract.Retry, want, text)
		}
	}
}

// Two instances on one machine can't listen at the same port, so each gets ports of its own.
func TestPorts(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  map[string]string
	}{
		"of Spring Boot": {[]string{"pom.xml", "<project>spring-boot-starter-webflux</project>"},
			map[string]string{"SERVER_PORT": "{{.Port}}"}},
		"of Quarkus": {[]string{"pom.xml", "<project>quarkus-smallrye-health</project>"},
			map[string]string{"QUARKUS_HTTP_PORT": "{{.Port}}"}},
		"that the code reads": {[]string{"package.json", "{}", "a.js",
			"listen(process.env.PORT); metrics(process.env.ROTOR_METRICS_PORT); mail(env.SMTP_PORT, env.REDIS_HTTP_PORT)"},
			map[string]string{"PORT": "{{.Port}}", "ROTOR_METRICS_PORT": "{{.Ports.rotor_metrics_port}}"}},
		"of its settings": {[]string{"pom.xml", "<project>spring-boot-starter-web</project>",
			"src/main/resources/application.yml", "server.port: ${HTTP_PORT:8080}\n"},
			map[string]string{"HTTP_PORT": "{{.Port}}"}},
	} {
		t.Run(name, func(t *testing.T) {
			subject, text := proposed(t, test.files...)
			got := maps.Clone(subject.Env)
			maps.DeleteFunc(got, func(_, value string) bool { return !strings.Contains(value, "{{.Port") })
			if !maps.Equal(got, test.want) {
				t.Errorf("it gives %v, want %v\n%s", got, test.want, text)
			}
		})
	}
}

// Where Spring's recoverer writes dead letters depends on its version, and on the code.
func TestSpringsDeadLetterTopic(t *testing.T) {
	own := `new DeadLetterPublishingRecoverer(template, (r, e) -> new TopicPartition("orders.dead", -1))`
	for _, test := range []struct{ boot, code, want string }{
		{"3.4.1", "new DeadLetterPublishingRecoverer(template)", "{{.InputTopic}}-dlt"},
		{"3.3.9", "new DeadLetterPublishingRecoverer(template)", "{{.InputTopic}}.DLT"},
		{"2.7.6", own, "{{.DLQTopic}}"}, {"4.0.0", own, "{{.DLQTopic}}"},
		{"3.3.9", "@KafkaListener(topics = \"orders\")", "{{.DLQTopic}}"}, {"3.3.9", "", "{{.InputTopic}}.DLT"},
	} {
		subject, text := proposed(t, "pom.xml", "<project><parent><artifactId>spring-boot-starter-parent</artifactId><version>"+
			test.boot+"</version></parent>spring-kafka</project>", "src/main/java/C.java", test.code)
		if got := subject.Contract.DLQ.Topic; got != test.want {
			t.Errorf("Spring Boot %s: dead letters go to %s, want %s\n%s", test.boot, got, test.want, text)
		}
	}
}

// A group that the code names can't be set from outside.
func TestSpringsGroup(t *testing.T) {
	const variable = "SPRING_KAFKA_CONSUMER_GROUP_ID"
	for _, test := range []struct{ code, want string }{
		{"@KafkaListener(topics = \"orders\")", "{{.GroupID}}"},
		{"@KafkaListener(topics = \"orders\", groupId = \"shop\")", ""},
		{"config.put(ConsumerConfig.GROUP_ID_CONFIG, \"shop\");", ""},
		{"config.put(GROUP_ID_CONFIG, env.getProperty(\"spring.kafka.consumer.group-id\"));", "{{.GroupID}}"},
	} {
		subject, text := proposed(t, "pom.xml", "<project>spring-kafka</project>", "src/main/java/C.java", test.code)
		if got := subject.Env[variable]; got != test.want {
			t.Errorf("%s: %s is %q, want %q\n%s", test.code, variable, got, test.want, text)
		}
	}
}

// The address of a database keeps the form in which the program has it.
func TestFormsOfADatabasesAddress(t *testing.T) {
	const parts = "{{.DatabaseUser}}:{{.DatabasePassword}}@{{.DatabaseHost}}:{{.DatabasePort}}/{{.DatabaseName}}"
	python := func(code, packages string) []string {
		return []string{"requirements.txt", packages, "app.py", `url = os.environ["DATABASE_URL"]` + "\n" + code}
	}
	spring := []string{"pom.xml", "<project>spring-boot spring-kafka org.postgresql</project>", "src/main/resources/application.yml"}
	for _, test := range []struct {
		files      []string
		name, want string
	}{
		{python("", "psycopg\n"), "DATABASE_URL", "{{.DatabaseURL}}"},
		{python(`"postgresql://bo:bo@localhost/bo"`, "psycopg\n"), "DATABASE_URL", "{{.DatabaseURL}}"},
		{python(`"postgresql+psycopg://bo:bo@localhost/bo"`, "psycopg\n"), "DATABASE_URL", "postgresql+psycopg://" + parts},
		{python("", "sqlalchemy>=2.0\n"), "DATABASE_URL", "postgresql://" + parts},
		{append(spring, "spring.datasource.url: jdbc:postgresql://localhost:5432/app?currentSchema=shop\n"),
			"SPRING_DATASOURCE_URL",
			"jdbc:postgresql://{{.DatabaseHost}}:{{.DatabasePort}}/{{.DatabaseName}}?currentSchema=shop"},
		{append(spring, "spring.datasource.url: jdbc:postgresql://db/app?sslmode=require\n"), "SPRING_DATASOURCE_URL",
			"jdbc:postgresql://{{.DatabaseHost}}:{{.DatabasePort}}/{{.DatabaseName}}"},
	} {
		subject, text := proposed(t, test.files...)
		if got := subject.Env[test.name]; got != test.want {
			t.Errorf("%s is %q, want %q\n%s", test.name, got, test.want, text)
		}
	}
}

// A program that makes the tables is not started with the consumer.
func TestMigrationsAreTold(t *testing.T) {
	files := []string{"requirements.txt", "alembic\n", "alembic.ini", "", "app.py", `os.environ["DATABASE_URL"]`}
	const want = "alembic.ini: if alembic upgrade head makes the tables, name that in needs, with once: true"
	if _, text := proposed(t, files...); !strings.Contains(text, want) {
		t.Errorf("it does not say %q\n%s", want, text)
	}
	files[5] = ""
	if _, text := proposed(t, files...); strings.Contains(text, want) {
		t.Errorf("it says so without a database\n%s", text)
	}
	const both = "db/migrations: if another program makes the tables, name that in needs"
	files = []string{"go.mod", "module orders\n", "main.go", "package main\nvar a = os.Getenv(\"DATABASE_URL\")\n",
		"db/migrations/1_a.up.sql", "", "db/migrations/1_a.down.sql", ""}
	if _, text := proposed(t, files...); !strings.Contains(text, "'cat db/migrations/*.up.sql | psql ") ||
		!strings.Contains(text, both) {
		t.Errorf("it does not say %q\n%s", both, text)
	}
	if text, err := ToLearn(folderOf(files), "orders", []string{"./orders"}, Records{}); err != nil ||
		!strings.Contains(string(text), "# "+both) {
		t.Errorf("learn does not say %q: %v\n%s", both, err, text)
	}
}

// No code has the variable from which AWS' libraries read their address.
func TestCallsOfAWSAreTold(t *testing.T) {
	const want = "it has AWS' library: if it calls AWS for a record, give it AWS_ENDPOINT_URL"
	for build, tells := range map[string]bool{"aws-sdk-sns = \"1\"": true, "rdkafka = \"0.36\"": false} {
		_, text := proposed(t, "Cargo.toml", "[package]\nname = \"alerts\"\n[dependencies]\n"+build+"\n", "src/main.rs", "")
		if strings.Contains(text, want) != tells {
			t.Errorf("%s: it says %q: %v, want %v\n%s", build, want, !tells, tells, text)
		}
	}
}

// A program that a file of Docker Compose starts may be needed.
func TestProgramsBesideAreTold(t *testing.T) {
	_, text := proposed(t, "go.mod", "module orders\n", "main.go", "package main\n", "docker-compose.yml",
		"services:\n  cache:\n    image: redis:7-alpine\n  db: {x: 1}\n  kafka:\n    image: confluentinc/cp-kafka:7.4.0\n"+
			"  m:\n    image: \"docker.io/library/mongo:7\"\n")
	if want := "docker-compose.yml starts redis, mongo: a program that the consumer can't work without goes under needs"; !strings.Contains(text, want) {
		t.Errorf("it does not say %q\n%s", want, text)
	}
}

// The top is looked at even if it is an environment of Python, and scripts beside a program are not the program.
func TestProgramsOfPythonAreFound(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range []string{"pyvenv.cfg", "orders.py", "scripts/load.py", "app/migrations/first.py", "app/scripts.py",
		"venv/pyvenv.cfg", "venv/activate.py"} {
		files[name] = &fstest.MapFile{Data: []byte("if __name__ == '__main__':\n    pass\n")}
	}
	want := []string{"app/scripts.py", "orders.py"}
	if got := slices.Sorted(slices.Values((repository{files, ""}).pythonEntries())); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// A folder that can't be read has nothing to guess from, and is no reason to fail.
func TestSourcesUnreadable(t *testing.T) {
	if found := (repository{os.DirFS(filepath.Join(t.TempDir(), "nowhere")), "x"}).sources(nil); len(found) > 0 {
		t.Errorf("it finds %v", found)
	}
}
