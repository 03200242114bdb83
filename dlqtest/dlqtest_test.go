package dlqtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench"
	"github.com/dlqbench/dlqbench/dlqtest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

// The program is in Go's cache before several tests ask for it, but not when the test binary is started as a consumer.
// The tests and their consumers, some of which are killed, leave no temporary folders.
func TestMain(m *testing.M) {
	if os.Getenv("DLQTEST_CONSUMER") != "" {
		os.Exit(m.Run())
	}
	scratch, err := os.MkdirTemp("", "dlqtest")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", scratch)
	program, err := programtest.Build()
	if err != nil {
		panic(err)
	}
	os.Setenv("DLQBENCH", program) // go tool ignores GOFLAGS, and would compile everything once more
	code := m.Run()
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left, err)
		code = 1
	}
	os.RemoveAll(scratch)
	os.Exit(code)
}

const promises = `
attempts: {max: 3, counter: memory}
classes: {retryable: [503, 429, timeout, reset], permanent: [400], logical: [422]}
logical: terminal
dlq: {on_failure: crash}
`

// consumer takes a batch at a time: each record is tried three times, dead-lettered if that was in vain, and then the
// batch is committed.
type consumer struct {
	client *kgo.Client
	env    dlqtest.Env
	// forgetful commits without having written the dead letter.
	forgetful bool
}

// run ends with the context's error, or with what it can't go on after.
func (c *consumer) run(ctx context.Context) error {
	for {
		fetches := c.client.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, record := range fetches.Records() {
			if err := c.handle(ctx, record); err != nil {
				return err
			}
		}
		if err := c.client.CommitRecords(ctx, fetches.Records()...); err != nil && ctx.Err() == nil {
			fmt.Println("error: committing:", err)
		}
		c.client.AllowRebalance()
	}
}

func (c *consumer) handle(ctx context.Context, record *kgo.Record) error {
	for range 3 {
		switch status, err := c.attempt(ctx, record); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (status == http.StatusOK || status == http.StatusUnprocessableEntity):
			return nil
		case err == nil && status == http.StatusBadRequest:
			return c.deadLetter(ctx, record)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return c.deadLetter(ctx, record)
}

func (c *consumer) attempt(ctx context.Context, record *kgo.Record) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.env.Downstream+"/v1/attempt",
		bytes.NewReader(record.Value))
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

func (c *consumer) deadLetter(ctx context.Context, record *kgo.Record) error {
	if c.forgetful {
		return nil
	}
	letter := &kgo.Record{Topic: c.env.DLQTopic, Key: record.Key, Value: record.Value, Headers: record.Headers}
	return c.client.ProduceSync(ctx, letter).FirstErr()
}

// consuming is the consumer as a function to be judged.
func consuming(forgetful bool) func(context.Context, dlqtest.Env) error {
	return func(ctx context.Context, env dlqtest.Env) error {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(env.Brokers...), kgo.ConsumerGroup(env.Group), kgo.ConsumeTopics(env.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		)
		if err != nil {
			return err
		}
		defer client.CloseAllowingRebalance()
		if err := (&consumer{client, env, forgetful}).run(ctx); !errors.Is(err, ctx.Err()) {
			return err
		}
		return nil
	}
}

// quick is little enough to be judged in a few seconds.
var quick = []dlqtest.Option{dlqtest.Set("workload.duration", "2s"), dlqtest.Set("workload.rate", "100/s")}

// listener hears how a test fails, in its place.
type listener struct {
	testing.TB
	said []string
}

func (l *listener) Error(args ...any) { l.said = append(l.said, fmt.Sprint(args...)) }

// A busy machine may make the run inconclusive; that fails a test, too, and is no accusation.
func TestACorrectConsumerIsNotAccused(t *testing.T) {
	t.Parallel()
	l := &listener{TB: t}
	verdict := dlqtest.Run(l, "smoke", append(quick,
		dlqtest.Func(consuming(false)), dlqtest.Contract(promises), dlqtest.Out(t.TempDir()))...)
	if passed := verdict.Status == dlqbench.Pass; verdict.Status == dlqbench.Fail || passed != (len(l.said) == 0) {
		t.Errorf("%s, and the test said %q", verdict.Status, l.said)
	}
	again, err := dlqbench.Judge(t.Context(), verdict.Dir)
	if err != nil || again.Status != verdict.Status || again.RunID != verdict.RunID {
		t.Errorf("judged again it is %+v, %v", again, err)
	}
}

// Two tests that start at once both have Go build the program, and one of them finds it still open for writing.
func TestAProgramThatIsStillWrittenIsWaitedFor(t *testing.T) {
	program := executable(t, "dlqbench", "#!/bin/sh\necho '{\"run_id\": \"r\", \"verdict\": \"pass\"}'\n")
	written := must.Get(os.OpenFile(program, os.O_WRONLY, 0))(t)
	time.AfterFunc(200*time.Millisecond, func() { written.Close() })
	t.Setenv("DLQBENCH", program)
	if verdict, err := dlqbench.Judge(t.Context(), t.TempDir()); err != nil || verdict.RunID != "r" {
		t.Errorf("%+v, %v", verdict, err)
	}
}

// A module that has dlqbench as a tool needs no variable, and neither does a machine where it is installed.
func TestTheProgramIsFound(t *testing.T) {
	const program = "#!/bin/sh\n" + `echo '{"run_id": "%s", "verdict": "pass"}'` + "\n"
	tool := executable(t, "dlqbench", fmt.Sprintf(program, "tool"))
	installed := executable(t, "dlqbench", fmt.Sprintf(program, "installed"))
	knows := executable(t, "go", "#!/bin/sh\n"+`[ "$*" = "tool -n dlqbench" ] && echo `+tool+"\n")
	knowsNot := executable(t, "go", "#!/bin/sh\nexit 2\n")
	for _, one := range []struct{ name, variable, first, second, want string }{
		{"by the variable", installed, knows, tool, "installed"},
		{"as a tool", "", knows, installed, "tool"},
		{"in the PATH", "", knowsNot, installed, "installed"},
		{"nowhere", "", knowsNot, knowsNot, "make it a tool of the module"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Setenv("DLQBENCH", one.variable)
			t.Setenv("PATH", filepath.Dir(one.first)+string(filepath.ListSeparator)+filepath.Dir(one.second))
			verdict, err := dlqbench.Judge(t.Context(), t.TempDir())
			said := fmt.Sprint(err)
			if err == nil {
				said = verdict.RunID
			}
			if !strings.Contains(said, one.want) {
				t.Errorf("it said %q, want %q", said, one.want)
			}
		})
	}
}

// executable writes a program into a folder of its own.
func executable(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

func TestALossFailsTheTestWithItsTrace(t *testing.T) {
	t.Parallel()
	l := &listener{TB: t}
	verdict := dlqtest.Run(l, "poison-mix", append(quick,
		dlqtest.Func(consuming(true)), dlqtest.Contract(promises), dlqtest.Seed(7), dlqtest.Out(t.TempDir()))...)
	if verdict.Status != dlqbench.Fail || verdict.Seed != 7 || len(l.said) != 1 {
		t.Fatalf("%s with seed %d, and the test said %q", verdict.Status, verdict.Seed, l.said)
	}
	for _, want := range []string{"no-loss: lost, ", "asks to commit", "> ", verdict.Dir + "/report.html",
		"DLQTEST_SEED=7 go test -run '^TestALoss"} {
		if !strings.Contains(l.said[0], want) {
			t.Errorf("the failure lacks %q:\n%s", want, l.said[0])
		}
	}
}

func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		options dlqbench.Options
		want    string
	}{
		{dlqbench.Options{Scenario: "no-such"}, "no-such"},
		{dlqbench.Options{Scenario: "smoke", Subject: "nowhere.yaml"}, "nowhere.yaml"},
		{dlqbench.Options{Scenario: "smoke", Set: []string{"workload.rat=1/s"}}, "workload.rat"},
	} {
		if _, err := dlqbench.Run(t.Context(), one.options); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%+v: %v, want %q in it", one.options, err, one.want)
		}
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for begun := []string(nil); len(begun) == 0 && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			begun, _ = filepath.Glob(filepath.Join(out, "*", "logs", "*"))
		}
		cancel()
	}()
	verdict, err := dlqbench.Run(ctx, dlqbench.Options{Scenario: "smoke", Set: []string{"workload.duration=5m"}, Out: out})
	if !errors.Is(err, context.Canceled) || verdict == nil || verdict.Status == dlqbench.Pass {
		t.Errorf("%+v, %v", verdict, err)
	}
}
