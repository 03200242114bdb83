package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/pgtap"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/scenarios"
)

// database is a PostgreSQL that the subject writes to: a server of the run's own, or the user's.
type database struct {
	*pgtap.Tap
	url    *url.URL
	server *postgres.Server // nil if it is the user's
	other  bool             // it does not decide
}

// databaseName is the name of the database on a server of the run's own.
const databaseName = "app"

// openPostgres opens the database that the subject writes to, behind a tap.
func (r *run) openPostgres(ctx context.Context, spec *scenarios.PostgresDownstream,
	attempts workload.AttemptsConfig) (_ called, err error) {
	d := &database{other: attempts.Other > 0}
	defer func() {
		if err != nil && d.server != nil {
			err = errors.Join(err, d.server.Close())
		}
	}()
	address := spec.URL
	if address == "" {
		if d.server, address, err = r.ownPostgres(ctx, databaseName, spec.Image, "downstreams.postgres.url"); err != nil {
			return nil, err
		}
	}
	if d.url, err = url.Parse(address); err != nil {
		return nil, errors.New("reading the URL of the database: write postgres://USER:PASSWORD@HOST:PORT/NAME")
	}
	config := pgtap.Config{
		AttemptsConfig: attempts, URL: address, Errors: map[history.Outcome]pgtap.Error{},
		Batch: spec.Batch, LoseCommits: spec.Unanswered == scenarios.UnansweredCommit, Log: r.options.Log,
	}
	given := spec.Answers.ByOutcome()
	for outcome, state := range spec.SQLStates() {
		one := pgtap.Error{SQLState: state}
		if answer := given[outcome]; answer != nil {
			one.Message, one.Constraint = answer.Message, answer.Constraint
		}
		config.Errors[outcome] = one
	}
	if spec.Statements != "" {
		if config.Statements, err = regexp.Compile(spec.Statements); err != nil {
			return nil, fmt.Errorf("reading downstreams.postgres.statements: %w", err)
		}
	}
	if spec.Parameters != "" {
		if config.Parameters, err = regexp.Compile(spec.Parameters); err != nil {
			return nil, fmt.Errorf("reading downstreams.postgres.parameters: %w", err)
		}
	}
	if err := pgtap.Reach(ctx, address); err != nil {
		return nil, unreached(err, r.options.SubjectFile)
	}
	d.Tap, err = pgtap.New(config)
	return d, err
}

func unreached(err error, place string) error {
	return fmt.Errorf("%w: start it, or correct downstreams.postgres.url in %s", err, place)
}

// CheckDatabase checks that the user's database answers, if the subject file names one. The error is an
// EnvironmentError; place gives the place of a path in the file, such as "subject.yaml:12:13".
func CheckDatabase(ctx context.Context, subject *scenarios.SubjectFile, place func(path string) string) error {
	for i, one := range subject.Downstreams {
		if one.Postgres == nil || one.Postgres.URL == "" {
			continue
		}
		if err := pgtap.Reach(ctx, one.Postgres.URL); err != nil {
			err = unreached(err, place(fmt.Sprintf("/downstreams/%d/postgres/url", i)))
			return environment("looking for the database", err)
		}
	}
	return nil
}

// ownPostgres starts a PostgreSQL for this run alone, with a database: from an image, or, if that is "", from the
// programs that are installed here, and without them from the usual image. other is the setting that names another
// server.
func (r *run) ownPostgres(ctx context.Context, name, image, other string) (*postgres.Server, string, error) {
	settings := map[string]string{"fsync": "off"}
	var server *postgres.Server
	err := postgres.ErrAbsent
	if image == "" {
		server, err = postgres.Start(ctx, settings)
	}
	if errors.Is(err, postgres.ErrAbsent) {
		absent := err
		r.subject.WorksElsewhere() // the guard then removes the container of a killed run
		server, err = postgres.StartContainer(ctx, postgres.Container{Image: cmp.Or(image, postgres.DefaultImage),
			RunID: r.header.RunID, Settings: settings, Log: r.options.Log})
		if image == "" && errors.Is(err, engine.ErrNoEngine) {
			return nil, "", fmt.Errorf("%w; this run needs these programs, a container engine, or %s of a server that runs",
				absent, other)
		}
	}
	if err != nil {
		return nil, "", err
	}
	address, err := server.Create(ctx, name)
	if err != nil {
		return nil, "", errors.Join(err, server.Close())
	}
	return server, address, nil
}

// Upstream implements called.
func (d *database) Upstream(instance int) network.Upstream {
	return network.Upstream{Address: d.Addr(instance)}
}

// Tell implements called.
func (d *database) Tell(values *scenarios.Values, address string) string {
	told := *d.url
	told.Host, told.RawQuery = address, "sslmode=disable"
	if options := d.url.Query(); options.Has("search_path") || options.Has("options") {
		options.Set("sslmode", "disable")
		told.RawQuery = options.Encode()
	}
	return d.tell(values, told)
}

// anyPassword is told for a server that asks for none. An empty one ends many programs, or takes the next word of a
// connection string ("password= dbname=app") for itself.
const anyPassword = "any"

// tell puts the address of the database into values and returns it.
func (d *database) tell(values *scenarios.Values, at url.URL) string {
	values.DatabaseURL = at.String()
	values.DatabaseHost, values.DatabasePort = at.Hostname(), at.Port()
	values.DatabaseName, values.DatabaseUser = strings.TrimPrefix(d.url.Path, "/"), d.url.User.Username()
	password, _ := d.url.User.Password()
	values.DatabasePassword = cmp.Or(password, anyPassword)
	return values.DatabaseURL
}

// Strays implements called.
func (d *database) Strays() (why, do string) {
	count := d.Unseen()
	if count == 0 || d.other {
		return "", ""
	}
	return fmt.Sprintf("%d statements changed rows, and none had a record's id, without which no attempt is seen", count),
		"write the id with the rows, or say observe: wire in the subject's file"
}

// Close implements called.
func (d *database) Close() error {
	err := d.Tap.Close()
	if d.server != nil {
		err = errors.Join(err, d.server.Close())
	}
	return err
}
