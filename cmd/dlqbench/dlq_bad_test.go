package main

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/dlqbench/dlqbench/deadletter"
)

// cmdBadLetters implements badletters: it produces malformed dead letters into orders.dlq, partition 0, at offsets in
// the order below.
func cmdBadLetters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: badletters")
	}
	header := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	sealed := func(reason, topic string, offset int64) *kgo.Record {
		record := &kgo.Record{Key: []byte("k"), Value: []byte(`{"pattern":"payment.created"}`)}
		return deadletter.Plain{}.Seal(record, deadletter.Failure{Reason: reason, Attempts: 3, Topic: topic, Offset: offset,
			Time: time.Now()})
	}
	doubled, missing, gone := sealed("connection timed out", "orders", 1), sealed("connection timed out", "orders", 2),
		sealed("connection timed out", "gone", 5)
	doubled.Headers = append([]kgo.RecordHeader{header("offset", "999"), header("source-topic", "elsewhere")},
		doubled.Headers...)
	missing.Headers = missing.Headers[:len(missing.Headers)-2] // offset and epoch
	bytes := deadletter.Plain{}.Seal(&kgo.Record{Key: []byte{0xff, 0}, Value: []byte("\xfe\x00\x80")},
		deadletter.Failure{Reason: "bad byte \xff\x1b[31m", Attempts: 3, Topic: "orders", Offset: 3, Time: time.Now()})
	stack := "java.lang.StackOverflowError\n" + strings.Repeat("\tat org.example.Order.total(Order.java:42)\n", 10<<20/43)
	long := deadletter.Spring{}.Seal(&kgo.Record{Key: []byte("k"), Value: []byte(`{"pattern":"payment.created"}`)},
		deadletter.Failure{Reason: "stack overflow", Class: "java.lang.StackOverflowError", Stack: stack, Attempts: 3,
			Topic: "orders", Offset: 4, Time: time.Now()})
	letters := []*kgo.Record{{Key: []byte("k"), Value: []byte("who wrote this?"),
		Headers: []kgo.RecordHeader{header("h", "1"), header("h", "2")}}, doubled, missing, bytes, long, gone}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(ts.Getenv("KAFKA"), ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(32<<20))
	ts.Check(err)
	defer client.Close()
	for _, letter := range letters {
		letter.Topic, letter.Partition = "orders.dlq", 0
		ts.Check(client.ProduceSync(context.Background(), letter).FirstErr())
	}
}

// cmdSQL implements "sql FILE STATEMENT": it changes the store in a file without going through the program, like
// another tool.
func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0])+"?_pragma=busy_timeout(5000)")
	ts.Check(err)
	defer db.Close()
	_, err = db.ExecContext(context.Background(), args[1])
	ts.Check(err)
}
