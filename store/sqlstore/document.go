package sqlstore

import (
	"encoding/json"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// attemptRow is an element of retry_history: the management schema's, and what "Dead Letter Queue Lifecycle" has in
// replayAttempts.
type attemptRow struct {
	Timestamp string        `json:"timestamp"`
	Error     *attemptError `json:"error,omitempty"`
	// Duration is processingDuration, in milliseconds.
	Duration float64        `json:"processingDuration"`
	Worker   string         `json:"workerId,omitempty"`
	Strategy store.Strategy `json:"strategy,omitempty"`
	Result   string         `json:"result,omitempty"`
}

type attemptError struct {
	Message string `json:"message"`
}

func attemptsJSON(all []store.Attempt) string {
	rows := make([]attemptRow, len(all))
	for i, attempt := range all {
		rows[i] = attemptRow{
			Timestamp: attempt.At.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano),
			Duration:  float64(attempt.Took.Microseconds()) / 1000,
			Worker:    store.EncodeText(attempt.Worker), Strategy: store.Strategy(store.EncodeText(string(attempt.Strategy))),
			Result: store.EncodeText(attempt.Result),
		}
		if attempt.Error != "" {
			rows[i].Error = &attemptError{store.EncodeText(attempt.Error)}
		}
	}
	return encode(rows)
}

func attempts(kept []byte) ([]store.Attempt, error) {
	var rows []attemptRow
	if err := json.Unmarshal(kept, &rows); err != nil || len(rows) == 0 {
		return nil, err
	}
	all := make([]store.Attempt, len(rows))
	for i, row := range rows {
		at, err := time.Parse(time.RFC3339Nano, row.Timestamp)
		if err != nil {
			return nil, err
		}
		all[i] = store.Attempt{
			At: at, Worker: store.DecodeText(row.Worker), Strategy: row.Strategy, Result: row.Result,
			Took: time.Duration(row.Duration*1000+0.5) * time.Microsecond,
		}
		if row.Error != nil {
			all[i].Error = store.DecodeText(row.Error.Message)
		}
	}
	return all, nil
}

func headersJSON(all []store.Header) string {
	rows := make([]store.Header, len(all))
	for i, header := range all {
		rows[i] = store.Header{Key: store.EncodeText(header.Key), Value: header.Value}
	}
	return encode(rows)
}

func headersOf(kept []byte) ([]store.Header, error) {
	var all []store.Header
	if err := json.Unmarshal(kept, &all); err != nil || len(all) == 0 {
		return nil, err
	}
	for i := range all {
		all[i].Key = store.DecodeText(all[i].Key)
	}
	return all, nil
}

func tagsJSON(all []string) string {
	rows := make([]string, len(all))
	for i, tag := range all {
		rows[i] = store.EncodeText(tag)
	}
	return encode(rows)
}

func tagsOf(kept []byte) ([]string, error) {
	var rows []string
	if err := json.Unmarshal(kept, &rows); err != nil || len(rows) == 0 {
		return nil, err
	}
	for i, row := range rows {
		rows[i] = store.DecodeText(row)
	}
	return rows, nil
}

// document is JSON that a database accepts, or NULL if there is none.
func document(value json.RawMessage) any {
	if len(value) == 0 {
		return nil
	}
	return string(store.OriginalEvent(value, "", ""))
}

// encode encodes rows of texts and numbers, which always have a JSON form.
func encode(rows any) string {
	out, err := json.Marshal(rows)
	if err != nil {
		return "[]"
	}
	return string(out)
}
