package main

import (
	"context"
	"fmt"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/drill/web"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

// serveLinks answers toxiproxy's HTTP API for the links of a run, as in a drill, until stop is called. It changes the
// options so that faults injected there are part of the run.
func (a *app) serveLinks(ctx context.Context, options *run.Options, flags runFlags) (stop func(), err error) {
	tokens, err := chosenTokens("")
	if err != nil {
		return nil, usageError{err}
	}
	server, err := web.Listen(web.Options{Address: flags.links, Links: true, Tokens: tokens, Log: a.notes()})
	if err != nil {
		return nil, err
	}
	session, manual := drill.New(drill.Options{
		Scenario: options.Scenario, Source: options.Source, SubjectFile: options.SubjectFile, Links: true,
		Rerun: recordedCommand(flags.cluster),
	})
	watch := options.Watch
	options.Manual = manual
	options.Watch = func(snapshot reports.Snapshot) {
		session.Watch(snapshot)
		watch(snapshot)
	}
	a.tellAPI(server)
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving, session) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			a.complain(err) // the run is judged all the same
		}
	}, nil
}

// tellAPI prints the command line that uses toxiproxy's API.
func (a *app) tellAPI(server *web.Server) {
	fmt.Fprintf(a.stderr, "toxiproxy-cli:   toxiproxy-cli --host %s list\n", server.Toxiproxy(true))
}
