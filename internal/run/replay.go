package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/subject"
)

// replay replays the dead letters whose cause is planned to be gone, and waits until the records are done. The
// replay tool runs as a separate process with its own tap.
func (r *run) replay(ctx context.Context) error {
	if r.scenario.Replay == nil {
		return nil
	}
	if r.header.Graph != nil {
		return r.replayGraph(ctx)
	}
	r.enter(history.PhaseReplay)
	selected, err := r.selectDeadLetters(ctx)
	if err != nil {
		return environment("reading the dead letters", err)
	}
	if len(selected) == 0 {
		r.options.Log.Warn().Msg("no dead letter is planned to be healed, so the replay has nothing to do")
		return nil
	}
	if err := r.putBack(ctx, selected); err != nil {
		return err
	}
	return r.drain(ctx)
}

// putBack runs the replay tool for the selected records' dead letters.
func (r *run) putBack(ctx context.Context, selected []int32) error {
	ids, err := r.writeIDs(fileIDs, selected)
	if err != nil {
		return environment("writing the ids to replay", err)
	}
	if r.replayTap == "" {
		if r.replayTap, err = r.tap.Open(history.Replayer); err != nil {
			return environment("opening the tap of the replay tool", err)
		}
	}
	tools, err := r.replayTools(r.replayTap, ids)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, r.replayLimit(len(selected)))
	defer cancel()
	for _, tool := range tools {
		r.tap.BeginRun(history.Replayer, r.replays)
		r.replays++
		if err := r.subject.RunTool(bounded, "replay", tool); err != nil && ctx.Err() == nil {
			return environment("replaying the dead letters", err)
		}
	}
	return nil
}

// replayTools returns the launches that replay the dead letters: the subject's own tool if it has one, else this
// program's for each dead-letter topic.
func (r *run) replayTools(bootstrap, ids string) ([]subject.Launch, error) {
	if r.options.Subject != nil && r.options.Subject.Replay.Command != nil {
		values := r.values
		values.TellBrokers(bootstrap)
		values.IDsFile, values.ReplayRate = ids, r.replayRate()
		rendered, err := r.options.Subject.Render(values)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", r.options.SubjectFile, err)
		}
		return []subject.Launch{{
			Command: rendered.Replay.Command, Dir: r.subjectDir(),
			Env: append(environ(values.Environment()), environ(rendered.Env)...),
		}}, nil
	}
	if r.scenario.Store != nil {
		return []subject.Launch{r.storeReplay(bootstrap)}, nil
	}
	dialect := []string{"--dialect", cmp.Or(r.header.Contract().Envelope, deadletter.RawName)}
	if named, err := r.dialect(); err != nil || named == nil || named.Traits().NoTopic {
		dialect = append(dialect, "--to", cmp.Or(r.header.Consumers[0].ReplayTo, r.topic(history.RoleInput)))
	}
	var tools []subject.Launch
	for _, name := range slices.Sorted(maps.Keys(r.foreign)) {
		dialect = append(dialect, "--drop-header", name)
	}
	for _, letters := range r.topicsOf(history.RoleDLQ) {
		tools = append(tools, r.replayLaunch(bootstrap, letters, ids, dialect...))
	}
	return tools, nil
}

// noteForeign notes the headers that the consumer has added to a dead letter, unless the contract names all of them. A
// replay leaves them out: one of them may count attempts, and the record would have none left.
func (r *run) noteForeign(letter *kgo.Record) {
	if r.header.Contract().NamesAllHeaders() {
		return
	}
	if r.foreign == nil {
		r.foreign = map[string]bool{}
	}
	own := r.ownHeaders()
	for _, header := range letter.Headers {
		if !own(header.Key) {
			r.foreign[header.Key] = true
		}
	}
}

// replayLimit returns the time limit of the replay tool.
func (r *run) replayLimit(letters int) time.Duration {
	return 20*time.Second + 2*time.Duration(float64(letters)/r.scenario.Replay.Rate.PerSecond()*float64(time.Second))
}

// replayRate is how many dead letters a replay tool is to put back a second.
func (r *run) replayRate() string {
	return strconv.FormatFloat(r.scenario.Replay.Rate.PerSecond(), 'f', -1, 64)
}

// selectDeadLetters audits the DLQ and selects every dead letter whose record is planned to succeed after a replay. It
// selects all copies, because a legitimate duplicate is replayed like any other dead letter.
func (r *run) selectDeadLetters(ctx context.Context) ([]int32, error) {
	var records []int32
	if r.scenario.Store != nil {
		r.store.waiting, r.store.selected = r.store.watcher.Waiting(), nil
	}
	err := r.auditDeadLetters(ctx, func(letter *kgo.Record, found history.Event) {
		if found.Record < 0 || found.Flags.Has(history.Repeated) || !r.plan.Records[found.Record].Healed ||
			!r.waiting(found.Record) || r.options.Manual.hasReplayed(found.Record) {
			return
		}
		r.noteForeign(letter)
		r.selectLetter(0, found)
		records = append(records, found.Record)
	})
	return records, err
}

// selectLetter records that a dead letter is replayed. The attempts of its record are answered as planned for then.
func (r *run) selectLetter(stub int, found history.Event) {
	event := history.New(history.KindReplaySelected, r.clock.Now())
	event.Record, event.Topic, event.Partition, event.Offset = found.Record, found.Topic, found.Partition, found.Offset
	r.live.Record(event)
	r.stubs.list[stub].SetReplayed(found.Record)
}

// replayLaunch returns the launch of the replay tool for one dead-letter topic.
func (r *run) replayLaunch(bootstrap string, letters int16, ids string, more ...string) subject.Launch {
	command := r.options.ReplayCommand
	if command == nil {
		command = []string{r.options.Executable, "replay"}
	}
	return subject.Launch{
		Command: slices.Concat(command, []string{"--bootstrap", bootstrap, "--from", r.header.Topics[letters].Name,
			"--ids", ids, "--rate", r.replayRate() + "/s"}, more),
		Env: environ(r.values.Security()),
	}
}

// writeIDs writes the ids of the records to replay to a file of the run, one per line, and returns its absolute path,
// because a tool of the subject's runs in its own folder.
func (r *run) writeIDs(name string, records []int32) (string, error) {
	var text strings.Builder
	for _, record := range records {
		text.WriteString(r.ids.Token(record))
		text.WriteByte('\n')
	}
	path, err := filepath.Abs(r.dir.file(name))
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text.String()), 0o644)
}
