package subject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// canaries are secrets in every place and form in which a subject receives one.
func canaries() (given Launch, secrets []string) {
	given = Launch{
		Command: []string{"run", "--password", "canary-flag", "--db=postgres://me:canary-arg@db/x",
			"-Dspring.kafka.jaas.password=canary-define"},
		Env: []string{
			"DB_PASSWORD=canary-env", "JDBC_URL=jdbc:postgresql://me:canary-jdbc@db:5432/orders",
			"PARAMS=jdbc:mysql://db/orders?user=me&password=canary-param",
			"MONGO=mongodb+srv://me:canary-mongo@cluster.example/db", "BROKER=amqp://me:canary%2Famqp@mq/vhost",
			"AT=redis://me:canary-a@b@cache:6379/0", "ADO=Server=db;Pwd=canary-ado;",
			"UPSTREAM=Authorization: Bearer canary.bearer", "HEADERS={\"Authorization\": \"Basic Y2FuYXJ5OmJhc2lj\"}",
			"CURL=-H Authorization:canary-bare",
		},
		Files: map[string]string{
			"client.properties": "sasl.jaas.config=org.apache.kafka.PlainLoginModule required username=\"me\" " +
				"password=\"canary-jaas\";\nssl.keystore.password=canary-store\n",
			"config.json": `{"url": "https://me:canary-json@host/", "apiKey": "canary-key"}`,
		},
	}
	return given, []string{
		"canary-flag", "canary-arg", "canary-define", "canary-env", "canary-jdbc", "canary-param", "canary-mongo",
		"canary%2Famqp", "canary/amqp", "canary-a@b", "canary-ado", "canary-jaas",
		"canary-store", "canary-json", "canary-key", "canary.bearer", "Y2FuYXJ5OmJhc2lj", "canary-bare",
	}
}

func TestSecretsAreFoundWhereverTheyAreGiven(t *testing.T) {
	given, secrets := canaries()
	found := newMask(given.secrets())
	for _, one := range secrets {
		text := "connecting with " + one + " failed"
		got := string(found.next([]byte(text))) + string(found.rest())
		found = newMask(given.secrets())
		if got != "connecting with "+masked+" failed" {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A redacted copy of a subject file contains no secret, not even a short one, and is otherwise unchanged.
func TestRedact(t *testing.T) {
	given, secrets := canaries()
	var text strings.Builder
	text.WriteString("name: orders\ncommand: [" + strings.Join(given.Command, ", ") + "]\nenv:\n")
	for _, one := range given.Env {
		name, value, _ := strings.Cut(one, "=")
		text.WriteString("  " + name + ": " + value + "\n")
	}
	for name, content := range given.Files {
		text.WriteString("  " + name + ": |\n    " + strings.ReplaceAll(content, "\n", "\n    ") + "\n")
	}
	text.WriteString("  SHORT_PASSWORD: pw\n  ADDRESS: postgres://me:pw@db\n  FROM_RUN: {{.SASLPassword}}\n  PASSWORD: " +
		"{{.SASLPassword}}\n  tokens: {max: 5}\n")
	got := string(Redact([]byte(text.String()), given))
	for _, one := range append(secrets, "pw") {
		if strings.Contains(got, one) {
			t.Errorf("%s is in\n%s", one, got)
		}
	}
	for _, kept := range []string{"name: orders\n", "FROM_RUN: {{.SASLPassword}}\n", "PASSWORD: {{.SASLPassword}}\n",
		"tokens: {max: 5}\n", "ADDRESS: postgres://me:MASKED@db\n", `username="me"`} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q is not in\n%s", kept, got)
		}
	}
}

// The repository's own subject files contain no secrets and stay unchanged.
func TestRedactLeavesOrdinaryFilesAlone(t *testing.T) {
	subjects, err := filepath.Glob("../../../examples/*/*/subject.yaml")
	if err != nil || len(subjects) == 0 {
		t.Fatal(subjects, err)
	}
	shipped, err := filepath.Glob("../../../scenarios/library/*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatal(shipped, err)
	}
	for _, path := range append(subjects, shipped...) {
		text := must.Get(os.ReadFile(path))(t)
		// The token that the stub hands out to the service is masked as any other.
		want := strings.Replace(string(text), `"t0k3n"`, "MASKED", 1)
		if got := Redact(text, Launch{}); string(got) != want {
			t.Errorf("%s became\n%s", path, got)
		}
	}
}
