package manage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/worker"
)

// View is an entry as it is shown in JSON: the entry of "Dead Letter Queue" (management schema) with the fields that
// "Dead Letter Queue Lifecycle" adds.
type View struct {
	store.Entry
	RetryHistory []Attempt `json:"retryHistory"`
	Record       Record    `json:"record"`
}

// Attempt is one retry by a worker or a person.
type Attempt struct {
	Timestamp time.Time      `json:"timestamp"`
	WorkerID  string         `json:"workerId"`
	Strategy  store.Strategy `json:"strategy,omitempty"`
	Result    string         `json:"result"`
	Error     string         `json:"error,omitempty"`
	// Milliseconds is how long it took.
	Milliseconds float64 `json:"processingDuration"`
}

// Record is the original record; bytes are in base64, as JSON has them.
type Record struct {
	store.Place
	Key     []byte         `json:"key"`
	Value   []byte         `json:"value"`
	Headers []store.Header `json:"headers,omitempty"`
}

// NewView returns the view of an entry.
func NewView(entry store.Entry) View {
	record := Record{entry.Source, entry.Key, entry.Value, entry.Headers}
	view := View{Entry: entry, RetryHistory: []Attempt{}, Record: record}
	for _, attempt := range entry.RetryHistory {
		view.RetryHistory = append(view.RetryHistory, Attempt{attempt.At, attempt.Worker, attempt.Strategy, attempt.Result,
			attempt.Error, float64(attempt.Took) / float64(time.Millisecond)})
	}
	return view
}

// Table writes one line per entry.
func Table(w io.Writer, entries []store.Entry) error {
	table, unknown := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), 0
	fmt.Fprintln(table, "ID\tSTATUS\tTRIES\tNEXT RETRY\tSOURCE\tERROR\tREASON")
	for _, entry := range entries {
		next := "-"
		if !entry.NextRetryAt.IsZero() && entry.State == store.Pending {
			next = entry.NextRetryAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", entry.ID, Line(string(entry.State), 20), entry.DLQRetryCount, next,
			place(entry.Source), Line(entry.Error.Type, 30), Line(entry.Error.Message, 60))
		if entry.Problem() != nil {
			unknown++
		}
	}
	if err := table.Flush(); err != nil || unknown == 0 {
		return err
	}
	_, err := fmt.Fprintf(w,
		"%d with a status that is no word of this store's vocabulary: left alone until somebody sets it right in the table\n",
		unknown)
	return err
}

func place(at store.Place) string {
	return fmt.Sprintf("%s-%d@%d", Line(at.Topic, 80), at.Partition, at.Offset)
}

// Line makes a text fit for one line of a terminal: without control characters, and cut to the maximum number of
// characters. An empty text becomes "-".
func Line(text string, most int) string {
	if text == "" {
		return "-"
	}
	var out strings.Builder
	count := 0
	for _, char := range text {
		if count++; count > most {
			return out.String() + "…"
		}
		if unicode.IsControl(char) || !unicode.IsPrint(char) {
			char = ' '
		}
		out.WriteRune(char)
	}
	return out.String()
}

// maxShown is the maximum number of bytes of a value or a stack trace that Show writes. JSON contains all of it.
const maxShown = 4096

// Show writes all readable fields of one entry.
func Show(w io.Writer, entry store.Entry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, Line(value, 400))
		}
	}
	row("id", entry.ID)
	row("status", string(entry.State))
	row("source", place(entry.Source))
	row("dead letter", fmt.Sprintf("%s (%s)", place(entry.Letter), entry.Dialect))
	row("event", strings.TrimSpace(entry.Pattern+" "+entry.EventID))
	row("service", entry.Service)
	row("subscriber", entry.SubscriberID)
	row("error", strings.TrimSpace(entry.Error.Type+" "+entry.Error.Code))
	row("reason", entry.Error.Message)
	first := firstError(entry)
	row("first error", strings.TrimSpace(first.Type+" "+first.Code))
	row("first reason", first.Message)
	row("tried", fmt.Sprintf("%d× before, %d× since it is here", entry.RetryCount, entry.DLQRetryCount))
	row("strategy", string(entry.Strategy))
	row("next retry", moment(entry.NextRetryAt))
	if entry.LockedBy != "" {
		row("locked", fmt.Sprintf("by %s since %s, until %s", entry.LockedBy, moment(entry.LockedAt),
			moment(entry.LeaseUntil)))
	}
	if entry.Resolution.How != "" {
		row("resolution", strings.TrimSpace(fmt.Sprintf("%s by %s, %s  %s", entry.Resolution.How,
			Line(entry.Resolution.By, 80), moment(entry.Resolution.At), entry.Resolution.Notes)))
	}
	row("created", moment(entry.CreatedAt))
	row("updated", moment(entry.UpdatedAt))
	row("key", bytesText(entry.Key))
	for _, header := range entry.Headers {
		row("header "+Line(header.Key, 60), bytesText(header.Value))
	}
	for _, attempt := range entry.RetryHistory {
		row("retry "+moment(attempt.At), fmt.Sprintf("%s by %s (%s, %s) %s", attempt.Result, attempt.Worker, attempt.Strategy,
			attempt.Took.Round(time.Millisecond), attempt.Error))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	block(w, "value", bytesText(entry.Value))
	block(w, "stack", cmp.Or(entry.Error.Stack, first.StackTrace))
	return nil
}

// firstError is the error for which the record was dead-lettered, if a retry has failed with another error since.
func firstError(entry store.Entry) worker.FirstError {
	var said worker.LetterContext
	if json.Unmarshal(entry.Error.Context, &said) != nil || said.FirstError == nil {
		return worker.FirstError{}
	}
	return *said.FirstError
}

func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// bytesText returns bytes as text if they are text, otherwise their number.
func bytesText(data []byte) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("%d bytes that are no text (--json has them in base64)", len(data))
	}
	return string(data)
}

// block writes a longer text under its name.
func block(w io.Writer, name, text string) {
	if text == "" {
		return
	}
	more := ""
	if len(text) > maxShown {
		more = fmt.Sprintf("\n  … %d bytes in all (--json has them)", len(text))
		text = strings.ToValidUTF8(text[:maxShown], "")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "  " + Line(line, maxShown)
		}
	}
	fmt.Fprintf(w, "%s\n%s%s\n", name, strings.Join(lines, "\n"), more)
}

// Statistics are a store's counts as they are shown in JSON.
type Statistics struct {
	ByStatus    map[store.State]int64 `json:"byStatus"`
	ByErrorType map[string]int64      `json:"byErrorType"`
	Resolutions map[string]int64      `json:"resolutions"`
	Oldest      time.Time             `json:"oldestPending,omitzero"`
	// Seconds is the mean time from creation to resolution.
	Seconds float64 `json:"meanSecondsInDLQ"`
}

// NewStatistics returns the view of the counts.
func NewStatistics(stats store.Stats) Statistics {
	return Statistics{stats.ByState, stats.ByErrorType, stats.Resolutions, stats.Oldest, stats.MeanInDLQ.Seconds()}
}
