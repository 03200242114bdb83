package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/security"
	"github.com/dlqbench/dlqbench/reports"
)

// inspectFlags are the flags of `dlqbench inspect`.
type inspectFlags struct {
	bootstrap, topic, where, dialect string
	json                             bool
	limit                            int
}

func (a *app) inspectCommand() *cobra.Command {
	flags := inspectFlags{}
	command := &cobra.Command{
		Use: "inspect", Short: "Decode and show the dead letters in a topic", Args: noArgs,
		Long: strings.TrimSpace(`
Read a topic to its current end and show each dead letter as a line of a table, or with --json as one line of JSON
with all its contents. Nothing is changed.

The dialect of each dead letter is detected unless --dialect names it; one that matches none is shown as raw. As for
replay, --where is an expression over topic, partition, offset, key, value, headers, reason, class, attempts, service,
group, dialect, source and timestamp.`),
		Example: `  dlqbench inspect --bootstrap localhost:9092 --topic orders.dlq
  dlqbench inspect --bootstrap localhost:9092 --topic dlq --where 'service == "billing" && reason contains "timeout"' --json`,
		RunE: func(command *cobra.Command, _ []string) error { return a.inspect(command, flags) },
	}
	flags.add(command.Flags())
	return command
}

func (i *inspectFlags) add(f *pflag.FlagSet) {
	f.StringVar(&i.bootstrap, "bootstrap", "", "brokers, comma-separated (required)")
	f.StringVar(&i.topic, "topic", "", "dead-letter topic (required)")
	f.StringVar(&i.where, "where", "", "show only dead letters for which this expression is true")
	f.StringVar(&i.dialect, "dialect", "", "dialect of the dead letters: "+strings.Join(deadletter.Names(), ", ")+
		" (default: detected for each)")
	f.BoolVar(&i.json, "json", false, "print one JSON object per line, with key, value and headers")
	f.IntVar(&i.limit, "limit", 0, "maximum number of dead letters (0: no limit)")
}

func (a *app) inspect(command *cobra.Command, flags inspectFlags) error {
	config, err := flags.config()
	if err != nil {
		return usageError{err}
	}
	show, raw := a.showRow, 0
	if flags.json {
		show = a.showJSON
	} else {
		fmt.Fprintln(a.stdout, row("LETTER", "TIME", "DIALECT", "SOURCE", "ATTEMPTS", "CLASS", "REASON"))
	}
	config.OnLetter = func(letter, _ *kgo.Record) {
		name, opener := flags.dialect, config.Dialect
		if name == "" {
			name, opener = deadletter.Detect(letter)
		}
		if name == deadletter.RawName {
			raw++
		}
		failure, missing := opener.Open(letter)
		show(letter, name, failure, missing)
	}
	result, err := deadletter.Run(command.Context(), config)
	var wrong *deadletter.ConfigError
	switch {
	case errors.As(err, &wrong):
		return usageError{err}
	case command.Context().Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("inspecting %s on %s: %w", flags.topic, flags.bootstrap, err)
	}
	if !flags.json {
		fmt.Fprintf(a.stdout, "%d dead letters read, %d shown, %d of them raw\n", result.Read, result.Selected, raw)
	}
	if result.Unreadable > 0 {
		return unreadable(flags.topic, result)
	}
	return nil
}

// config is the configuration that the flags define: a replay that writes neither records nor progress.
func (i *inspectFlags) config() (deadletter.Config, error) {
	config := deadletter.Config{
		Bootstrap: strings.Split(i.bootstrap, ","), From: i.topic, Where: i.where, Limit: i.limit,
		Dialect: deadletter.Detected{}, DryRun: true, FromStart: true,
	}
	if i.bootstrap == "" || i.topic == "" {
		return config, errors.New("inspect needs --bootstrap and --topic: the brokers, and the dead-letter topic")
	}
	if i.limit < 0 {
		return config, fmt.Errorf("--limit %d: it can't be negative", i.limit)
	}
	var err error
	if config.Options, err = security.FromEnvironment(os.LookupEnv); err != nil {
		return config, err
	}
	if i.dialect != "" {
		dialect, err := deadletter.Named(i.dialect)
		if err != nil {
			return config, err
		}
		config.Dialect = dialect
	}
	return config, nil
}

// row is a line of the table. A cell that is too long shifts the others. The callers limit the length of cells.
func row(cells ...string) string {
	return fmt.Sprintf("%-10s  %-20s  %-22s  %-20s  %-8s  %-24s  %s", cells[0], cells[1], cells[2], cells[3], cells[4],
		cells[5], cells[6])
}

// These are the maximum lengths of cells in characters: names and classes, and the text at the end.
const (
	cellLimit = 48
	textLimit = 100
)

func (a *app) showRow(letter *kgo.Record, dialect string, failure deadletter.Failure, missing []string) {
	source, attempts, text := "–", "–", failure.Reason
	if failure.Topic != "" {
		source = reports.Visible(failure.Topic, cellLimit)
		if failure.Partition >= 0 && failure.Offset >= 0 {
			source += fmt.Sprintf("-%d@%d", failure.Partition, failure.Offset)
		}
	}
	if failure.Attempts > 0 {
		attempts = fmt.Sprint(failure.Attempts)
	}
	if dialect == deadletter.RawName {
		text = "value " + string(letter.Value[:min(len(letter.Value), 4*textLimit)])
		if letter.Value == nil {
			text = "no value"
		}
	}
	text = reports.Visible(text, textLimit)
	if len(missing) > 0 {
		text += " (lacks " + strings.Join(missing, ", ") + ")"
	}
	fmt.Fprintln(a.stdout, row(fmt.Sprintf("%d@%d", letter.Partition, letter.Offset), instant(letter.Timestamp), dialect,
		source, attempts, reports.Visible(failure.Class, cellLimit), text))
}

func instant(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// deadLetterJSON is a dead letter as JSON: what it is and holds, and what it says.
type deadLetterJSON struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp time.Time    `json:"timestamp"`
	Dialect   string       `json:"dialect"`
	Missing   []string     `json:"missing,omitempty"`
	Failure   failureJSON  `json:"failure"`
	Key       bytesJSON    `json:"key"`
	Value     bytesJSON    `json:"value"`
	Headers   []headerJSON `json:"headers"`
}

type headerJSON struct {
	Name  string    `json:"name"`
	Value bytesJSON `json:"value"`
}

// failureJSON leaves out what the dead letter does not say.
type failureJSON struct {
	deadletter.Failure
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
	Epoch     *int32 `json:"epoch,omitempty"`
	// Context is an object.
	Context json.RawMessage `json:"context,omitempty"`
}

func newFailureJSON(f deadletter.Failure) failureJSON {
	f.Time, f.SourceTime = f.Time.UTC(), f.SourceTime.UTC()
	out := failureJSON{Failure: f}
	if f.Context != "" {
		out.Context = json.RawMessage(f.Context)
	}
	if f.Partition >= 0 {
		out.Partition = &f.Partition
	}
	if f.Offset >= 0 {
		out.Offset = &f.Offset
	}
	if f.Epoch >= 0 {
		out.Epoch = &f.Epoch
	}
	return out
}

// bytesJSON is encoded as null, as a text or, if it is not UTF-8, as {"base64": "…"}.
type bytesJSON []byte

// MarshalJSON implements json.Marshaler.
func (b bytesJSON) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{b})
}

func (a *app) showJSON(letter *kgo.Record, dialect string, failure deadletter.Failure, missing []string) {
	line := deadLetterJSON{
		Topic: letter.Topic, Partition: letter.Partition, Offset: letter.Offset, Timestamp: letter.Timestamp.UTC(),
		Dialect: dialect, Missing: missing,
		Failure: newFailureJSON(failure), Key: letter.Key, Value: letter.Value,
		Headers: make([]headerJSON, 0, len(letter.Headers)),
	}
	for _, header := range letter.Headers {
		line.Headers = append(line.Headers, headerJSON{header.Key, header.Value})
	}
	text, err := json.Marshal(line)
	if err != nil {
		text = fmt.Appendf(nil, `{"topic":%q,"partition":%d,"offset":%d,"error":%q}`, letter.Topic, letter.Partition,
			letter.Offset, err)
	}
	_, _ = a.stdout.Write(append(printable(text), '\n'))
}

// printable escapes the characters that JSON may contain unescaped but that a terminal would act on or not show. They
// occur only in JSON strings.
func printable(text []byte) []byte {
	hidden := func(char rune) bool { return char != ' ' && !unicode.IsPrint(char) }
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var out []byte
	for _, char := range string(text) {
		switch {
		case !hidden(char):
			out = utf8.AppendRune(out, char)
		case char > 0xffff:
			high, low := utf16.EncodeRune(char)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, char)
		}
	}
	return out
}
