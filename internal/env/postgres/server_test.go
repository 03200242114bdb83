package postgres

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlqbench/dlqbench/internal/env/engine"
)

// settings are those of the servers in the tests.
var settings = map[string]string{"max_connections": "7"}

func TestKeepsWhatWasCommitted(t *testing.T) {
	server, err := Start(t.Context(), settings)
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	keeps(t, server)
}

// TestKeepsWhatWasCommittedInAContainer uses an image of the PostgreSQL that is installed here, because the official
// one cannot be pulled everywhere.
func TestKeepsWhatWasCommittedInAContainer(t *testing.T) {
	if os.Getenv("DLQBENCH_DOCKER_TESTS") != "1" {
		t.Skip("skipped: needs a container engine; .ci/docker.sh starts one and sets DLQBENCH_DOCKER_TESTS=1")
	}
	programs, err := find()
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "testdata/image/build.sh", programs)
	build.Stderr = os.Stderr
	built, err := build.Output()
	if err != nil {
		t.Fatal(err)
	}
	const runID = "postgres-test"
	server, err := StartContainer(t.Context(), Container{Image: strings.TrimSpace(string(built)), RunID: runID,
		Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	keeps(t, server)
	if left, err := engine.Sweep(t.Context(), runID); err != nil || len(left) > 0 {
		t.Errorf("a closed server leaves %v, %v", left, err)
	}
}

// keeps stops, crashes and resumes a server, and checks that committed data is present each time, at the same address.
func keeps(t *testing.T, server *Server) {
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if _, err := pgx.Connect(t.Context(), server.URL("postgres")); err == nil {
			t.Error("a closed server answers")
		}
	}()
	url, err := server.Create(t.Context(), "a b")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(sql string) (answer string) {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := ask("SHOW max_connections"); got != "7" {
		t.Errorf("max_connections is %s", got)
	}
	ask("SELECT (lo_create(4711))::text")
	for name, end := range map[string]func() error{"stopped": server.Stop, "crashed": server.Crash} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Errorf("a server that is %s answers", name)
		}
		if err := server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ask("SELECT count(*)::text FROM pg_largeobject_metadata WHERE oid = 4711"); got != "1" {
			t.Errorf("%s: %s objects are there", name, got)
		}
	}
}
