package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/embedded"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
)

// cmdKafka implements "kafka TOPIC…": it starts the embedded Kafka with these topics and puts its address into the
// environment as KAFKA. Plain kfake does not suffice, because scripts kill routers: in kfake a member that is killed
// while it waits in JoinGroup stays in its group for ever, with the partitions that the next leader assigns to it
// (internal/env/cluster/embedded fixes that).
func cmdKafka(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: kafka TOPIC…")
	}
	kafka, err := embedded.Start(context.Background(), embedded.Options{Brokers: 1, Dir: ts.MkAbs("kafka"),
		Log: zerolog.Nop()})
	ts.Check(err)
	ts.Defer(func() { ts.Check(kafka.Close()) })
	var topics []cluster.Topic
	for _, name := range args {
		topics = append(topics, cluster.Topic{Name: name, Partitions: 2})
	}
	ts.Check(kafka.CreateTopics(context.Background(), topics))
	ts.Setenv("KAFKA", strings.Join(kafka.Bootstrap(), ","))
}

// cmdLetters implements "letters FIRST COUNT PATTERN REASON": it produces dead letters of the topic orders into
// orders.dlq, in the plain dialect, with events named PATTERN.
func cmdLetters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: letters FIRST COUNT PATTERN REASON")
	}
	first, err := strconv.Atoi(args[0])
	ts.Check(err)
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(ts.Getenv("KAFKA"), ",")...))
	ts.Check(err)
	defer client.Close()
	for i := first; i < first+count; i++ {
		record := &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"id":"o%d","pattern":%q}`, i,
			args[2])}
		letter := deadletter.Plain{}.Seal(record, deadletter.Failure{Reason: args[3], Attempts: 3, Topic: "orders",
			Offset: int64(i), Time: time.Now()})
		letter.Topic = "orders.dlq"
		client.Produce(context.Background(), letter, func(_ *kgo.Record, err error) { ts.Check(err) })
	}
	ts.Check(client.Flush(context.Background()))
}

// cmdTopic implements "topic NAME COUNT": the topic must contain COUNT committed values, each once.
func cmdTopic(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: topic NAME COUNT")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	records, err := kafkatest.Committed(context.Background(), strings.Split(ts.Getenv("KAFKA"), ","), args[0])
	ts.Check(err)
	values := map[string]int{}
	for _, record := range records {
		values[string(record.Value)]++
	}
	for value, n := range values {
		if n != 1 {
			ts.Fatalf("%s is in %s %d times", value, args[0], n)
		}
	}
	if len(values) != want {
		ts.Fatalf("%s has %d values, want %d", args[0], len(values), want)
	}
}

// cmdAwait implements "await PATTERN COMMAND [ARG…]": it repeats a command until its output matches, for at most two
// minutes.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND [ARG…]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		command := scriptCommand(ts, args[1:])
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, &out
		err := command.Run()
		if err == nil && pattern.Match(out.Bytes()) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v: its output never matched %s: %v\n%s", args[1:], args[0], err, out.String())
		}
	}
}

// cmdKilled implements "killed DURATION COMMAND [ARG…]": it runs a command and kills it with SIGKILL after the
// duration, unless it ends before.
func cmdKilled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: killed DURATION COMMAND [ARG…]")
	}
	after, err := time.ParseDuration(args[0])
	ts.Check(err)
	command := scriptCommand(ts, args[1:])
	ts.Check(command.Start())
	timer := time.AfterFunc(after, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	_ = command.Wait() // killed, or finished earlier
}

// scriptCommand returns a command that runs in the script's folder and environment.
func scriptCommand(ts *testscript.TestScript, args []string) *exec.Cmd {
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	command := exec.Command(path, args[1:]...)
	command.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "DLQBENCH_STORE_URL", "DLQBENCH_BOOTSTRAP_SERVERS",
		raceSettings} {
		command.Env = append(command.Env, name+"="+ts.Getenv(name))
	}
	return command
}
