//go:build !windows

package subject

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

var readyLine = regexp.MustCompile(`^up and running$`)

// group returns a group whose instances play these roles. It is closed at the end of the test.
func group(t *testing.T, change func(*Config), roles ...string) (*Group, *events) {
	t.Helper()
	byInstance := map[int]string{}
	for i, role := range roles {
		byInstance[i] = role
	}
	sink := &events{}
	cfg := config(t.TempDir(), sink, byInstance)
	if change != nil {
		change(&cfg)
	}
	g := must.Get(New(cfg))(t)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, sink
}

func (g *Group) up(t *testing.T, instance int) {
	t.Helper()
	must.Do(t, errors.Join(g.Start(t.Context(), instance), g.WaitReady(t.Context(), instance)))
}

func (g *Group) log(t *testing.T, instance int) string {
	t.Helper()
	data := must.Get(os.ReadFile(g.logPath(instance)))(t)
	return string(data)
}

// otherPID returns the pid that a parent role writes. The other process writes to the same log, and may be up before
// its parent has written the pid.
func (g *Group) otherPID(t *testing.T, instance int) int {
	t.Helper()
	var line string
	wait.Until(t, "the pid of the other process", func() bool {
		_, after, _ := strings.Cut(g.log(t, instance), "other pid ")
		var whole bool
		line, _, whole = strings.Cut(after, "\n")
		return whole
	})
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("no pid in %q", g.log(t, instance))
	}
	return pid
}

func TestInstanceLivesAndEndsAsTold(t *testing.T) {
	var started []string
	g, sink := group(t, func(cfg *Config) {
		cfg.OnStart = func(instance int, run uint16) { started = append(started, fmt.Sprint(instance, "/", run)) }
	}, "obedient")
	if g.Alive(0) {
		t.Fatal("alive before it was started")
	}
	g.up(t, 0)
	if err := g.WaitReady(t.Context(), 0); err != nil || !g.Alive(0) {
		t.Fatalf("ready once, but not the second time it is asked: %v", err)
	}
	if err := g.Start(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Fatalf("started twice: %v", err)
	}
	exit, err := g.Stop(t.Context(), 0)
	if err != nil || exit != (Exit{Expected: true}) || g.Alive(0) {
		t.Fatalf("stopped with %+v, %v, alive: %v", exit, err, g.Alive(0))
	}
	g.up(t, 0)
	if exit, err := g.Kill(t.Context(), 0); err != nil || exit != (Exit{Code: -1, Signal: "KILL", Expected: true}) {
		t.Fatalf("killed with %+v, %v", exit, err)
	}
	if fmt.Sprint(started) != "[0/0 0/1]" {
		t.Errorf("starts were announced as %v", started)
	}
	var trace []string
	for _, event := range sink.all {
		if event.Kind == history.KindStall || event.Kind == history.KindSubjectLog || event.Kind == history.KindSample {
			continue
		}
		what := map[history.Kind]string{
			history.KindInstanceStarting: "starting", history.KindInstanceReady: "ready",
			history.KindInstanceSignal: "signal " + event.Text, history.KindInstanceExited: fmt.Sprintf("exited %d%s",
				event.Code, event.Text),
		}[event.Kind]
		trace = append(trace, fmt.Sprintf("%s run %d", what, event.Run))
		if event.Instance != 0 || (event.Kind == history.KindInstanceExited) != event.Flags.Has(history.Expected) ||
			event.Kind != history.KindInstanceExited && (event.Kind == history.KindInstanceStarting) != (event.Aux > 1) {
			t.Errorf("%s is noted as %+v", what, event)
		}
	}
	want := "starting run 0, ready run 0, signal TERM run 0, exited 0 run 0, " +
		"starting run 1, ready run 1, signal KILL run 1, exited -1KILL run 1"
	if got := strings.Join(trace, ", "); got != want {
		t.Errorf("the events are\n%s, want\n%s", got, want)
	}
	if log := g.log(t, 0); log != "up and running\norderly end\nup and running\n" {
		t.Errorf("the log is %q", log)
	}
}

func TestNothingToSignalIsAnError(t *testing.T) {
	g, _ := group(t, nil, "obedient")
	_, stopped := g.Stop(t.Context(), 0)
	_, killed := g.Kill(t.Context(), 0)
	for what, err := range map[string]error{
		"stop": stopped, "kill": killed, "signal": g.Signal(0, syscall.SIGTERM), "pause": g.Pause(t.Context(), 0, true),
		"wait": g.WaitReady(t.Context(), 0),
	} {
		if !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case <-g.Exited(0):
	default:
		t.Error("an instance that never ran has not exited")
	}
}

func TestStubbornInstanceIsKilledAfterItsGrace(t *testing.T) {
	g, sink := group(t, func(cfg *Config) { cfg.Grace = 30 * time.Millisecond }, "stubborn")
	g.up(t, 0)
	exit, err := g.Stop(t.Context(), 0)
	if err != nil || exit != (Exit{Code: -1, Signal: "KILL", Expected: true, Forced: true}) {
		t.Fatalf("stopped with %+v, %v", exit, err)
	}
	signals := sink.of(history.KindInstanceSignal)
	if len(signals) != 2 || signals[0].Text != "TERM" || signals[1].Text != "KILL" ||
		signals[1].Time-signals[0].Time < 30*time.Millisecond {
		t.Fatalf("signals: %+v", signals)
	}
}

func TestStopKillsAtOnceWhenItsContextEnds(t *testing.T) {
	g, _ := group(t, func(cfg *Config) { cfg.Grace = time.Hour }, "stubborn")
	g.up(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if exit, err := g.Stop(ctx, 0); err != nil || exit.Signal != "KILL" || exit.Forced {
		t.Fatalf("stopped with %+v, %v", exit, err)
	}
}

// The time in which an instance waited for a processor is added to its grace period, up to another one.
func TestGraceGrowsWhileTheInstanceCannotRun(t *testing.T) {
	for _, one := range []struct {
		name         string
		held, ending time.Duration // ending: when it ends by itself; 0: never
		want         time.Duration
		ends         bool
	}{
		{"it could run", 0, 0, 10 * time.Second, false},
		{"it waited for a processor", 4 * time.Second, 0, 14 * time.Second, false},
		{"it could hardly run at all", time.Minute, 0, 20 * time.Second, false},
		{"it ends in the time that was added", 4 * time.Second, 13 * time.Second, 13 * time.Second, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p := &Group{cfg: Config{Grace: 10 * time.Second}}, &process{done: make(chan struct{})}
				p.heldUp.Store(int64(time.Hour)) // before it was told to end
				time.AfterFunc(time.Second, func() { p.heldUp.Add(int64(one.held)) })
				if one.ending > 0 {
					time.AfterFunc(one.ending, func() { close(p.done) })
				}
				asked := time.Now()
				if ended := g.ends(t.Context(), p); ended != one.ends || time.Since(asked) != one.want {
					t.Errorf("ended %v after %v, want %v after %v", ended, time.Since(asked), one.ends, one.want)
				}
			})
		})
	}
}

func TestInstanceThatDiesAtOnceIsSeenAtOnce(t *testing.T) {
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Ready.Timeout = time.Hour
			return launch, err
		}
	}, "crashing")
	must.Do(t, g.Start(t.Context(), 0))
	err := g.WaitReady(t.Context(), 0)
	for _, want := range []string{"exit code 3", "ERROR no route to broker", g.logPath(0)} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the error %v does not say %q", err, want)
		}
	}
	exits := sink.of(history.KindInstanceExited)
	if len(exits) != 1 || exits[0].Code != 3 || exits[0].Flags.Has(history.Expected) {
		t.Fatalf("exits: %+v", exits)
	}
	if errs := sink.of(history.KindSubjectError); len(errs) != 1 ||
		errs[0].Text != "ERROR no route to broker" || errs[0].Instance != 0 {
		t.Fatalf("errors: %+v", errs)
	}
	if len(sink.of(history.KindInstanceReady)) != 0 {
		t.Fatal("it was noted as ready")
	}
}

func TestInstanceThatIsNeverReady(t *testing.T) {
	g, _ := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Ready = func(context.Context, int, uint16) <-chan struct{} { return make(chan struct{}) }
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Ready = Ready{Timeout: 50 * time.Millisecond}
			return launch, err
		}
	}, "obedient")
	must.Do(t, g.Start(t.Context(), 0))
	err := g.WaitReady(t.Context(), 0)
	for _, says := range []string{"not ready after 50ms (it was not seen to fetch", "as Spark does", "ready: {log: …}"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Fatalf("want %q: %v", says, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.WaitReady(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

// A member may wait for remains of its predecessor in the group. That shows only once it has joined.
func TestInstanceThatWaitsForItsGroup(t *testing.T) {
	seen := make(chan struct{})
	var inGroup atomic.Int64
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Ready = func(context.Context, int, uint16) <-chan struct{} { return seen }
		cfg.InGroup = func() time.Duration { return time.Duration(inGroup.Load()) }
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Ready = Ready{Timeout: 100 * time.Millisecond}
			return launch, err
		}
	}, "obedient")
	must.Do(t, g.Start(t.Context(), 0))
	if err := g.WaitReady(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "not ready after 100ms") {
		t.Fatalf("without a group: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { inGroup.Store(int64(time.Hour)) })
	time.AfterFunc(200*time.Millisecond, func() { close(seen) })
	if err := g.WaitReady(t.Context(), 0); err != nil || len(sink.of(history.KindInstanceReady)) != 1 {
		t.Fatalf("in a group: %v, noted as ready %d times", err, len(sink.of(history.KindInstanceReady)))
	}
}

func TestReadyByPortURLAndObservation(t *testing.T) {
	var healthy atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	seen := make(chan struct{})
	ready := []Ready{{Port: port}, {URL: server.URL}, {}}
	g, sink := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Ready = func(context.Context, int, uint16) <-chan struct{} { return seen }
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.Ready = ready[instance]
			return launch, err
		}
	}, "obedient", "obedient", "obedient")
	makeReady := []func(){
		func() {
			if listener, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
				t.Error(err)
			}
		},
		func() { healthy.Store(true) },
		func() { close(seen) },
	}
	for instance := range ready {
		must.Do(t, g.Start(t.Context(), instance))
		result := make(chan error, 1)
		go func() { result <- g.WaitReady(t.Context(), instance) }()
		select {
		case err := <-result:
			t.Fatalf("instance %d was ready too early: %v", instance, err)
		case <-time.After(60 * time.Millisecond):
		}
		makeReady[instance]()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if got := len(sink.of(history.KindInstanceReady)); got != instance+1 {
			t.Fatalf("%d instances were noted as ready, want %d", got, instance+1)
		}
	}
	listener.Close()
}

func TestPauseAndContinue(t *testing.T) {
	g, sink := group(t, nil, "obedient")
	g.up(t, 0)
	pid := g.process(0).pid
	if err := g.Pause(t.Context(), 0, true); err != nil || !stopped(pid) {
		t.Fatalf("paused: %v, %v", stopped(pid), err)
	}
	if err := g.Pause(t.Context(), 0, false); err != nil || stopped(pid) {
		t.Fatalf("still paused: %v, %v", stopped(pid), err)
	}
	// A paused instance can be stopped in order, too.
	must.Do(t, g.Pause(t.Context(), 0, true))
	if exit, err := g.Stop(t.Context(), 0); err != nil || exit.Code != 0 || exit.Forced {
		t.Fatalf("stopped with %+v, %v", exit, err)
	}
	var names []string
	for _, event := range sink.of(history.KindInstanceSignal) {
		names = append(names, event.Text)
	}
	if fmt.Sprint(names) != "[STOP CONT STOP TERM CONT]" {
		t.Errorf("signals: %v", names)
	}
}

func TestRestartReviveAndStopAll(t *testing.T) {
	g, sink := group(t, nil, "obedient", "obedient")
	for instance := range 2 {
		must.Do(t, g.Revive(t.Context(), instance))
	}
	must.Do(t, g.Revive(t.Context(), 0))
	must.Do(t, g.Restart(t.Context(), 1))
	if code, err := g.End(t.Context(), 0, syscall.SIGKILL); code != -1 || err != nil {
		t.Fatalf("ended with %d, %v", code, err)
	}
	must.Do(t, g.StopAll(t.Context()))
	if g.Alive(0) || g.Alive(1) {
		t.Fatal("something is still alive")
	}
	if starts, exits := len(sink.of(history.KindInstanceStarting)),
		len(sink.of(history.KindInstanceExited)); starts != 3 || exits != 3 {
		t.Fatalf("%d starts and %d exits, want 3 of each", starts, exits)
	}
}

// Two concurrent starts must not start two processes of one instance.
func TestConcurrentStartsGiveOneProcess(t *testing.T) {
	g, _ := group(t, nil, "obedient")
	var failed atomic.Int64
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			if g.Start(t.Context(), 0) != nil {
				failed.Add(1)
			}
		})
	}
	starting.Wait()
	if failed.Load() != 3 {
		t.Fatalf("%d of 4 starts failed, want 3", failed.Load())
	}
}

// A wrapper dies at once of its TERM. The instance has ended when the process behind the wrapper has.
func TestInstanceIsItsWholeProcessGroup(t *testing.T) {
	g, sink := group(t, nil, "wrapper")
	g.up(t, 0)
	other := g.otherPID(t, 0)
	must.Get(g.Stop(t.Context(), 0))(t)
	if startToken(other) != "" {
		t.Error("the process behind the wrapper is left")
	}
	if log := g.log(t, 0); !strings.HasSuffix(log, "orderly end\n") {
		t.Errorf("the process behind the wrapper could not end in order: %q", log)
	}
	for _, event := range sink.of(history.KindInstanceSignal) {
		if event.Text == "KILL" {
			t.Error("it was killed although it ends in time")
		}
	}
}

// A process that manages others tells them itself to end. A TERM of their own would end them at once.
func TestTermGoesToTheFirstProcess(t *testing.T) {
	g, _ := group(t, nil, "managing")
	g.up(t, 0)
	exit := must.Get(g.Stop(t.Context(), 0))(t)
	if log := g.log(t, 0); exit.Code != 0 || exit.Signal != "" || !strings.HasSuffix(log, "orderly end\n") {
		t.Errorf("it ended with %v: %q", exit, log)
	}
}

// The first process ends by itself and leaves another one behind, which must not be taken for the next run.
func TestWhatAnEndedInstanceLeavesIsKilled(t *testing.T) {
	g, _ := group(t, nil, "orphaning")
	must.Do(t, g.Start(t.Context(), 0))
	<-g.Exited(0)
	if other := g.otherPID(t, 0); startToken(other) != "" {
		t.Errorf("process %d is left", other)
	}
}

func TestEnvironmentFilesAndFolder(t *testing.T) {
	t.Setenv("OUTER_VALUE", "kept")
	t.Setenv("DLQBENCH_INPUT_TOPIC", "of an outer run")
	work := t.TempDir()
	g, _ := group(t, func(cfg *Config) {
		render := cfg.Render
		cfg.Render = func(instance int, run uint16) (Launch, error) {
			launch, err := render(instance, run)
			launch.WorkDir, launch.Files = work, map[string]string{"conf/app.yaml": "kafka: here\n"}
			launch.Env = append(launch.Env, "DLQBENCH_GROUP_ID=g1")
			return launch, err
		}
	}, "environment")
	g.up(t, 0)
	log := g.log(t, 0)
	for _, want := range []string{
		"env OUTER_VALUE=kept\n", "env DLQBENCH_GROUP_ID=g1\n", "env DLQBENCH_RUN_ID=" + g.cfg.RunID + "\n",
		"env SAID_RUN=0\n", "dir " + g.cfg.LogDir + "\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(log, "outer run") {
		t.Error("an outer run's variable was handed on")
	}
	if data, err := os.ReadFile(filepath.Join(work, "conf", "app.yaml")); err != nil || string(data) != "kafka: here\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	broken := Launch{Command: []string{"./no-such-program", "--flag"}, Dir: t.TempDir()}
	taken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(taken.Close)
	answering := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(answering.Close)
	port := taken.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	for what, test := range map[string]struct {
		render func(int, uint16) (Launch, error)
		want   string
	}{
		"no such program": {func(int, uint16) (Launch, error) { return broken, nil }, `running "./no-such-program --flag"`},
		"not in the PATH": {func(int, uint16) (Launch, error) {
			return Launch{Command: []string{"no-such-program-anywhere"}}, nil
		}, `no program "no-such-program-anywhere" in the PATH`},
		"a port in use": {func(int, uint16) (Launch, error) {
			return Launch{Command: []string{"true"}, Ready: Ready{Port: port}}, nil
		}, fmt.Sprintf("port %d, which is to show that it is ready, is in use already", port)},
		"a URL that answers already": {func(int, uint16) (Launch, error) {
			return Launch{Command: []string{"true"}, Ready: Ready{URL: answering.URL}}, nil
		}, "is answered already"},
		"a bad template": {func(int, uint16) (Launch, error) { return Launch{}, errors.New("no field Foo") }, "no field Foo"},
		"a file outside": {func(int, uint16) (Launch, error) {
			return Launch{Files: map[string]string{"../x": ""}}, nil
		}, "below the instance's work folder"},
		"a file in the way": {func(int, uint16) (Launch, error) {
			return Launch{WorkDir: "/dev/null", Files: map[string]string{"x": ""}}, nil
		}, "making the folder"},
	} {
		t.Run(what, func(t *testing.T) {
			g, sink := group(t, func(cfg *Config) { cfg.Render = test.render }, "obedient")
			err := g.Start(t.Context(), 0)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "instance 0 of "+
				"subject tested") {
				t.Errorf("got %v, want it to say %q", err, test.want)
			}
			if g.Alive(0) || len(sink.of(history.KindInstanceStarting)) != 0 {
				t.Error("something was started")
			}
		})
	}
}

func TestBuild(t *testing.T) {
	build := func(t *testing.T, ctx context.Context, command ...string) (string, error) {
		g, _ := group(t, func(cfg *Config) { cfg.Build = Launch{Command: command, Dir: cfg.LogDir} }, "obedient")
		err := g.Build(ctx)
		log, _ := os.ReadFile(filepath.Join(g.cfg.LogDir, "build.log"))
		return string(log), err
	}
	if log, err := build(t, t.Context(), "sh", "-c", "echo compiling; echo warned >&2"); err != nil ||
		log != "compiling\nwarned\n" {
		t.Errorf("built with %q, %v", log, err)
	}
	if _, err := build(t, t.Context()); err != nil {
		t.Errorf("nothing to build: %v", err)
	}
	_, err := build(t, t.Context(), "sh", "-c", "for i in $(seq 100); do echo line $i; done; exit 7")
	if err == nil || !strings.Contains(err.Error(), "exit code 7") ||
		!strings.Contains(err.Error(), "line 100") || strings.Contains(err.Error(), "line 50\n") {
		t.Errorf("a failed build gives %v", err)
	}
	if _, err := build(t, t.Context(), "no-such-compiler"); err == nil ||
		!strings.Contains(err.Error(), "no-such-compiler") {
		t.Errorf("a missing compiler gives %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := build(t, ctx, "sleep", "100"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an interrupted build gives %v", err)
	}
}

func TestRunTool(t *testing.T) {
	g, sink := group(t, nil, "obedient")
	tool := func(ctx context.Context, script string) error {
		return g.RunTool(ctx, "replay", Launch{Command: []string{"sh", "-c", script}})
	}
	if err := tool(t.Context(), "echo replayed 3; echo $"+RunIDVariable); err != nil {
		t.Error(err)
	}
	if err := tool(t.Context(), "echo no broker; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "no broker") || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("a failed tool gives %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(g.cfg.LogDir, "replay.log")); err != nil || string(log) != "replayed 3\n"+
		g.cfg.RunID+"\nno broker\n" {
		t.Errorf("the log is %q, %v", log, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tool(ctx, "sleep 100"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an interrupted tool gives %v", err)
	}
	if len(sink.all) != 0 {
		t.Errorf("a tool is no instance, but made events: %+v", sink.all)
	}
}

func TestCrashedTellsWhoEndedIt(t *testing.T) {
	g, _ := group(t, nil, "crashing", "obedient", "obedient")
	must.Do(t, g.Start(t.Context(), 0))
	<-g.Exited(0)
	g.up(t, 1)
	if !g.Crashed(0) || g.Crashed(1) || g.Crashed(2) {
		t.Errorf("crashed: %v, %v, %v; want the first only", g.Crashed(0), g.Crashed(1), g.Crashed(2))
	}
	if _, err := g.Stop(t.Context(), 1); err != nil || g.Crashed(1) {
		t.Errorf("an instance that was stopped counts as crashed: %v, %v", g.Crashed(1), err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	g, _ := group(t, nil, "chatty")
	must.Do(t, g.Start(t.Context(), 0))
	<-g.Exited(0)
	log := g.log(t, 0)
	if len(log) > logLimit+100 || len(log) < logLimit || !strings.HasSuffix(log, "[dlqbench keeps no more than 50 MiB "+
		"of this]\n") {
		t.Errorf("52 MiB became %d bytes, ending in %q", len(log), log[len(log)-80:])
	}
	if last := g.process(0).out.lastLines(); !strings.Contains(last, "the last line") {
		t.Errorf("the end was not read: %q", last)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	g, _ := group(t, nil, "obedient", "escaping")
	g.up(t, 0)
	g.up(t, 1)
	pids := []int{g.process(0).pid, g.process(1).pid, g.otherPID(t, 1), g.guard.cmd.Process.Pid}
	must.Do(t, g.Close())
	for _, pid := range pids {
		wait.Until(t, "the end of "+strconv.Itoa(pid), func() bool { return startToken(pid) == "" })
	}
	if _, err := os.Stat(filepath.Join(g.cfg.RunDir, RegistryFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the registry is left: %v", err)
	}
	if err := g.Start(t.Context(), 0); err == nil {
		t.Error("a closed group starts processes")
	}
}

// killedHarness starts a harness with its subjects in a separate process, and kills it with SIGKILL.
func killedHarness(t *testing.T, before func(pids []int)) (dir string, pids []int) {
	t.Helper()
	dir = t.TempDir()
	executable := must.Get(os.Executable())(t)
	harness := exec.Command(executable)
	harness.Env = append(os.Environ(), roleVariable+"=harness", "SUBJECT_TEST_DIR="+dir)
	out := must.Get(harness.StdoutPipe())(t)
	must.Do(t, harness.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "all up\n" {
		t.Fatalf("the harness said %q, %v", line, err)
	}
	runID := config(dir, nil, nil).RunID
	pids = runProcesses(runID)
	if len(pids) < 3 {
		t.Fatalf("the harness has processes %v, want two instances and a child", pids)
	}
	if before != nil {
		before(pids)
	}
	must.Do(t, harness.Process.Kill())
	_ = harness.Wait()
	return dir, pids
}

func TestStartTokenTellsProcessesApart(t *testing.T) {
	// The parent may have started within the same tick of the kernel's clock; the first process has not.
	own, first := startToken(os.Getpid()), startToken(1)
	if own == "" || own == first || own != startToken(os.Getpid()) {
		t.Errorf("own token %q, the first process's %q", own, first)
	}
	if token := startToken(1 << 30); token != "" {
		t.Errorf("a process that can't be has token %q", token)
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"no command for it":        func(cfg *Config) { cfg.GuardCommand = nil },
		"no-such-guard":            func(cfg *Config) { cfg.GuardCommand = []string{"no-such-guard"} },
		"registry of processes":    func(cfg *Config) { cfg.RunDir = filepath.Join(cfg.RunDir, "missing") },
		"folder for the subject's": func(cfg *Config) { cfg.LogDir = "/dev/null/logs" },
	} {
		cfg := config(t.TempDir(), &events{}, nil)
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

// The kernel may report the end of a process late. The event has the time at which the process was observed to be
// gone.
func TestExitTellsWhenTheProcessWasGone(t *testing.T) {
	sink := &events{}
	g := &Group{cfg: Config{Clock: history.NewClock(), Sink: sink, Log: zerolog.Nop()}}
	p := &process{child: &child{exit: Exit{Expected: true}}}
	p.gone.Store(1)
	g.noteExit(p)
	p.gone.Store(0)
	g.noteExit(p)
	exits := sink.of(history.KindInstanceExited)
	if e := exits[0]; e.Aux <= 0 || time.Duration(e.Aux) != e.Time-1 {
		t.Errorf("gone at 1ns, noted at %v: %v late", e.Time, time.Duration(e.Aux))
	}
	if exits[1].Aux != 0 {
		t.Errorf("nobody saw when it was gone, and it was %v before", time.Duration(exits[1].Aux))
	}
}
