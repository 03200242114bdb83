package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/drill/outward"
	"github.com/dlqbench/dlqbench/internal/drill/web"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// drillFlags are the flags of `dlqbench drill`.
type drillFlags struct {
	runFlags
	addr, tokenFile                         string
	limit, away, linger, wait               time.Duration
	scripted, responder, openEnded, foreign bool
	outward                                 outwardFlags
	name                                    string
}

func (a *app) drillCommand() *cobra.Command {
	flags := drillFlags{}
	command := &cobra.Command{
		Use: "drill SCENARIO", Short: "Inject faults into a running consumer by hand, and judge it", Args: takes(1, 1),
		Long: strings.TrimSpace(`
Run one scenario as a drill: while its load continues, people inject and lift faults on a web page. The drill measures
how long it takes to notice, heal and drain, and writes a debrief (debrief.html, debrief.md, drill.json) beside the
usual reports and the full verdict. Every injected fault is recorded as a scenario: dlqbench run
runs/latest/recorded.yaml repeats it automatically.

A drill by hand begins with nothing broken, whatever faults the scenario has, and waits until somebody opens the page.
With --scripted, the faults of the scenario and of its script (drill) are injected, and the drill does not wait for a
viewer.

The load lasts as long as the scenario says, or until the drill is ended on the page or with Ctrl-C; with
--open-ended, until it is ended, at most --limit. Then all faults are lifted, the consumer may finish its work, and
the verdict is that of a whole run.`),
		Example: `  dlqbench drill smoke --open-ended
  dlqbench drill on-call.yaml --scripted --subject examples/python/subject.yaml`,
		ValidArgsFunction: completeScenarios,
		RunE: func(command *cobra.Command, args []string) error {
			return a.drill(command.Context(), args[0], flags)
		},
	}
	set := command.Flags()
	set.StringVar(&flags.addr, "addr", "127.0.0.1:8480",
		"address of the page; port 0 takes any free port, and addresses other than loopback need a token")
	set.StringVar(&flags.tokenFile, "token-file", "",
		"file with your own tokens: the injector's in line 1, the responder's in line 2 (or "+environmentInjectorToken+", "+
			environmentResponderToken+")")
	set.BoolVar(&flags.openEnded, "open-ended", false, "continue until the drill is ended by hand, at most for --limit")
	set.DurationVar(&flags.limit, "limit", time.Hour, "maximum duration of the load")
	set.DurationVar(&flags.away, "away", 30*time.Second, "end the drill when no viewer has been connected for this long")
	set.DurationVar(&flags.wait, "wait", 10*time.Minute,
		"how long a drill by hand waits for its first viewer before it starts anything; 0s starts at once")
	set.DurationVar(&flags.linger, "linger", 30*time.Second,
		"how long the page is served after the drill to viewers still connected")
	set.BoolVar(&flags.scripted, "scripted", false, "inject only the faults of the scenario and its script, none by hand")
	set.BoolVar(&flags.responder, "responder", false,
		"serve a page for a person on call; the injector's page then needs its token")
	set.BoolVar(&flags.foreign, "i-own-this-cluster", false,
		"allow faults while the load goes through an external cluster")
	set.StringVar(&flags.subject, "subject", "",
		"subject.yaml of the consumer to judge (default: what the scenario names)")
	set.StringVar(&flags.seed, "seed", "", "seed of all random choices (default: the scenario's)")
	set.StringArrayVar(&flags.sets, "set", nil, "override a value of the scenario, as path=value; may be repeated")
	set.StringVar(&flags.out, "out", "runs", "folder for run directories")
	set.StringVar(&flags.name, "name", "", "your name in the log and the debrief, for what you do with --tui")
	set.BoolVar(&flags.tui, "tui", false, "show the drill full-screen in the terminal, with keys for the page's buttons")
	set.BoolVar(&flags.quiet, "quiet", false, "print no progress")
	set.BoolVar(&flags.json, "json", false, "print verdict.json on stdout instead of the summary")
	set.BoolVar(&flags.keepData, "keep-data", false, "keep the brokers' data in the run directory")
	flags.cluster.add(set)
	flags.metrics.add(set)
	flags.outward.add(set)
	return command
}

// drill checks everything that can be wrong before anything is started, and then carries out the drill.
func (a *app) drill(ctx context.Context, scenario string, flags drillFlags) error {
	options, err := a.drillOptions(scenario, flags)
	if err != nil {
		return usageError{err}
	}
	tokens, err := chosenTokens(flags.tokenFile)
	if err != nil {
		return usageError{err}
	}
	targets, err := flags.outward.targets()
	if err != nil {
		return usageError{err}
	}
	if flags.tui {
		if err := a.checkTerminal(); err != nil {
			return err
		}
	}
	unserve, err := flags.metrics.serve(a)
	if err != nil {
		return err
	}
	defer unserve()
	settings := drill.Options{
		Scenario: options.Scenario, Source: options.Source, SubjectFile: options.SubjectFile, Scripted: flags.scripted,
		Foreign: flags.anothers(), Rerun: recordedCommand(flags.cluster), Away: flags.away, Limit: flags.limit,
	}
	if flags.cluster.provider == run.ClusterExternal {
		settings.CanBreak = options.Cluster.External.CanBreak
	}
	session, manual := drill.New(settings)
	options.Manual = manual
	server, err := web.Listen(web.Options{Address: flags.addr, Apart: flags.responder || flags.scripted, Tokens: tokens,
		Log: a.notes()})
	if err != nil {
		return err
	}
	a.tellLinks(server, flags)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var (
		group  sync.WaitGroup
		served error
	)
	group.Go(func() { served = server.Serve(serving, session) })
	group.Go(func() {
		// It ends by itself soon after the drill, when everything was sent.
		outward.Follow(context.WithoutCancel(ctx), session, outward.Options{Targets: targets,
			Discreet: flags.responder || flags.scripted, Warn: a.warner()})
	})
	code, err := a.carryOutDrill(ctx, options, session, flags)
	a.linger(ctx, session, flags.linger)
	stop()
	group.Wait()
	if served != nil {
		code, err = worst(code, exitEnvironment), errors.Join(err, served)
	}
	if a.code = code; err != nil {
		a.complain(err) // the verdict decides the exit code
	}
	return nil
}

// warner returns what writes a warning to the log.
func (a *app) warner() func(string) {
	log := a.logger(a.notes())
	return func(line string) { log.Warn().Msg(line) }
}

// longestLoad leaves time for the warm-up, because a run is limited to one hour in total.
const longestLoad = 59 * time.Minute

// drillOptions are the options of a run, with the drill's own load.
func (a *app) drillOptions(scenario string, flags drillFlags) (run.Options, error) {
	if flags.limit <= 0 || flags.away <= 0 || flags.linger < 0 || flags.wait < 0 {
		return run.Options{}, errors.New(
			"--limit and --away need some time, such as 10m, and --linger and --wait none less than 0s")
	}
	kafka, err := a.kafkaOptions(flags.cluster)
	if err != nil {
		return run.Options{}, err
	}
	options, err := a.runOptions(scenario, kafka, flags.runFlags)
	if flags.openEnded {
		if err == nil && len(options.Scenario.Workload.Steps) > 0 {
			return options, fmt.Errorf("%s: a load in steps has its own end: leave out --open-ended", options.Scenario.Name)
		}
		// Faults past the scenario's own end fall within the drill now.
		flags.sets = append(flags.sets, "workload.duration="+units.Duration(min(flags.limit, longestLoad)).String())
		options, err = a.runOptions(scenario, kafka, flags.runFlags)
	}
	if own := flags.ownFaults(options.Scenario); err == nil && len(own) > 0 {
		flags.sets = append(own, flags.sets...)
		options, err = a.runOptions(scenario, kafka, flags.runFlags)
	}
	if err != nil {
		return options, err
	}
	if flags.anothers() && len(options.Scenario.Written()) > 0 {
		return options, fmt.Errorf("%s breaks things by itself, and this Kafka is not dlqbench's own: if it is yours to "+
			"break, say --i-own-this-cluster", options.Scenario.Name)
	}
	if flags.scripted && len(options.Scenario.Written()) == 0 {
		return options, fmt.Errorf("%s: --scripted, and neither the scenario nor a script of it (drill) breaks anything",
			options.Scenario.Name)
	}
	return options, nil
}

// ownFaults returns the overrides that leave out a scenario's own faults, before those of the user: by hand, a drill
// begins with nothing broken, except what the user has set explicitly.
func (f drillFlags) ownFaults(scenario *scenarios.Scenario) (sets []string) {
	if f.scripted || scenario == nil {
		return nil
	}
	if scenario.Drill != nil {
		sets = append(sets, "drill=null")
	}
	if len(scenario.Faults) > 0 {
		sets = append(sets, "faults=[]")
	}
	return sets
}

// anothers reports whether the Kafka is external and its user has not declared ownership.
func (f drillFlags) anothers() bool {
	return f.cluster.provider == run.ClusterExternal && !f.foreign
}

// recordedCommand is the command line that runs a recording, with %s for its file.
func recordedCommand(cluster clusterFlags) string {
	return strings.Join(append([]string{"dlqbench", "run", "%s"}, cluster.words()...), " ")
}

// tellLinks prints the addresses of the drill before anything is started, because the set-up may take a while.
func (a *app) tellLinks(server *web.Server, flags drillFlags) {
	var roles []drill.Role
	if !flags.scripted {
		fmt.Fprintf(a.stderr, "inject and heal: %s\n", server.Link(drill.RoleInjector))
		a.tellAPI(server)
		roles = append(roles, drill.RoleInjector)
	}
	if flags.scripted || flags.responder {
		fmt.Fprintf(a.stderr, "on call:         %s\n", server.Link(drill.RoleResponder))
		roles = append(roles, drill.RoleResponder)
	}
	for _, role := range roles {
		label := "heal everything: "
		if len(roles) > 1 {
			label = fmt.Sprintf("heal everything, as the %s: ", role)
		}
		fmt.Fprintln(a.stderr, label+server.HealCommand(role, true))
	}
	if flags.anothers() {
		fmt.Fprintln(a.stderr,
			"no fault can be injected: this Kafka is not dlqbench's own; if you may disturb it, add --i-own-this-cluster")
	}
	fmt.Fprintln(a.stderr, "end the drill:   Ctrl-C; everything is healed then, and judged")
}

// awaitViewer waits until somebody watches a drill by hand: nothing should happen that nobody sees. The terminal's own
// view watches from the beginning.
func (a *app) awaitViewer(ctx context.Context, session *drill.Session, flags drillFlags) error {
	if flags.scripted || flags.tui || flags.wait == 0 {
		return nil
	}
	fmt.Fprintln(a.stderr, "the drill begins when somebody opens the page")
	waiting, cancel := context.WithTimeout(ctx, flags.wait)
	defer cancel()
	switch err := session.AwaitViewer(waiting); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the first viewer of the drill: %w", ctx.Err())
	}
	return fmt.Errorf("nobody has opened the page of the drill within %s, so nothing was started: "+
		"open it, or start at once with --wait 0s", flags.wait)
}

// carryOutDrill runs the drill's run, ends the session with its outcome, and shows the verdict. The first interrupt
// ends the load like the button does, and the drill is judged as a whole. The second interrupt ends the program.
func (a *app) carryOutDrill(ctx context.Context, options run.Options, session *drill.Session,
	flags drillFlags) (int, error) {
	if err := a.awaitViewer(ctx, session, flags); err != nil {
		return a.exitCode(ctx, err), errors.Join(err, session.Finish(nil, err))
	}
	progress := a.drillShower(session, flags)
	defer progress.Done() // restores the terminal even after a panic
	options.Log, options.Announce = a.logger(progress.Around(a.stderr)), a.announcer(progress)
	options.Watch = func(snapshot reports.Snapshot) {
		session.Watch(snapshot)
		if flags.scripted {
			snapshot = snapshot.WithoutFaults() // the person who started it may be on call
		}
		progress.Update(snapshot)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if session.Interrupted(); session.State(drill.RoleInjector).Stage == drill.StageSetUp {
			options.Log.Warn().Msg("the drill ends before it has begun; interrupt again to end at once")
			cancel() // nothing has happened yet that could be judged
			return
		}
		options.Log.Warn().Msg("the drill ends: healing, draining and judging it; interrupt again to end at once")
	})()
	outcome, err := a.runShown(running, options, flags.scripted || flags.responder)
	progress.Done()
	err = errors.Join(err, session.Finish(outcome, err))
	if outcome == nil || outcome.Verdict == nil {
		return a.exitCode(running, err), err
	}
	code := verdictCode(outcome.Verdict)
	if outcome.Interrupted {
		code = exitInterrupted
	}
	if err != nil {
		code = worst(code, a.exitCode(running, err))
	}
	if printing := a.printRun(outcome.Judged, flags.runFlags); printing != nil {
		return worst(code, exitEnvironment), errors.Join(err, printing)
	}
	if !flags.json {
		fmt.Fprintf(a.stdout, "ended:   %s\ndebrief: %s\nagain:   %s\n",
			session.State(drill.RoleInjector).Ending, filepath.Join(outcome.Judged.Dir, drill.FileHTML),
			outcome.Judged.Header.Rerun)
	}
	return code, err
}

// drillShower returns the view of the drill in the terminal that started it. With --tui, the view counts as a viewer
// while it exists. In a scripted drill, the person who started it may be on call.
func (a *app) drillShower(session *drill.Session, flags drillFlags) shower {
	if !flags.tui {
		return a.progress(flags.runFlags)
	}
	role := drill.RoleInjector
	if flags.scripted {
		role = drill.RoleResponder
	}
	return attended{a.openScreen(drillKeys{session, drill.Actor{Name: flags.name, Role: role}}), session.Attend()}
}

// attended is a view that counts as a viewer.
type attended struct {
	shower
	leave func()
}

func (s attended) Done() {
	s.shower.Done()
	s.leave()
}

// linger keeps the page available to the remaining viewers.
func (a *app) linger(ctx context.Context, session *drill.Session, most time.Duration) {
	if ctx.Err() != nil || most == 0 || !session.Attended() {
		return
	}
	fmt.Fprintf(a.stderr, "the debrief stays on the page for %s, or until Ctrl-C\n", most)
	select {
	case <-time.After(most):
	case <-ctx.Done():
	}
}
