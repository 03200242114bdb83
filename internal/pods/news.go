package pods

// This file has what the coordinator says in its log to the command that started the run.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// News is a line of the coordinator's log that is meant for the command.
type News struct {
	// Env are the environment variables of the consumer's pods, which can be created now.
	Env map[string]string `json:"env,omitempty"`
	// Delete is a pod that is to be deleted or evicted. The command answers with Deleted.
	Delete string `json:"delete,omitempty"`
	// Progress is a snapshot of the run.
	Progress json.RawMessage `json:"progress,omitempty"`
	// Done is how the run ended.
	Done *Done `json:"done,omitempty"`
}

// Done is how a run ended in the coordinator.
type Done struct {
	// Version is that of the coordinator's dlqbench.
	Version string `json:"version"`
	// Dir is the run directory there, "" if there is none.
	Dir string `json:"dir,omitempty"`
	// Judged says that there is a verdict. Interrupted says that the run was ended early.
	Judged      bool `json:"judged,omitempty"`
	Interrupted bool `json:"interrupted,omitempty"`
	// Error is a failure outside the consumer.
	Error string `json:"error,omitempty"`
}

// ProgressOf is the news of a snapshot.
func ProgressOf(snapshot any) (n News, err error) {
	n.Progress, err = json.Marshal(snapshot)
	return n, err
}

// newsMark begins a line with news. Nothing else that a coordinator prints does.
const newsMark = "dlqbench-news-1 "

// Write writes the news as a line.
func (n News) Write(w io.Writer) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing what the coordinator says: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", newsMark, text)
	return err
}

// readNews reads a line of the log.
func readNews(line string) (n News, is bool) {
	text, is := strings.CutPrefix(line, newsMark)
	return n, is && json.Unmarshal([]byte(text), &n) == nil
}
