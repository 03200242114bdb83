package run

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/scenarios"
)

func TestInstancesAreToldTheirDatabase(t *testing.T) {
	for from, want := range map[string]string{
		"postgres://dlqbench@127.0.0.1:5444/app?sslmode=disable": "postgres://dlqbench@127.0.0.1:9999/app?sslmode=disable",
		"postgres://me:p%40w@db.example/orders?sslmode=require&search_path=shop": "postgres://me:p%40w@127.0.0.1:9999/orders?" +
			"search_path=shop&sslmode=disable",
	} {
		address, err := url.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		var values scenarios.Values
		(&database{url: address}).Tell(&values, "127.0.0.1:9999")
		password, asked := address.User.Password()
		if !asked {
			password = "any" // the server takes it, and an empty one would not be one
		}
		if values.DatabaseURL != want || values.DatabaseHost != "127.0.0.1" || values.DatabasePort != "9999" ||
			"/"+values.DatabaseName != address.Path || values.DatabaseUser != address.User.Username() ||
			values.DatabasePassword != password {
			t.Errorf("%s is told as %+v", from, values)
		}
	}
}

// What the subject needs reaches the database itself, past the tap and its link.
func TestNeedsAreToldTheDatabase(t *testing.T) {
	address := url.URL{Scheme: "postgres", User: url.User("me"), Host: "db.example:5444", Path: "/orders"}
	r := &run{dir: runDir{path: t.TempDir()}, options: Options{Subject: &scenarios.SubjectFile{}}}
	r.stubs.list = []called{&database{url: &address}}
	launch, err := r.launchNeed(scenarios.Need{Name: "tables", Once: true,
		Command: []string{"migrate", "{{.DatabaseURL}}", "{{.DatabaseHost}}"}}, served{})
	if want := []string{"migrate", address.String(), "db.example"}; err != nil || !launch.Ready.End ||
		!slices.Equal(launch.Command, want) {
		t.Errorf("got %+v, %v", launch, err)
	}
}

// A database that can't be reached is told before anything depends on it, without its password.
func TestDatabaseThatIsNotThere(t *testing.T) {
	r := &run{plan: &plan.Plan{}, ids: history.NewIDs("run"), options: Options{SubjectFile: "subject.yaml"},
		header: history.Header{Consumers: make([]history.Consumer, 1)}}
	_, err := r.openPostgres(t.Context(), &scenarios.PostgresDownstream{URL: "postgres://me:secret1@127.0.0.1:1/orders"},
		r.attemptsConfig())
	if err == nil || !strings.Contains(err.Error(), "correct downstreams.postgres.url in subject.yaml") ||
		strings.Contains(err.Error(), "secret1") {
		t.Errorf("told as %v", err)
	}
}
