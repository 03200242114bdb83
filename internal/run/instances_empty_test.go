package run

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/scenarios"
)

// A consumer that makes its tables when it starts, and of which the second fails while the first does so, starts: with
// an empty database, the first gets ready alone.
func TestTheFirstInstanceMakesTables(t *testing.T) {
	server, err := postgres.Start(t.Context(), map[string]string{"fsync": "off"})
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	making := filepath.Join(t.TempDir(), "making")
	options := small(t)
	options.Subject, options.SubjectFile = subjectFile(t, `ready: {log: ready}
command: [sh, -c, 'mkdir `+making+` || exit 23; sleep 0.3; rmdir `+making+`; [ {{.Instance}} = 0 ] || exit 9; echo ready
  && exec sleep 60']
downstreams: [{postgres: {}}]`)
	_, err = Run(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "instance 1 of subject tested ended with exit code 9") {
		t.Errorf("the second instance did not make its tables after the first: %v", err)
	}
}

func TestEmptyDatabases(t *testing.T) {
	for text, want := range map[string]bool{
		"downstreams: [{postgres: {}}]": true,
		"downstreams: [{http: {}}]":     false,
		"downstreams: [{http: {}}, {postgres: {}}]\nneeds: [{name: cache, command: [redis]}]":    true,
		"downstreams: [{postgres: {}}]\nneeds: [{name: tables, command: [migrate], once: true}]": false,
		"downstreams: [{postgres: {url: \"postgres://me@db.example/orders\"}}]":                  false,
	} {
		subject, err := scenarios.ParseSubject("subject.yaml", []byte("name: x\nkind: process\ncommand: [x]\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := (&run{options: Options{Subject: subject}}).emptyDatabase(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
