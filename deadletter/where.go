package deadletter

import (
	"fmt"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// letterFacts are the names that a Where expression can use.
type letterFacts struct {
	Topic     string            `expr:"topic"`
	Partition int32             `expr:"partition"`
	Offset    int64             `expr:"offset"`
	Key       string            `expr:"key"`
	Value     string            `expr:"value"`
	Headers   map[string]string `expr:"headers"`
	Reason    string            `expr:"reason"`
	Class     string            `expr:"class"`
	Attempts  int32             `expr:"attempts"`
	Service   string            `expr:"service"`
	Group     string            `expr:"group"`
	Dialect   string            `expr:"dialect"`
	Source    sourceFacts       `expr:"source"`
	Timestamp time.Time         `expr:"timestamp"`
}

type sourceFacts struct {
	Topic     string `expr:"topic"`
	Partition int32  `expr:"partition"`
	Offset    int64  `expr:"offset"`
}

// filter decides which dead letters are replayed.
type filter struct {
	program *vm.Program
	opener  Opener
}

// compileWhere compiles the expression. Its error shows the position. "" selects everything.
func compileWhere(where string, opener Opener) (filter, error) {
	if where == "" {
		return filter{}, nil
	}
	program, err := expr.Compile(where, expr.Env(letterFacts{}), expr.AsBool())
	if err != nil {
		return filter{}, fmt.Errorf("compiling the filter %q (it may use topic, partition, offset, key, value, headers, "+
			"reason, class, attempts, service, group, dialect, source.topic, source.partition, source.offset, timestamp): %w",
			where, err)
	}
	return filter{program: program, opener: opener}, nil
}

func (f filter) selects(letter *kgo.Record) (bool, error) {
	if f.program == nil {
		return true, nil
	}
	failure, _ := f.opener.Open(letter)
	dialect, _ := Detect(letter)
	headers := make(map[string]string, len(letter.Headers))
	for _, header := range letter.Headers {
		headers[header.Key] = string(header.Value)
	}
	out, err := expr.Run(f.program, letterFacts{
		Topic: letter.Topic, Partition: letter.Partition, Offset: letter.Offset,
		Key: string(letter.Key), Value: string(letter.Value), Headers: headers,
		Reason: failure.Reason, Class: failure.Class, Attempts: failure.Attempts, Service: failure.Service,
		Group: failure.Group, Dialect: dialect, Timestamp: letter.Timestamp,
		Source: sourceFacts{Topic: failure.Topic, Partition: failure.Partition, Offset: failure.Offset},
	})
	if err != nil {
		return false, fmt.Errorf("evaluating the filter for the dead letter at %s: %w", position(letter), err)
	}
	selected, _ := out.(bool) // AsBool ensured the type at compile time
	return selected, nil
}

func position(record *kgo.Record) string {
	return fmt.Sprintf("%s/%d@%d", record.Topic, record.Partition, record.Offset)
}
