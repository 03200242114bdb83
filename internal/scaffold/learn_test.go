package scaffold

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/scenarios"
)

// What learning begins with, by what the repository has. Each is a subject file that decodes.
func TestToLearn(t *testing.T) {
	t.Parallel()
	samples := Records{Samples: "../orders.jsonl", IDs: []string{"$.order.id", "$.customer"}}
	for _, one := range []struct {
		name    string
		files   []string
		command []string
		records Records
	}{
		{"nothing", []string{"README.md", "# Orders"}, []string{"./orders", "--fast"}, Records{}},
		{"python", []string{"requirements.txt", "confluent-kafka\n", "worker.py", `
servers = os.environ["KAFKA_BROKERS"]
registry = os.environ["SCHEMA_REGISTRY_URL"]
bank, mail = os.environ["BANK_URL"], os.environ.get("MAIL_BASE_URL")
db = os.environ["DATABASE_URL"]
`}, []string{"python", "worker.py"}, Records{Samples: "p.jsonl", Lines: "envelope", IDs: []string{"$.id"}, Format: "json",
			Answer: `{"charge": "it's c-{{.ID}}"}`}},
		{"node", []string{"package.json", `{"name": "orders", "main": "src/main.js"}`, "src/main.js", `
export const read = (env = process.env) => ({ brokers: required(env, 'KAFKA_BROKERS'), topic: env.ORDERS_TOPIC ?? 'orders' })
const carrier = process.env.CARRIER_URL
`}, []string{"node", "src/main.js"}, samples},
		{"spring", []string{"pom.xml", `<project><artifactId>claims</artifactId><version>1</version><parent>
<artifactId>spring-boot-starter-parent</artifactId></parent><dependencies><dependency><artifactId>spring-kafka</artifactId>
</dependency><dependency><groupId>org.postgresql</groupId></dependency></dependencies></project>`,
			"src/main/resources/application.yaml", "a: ${KAFKA_BROKERS:x}\nb: ${RISK_URL:y}\n"},
			[]string{"java", "-jar", "target/claims.jar"}, samples},
		{"dotnet", []string{"Orders.csproj", `<Project Sdk="Microsoft.NET.Sdk.Web"/>`, "appsettings.json", `{"Kafka": {
  "Consumer": {"BootstrapServers": "localhost:9092", "GroupId": "orders"}, "Producer": {"BootstrapServers": "localhost:9092"},
  "Topic": "orders"}, "Payments": {"Url": "http://payments"}}`}, []string{"dotnet", "out/Orders.dll"}, Records{}},
		{"transactions", []string{"go.mod", "module receipts\n", "main.go", `package main
var a, b = os.Getenv("BROKERS"), os.Getenv("TRANSACTIONAL_ID")`, "x.go", `package main
var c = os.Getenv("ORDERS_JDBC_URL")`}, []string{"bin/receipts"}, samples},
		{"pipeline", []string{"go.mod", "module pipeline\n", "main.go", "package main\n", "config/orders.yaml", `
input: {kafka: {addresses: ["${KAFKA_BROKERS:localhost:9092}"], topics: [orders]}}
http: {url: "${PAYMENTS_URL}/charges"}
`, "config/mails.yaml", `smtp: "${MAIL_URL}"`}, []string{"bin/pipeline", "--config=./config/orders.yaml"}, samples},
		{"grpc", []string{"go.mod", "module receipts\n", "main.go", `package main
var a, b = os.Getenv("BROKERS"), os.Getenv("LISTEN_ADDR")
var c, d = os.Getenv("PAYMENTS_GRPC_ADDR"), os.Getenv("RATES_URL")`, "api/payments.proto", `syntax = "proto3";
service Payments {}
`}, []string{"bin/receipts"}, Records{Samples: "../orders.jsonl", IDs: []string{"$.id"}, Answer: "{}"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			text, err := ToLearn(folderOf(one.files), "My Orders", one.command, one.records)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", "learn-"+one.name+".golden"), text)
			if one.records.Samples != "" { // decoding reads them
				return
			}
			if _, err := scenarios.ParseSubject("subject.yaml", text); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheOneSchemaIsFound(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		files          []string
		format, schema string
	}{
		{[]string{"src/main/avro/claim.avsc", "{}"}, "avro", "src/main/avro/claim.avsc"},
		{[]string{"transfer.proto", "", "vendor/x/other.proto", ""}, "protobuf", "transfer.proto"},
		{[]string{"payment.schema.json", "{}", "package.json", "{}"}, "json-schema", "payment.schema.json"},
		{[]string{"a.avsc", "", "b.avsc", ""}, "", ""},
		{[]string{"order.avsc", "", "order_event.avsc", "fits", "order.schema.json", ""}, "avro", "order_event.avsc"},
		{[]string{"order.avsc", "fits", "order.schema.json", "fits"}, "", ""},
		{[]string{"main.go", ""}, "", ""},
		{[]string{"bank.proto", "syntax = \"proto3\";\n\nservice Bank {\n}\n", "order.proto", ""}, "protobuf", "order.proto"},
	} {
		files := folderOf(one.files)
		fits := func(_, schema string) bool {
			text, err := fs.ReadFile(files, schema)
			return err == nil && string(text) == "fits"
		}
		if format, schema := FindSchema(files, fits); format != one.format || schema != one.schema {
			t.Errorf("%v: %s %s, want %s %s", one.files, format, schema, one.format, one.schema)
		}
	}
}
