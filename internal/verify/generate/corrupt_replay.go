package generate

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func outageCorruptions() []Corruption {
	halt := func(anomaly string) Promise { return Promise{"halt-on-dlq-failure", anomaly} }
	return []Corruption{
		{
			Name: "a commit while no dead letter can be written", Promise: halt("commit-advanced-while-dlq-down"), apply: leak,
			Also:  []Promise{{"commit-after-dlq", "commit-before-dlq"}},
			About: "a commit past a record whose dead letter is outstanding is made before that is acknowledged",
		},
		{Name: "nobody logs a long outage", Promise: halt("failure-not-surfaced"), apply: silence},
	}
}

func replayCorruptions() []Corruption {
	back := func(anomaly string) Promise { return Promise{"replay-round-trip", anomaly} }
	return []Corruption{
		{Name: "a selected dead letter is not written back", Promise: back("replay-lost"), apply: notReplayed},
		{Name: "a dead letter is written back twice", Promise: back("replay-duplicated"), apply: replayedTwice},
		{Name: "what is written back has another value", Promise: back("replay-altered"), apply: altered},
		{Name: "what is written back keeps the failure headers", Promise: back("replay-altered"), apply: keptHeaders},
		{Name: "a dead letter is written back to another topic", Promise: back("replay-wrong-topic"), apply: wrongTopic},
		{Name: "the next dead letter is larger", Promise: back("envelope-grew"), apply: grown},
		{Name: "what is written back was not selected", Promise: back("selected-wrong"), apply: unselected},
	}
}

// outstanding reports whether a quietly processed record lacks only its dead letter while no dead letter is
// acknowledged, and until when.
func (v *view) outstanding(f *facts) (to time.Duration, holds bool) {
	if v.trouble || f.acked == none || f.fetched == none || len(f.letters) < 4 || !v.inPlace() || len(f.selected) > 0 {
		return 0, false
	}
	at := v.home(f)
	if v.changes[at] != 1 || v.refused[at] > 0 || v.exited[v.Events[f.fetched].Instance] {
		return 0, false
	}
	from := v.time(f.letters[0].ask)
	to = from
	for _, one := range f.letters[:len(f.letters)-1] {
		if one.answer == none || v.Events[one.answer].Code == 0 {
			return 0, false
		}
		to = v.time(one.answer)
	}
	for _, other := range v.records {
		for _, one := range other.letters {
			if one.answer != none && v.Events[one.answer].Code == 0 && v.time(one.answer) >= from && v.time(one.answer) <= to {
				return 0, false
			}
		}
	}
	return to, to-from >= 210*ms
}

func leak(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		to, holds := v.outstanding(f)
		_, found := v.covering(f)
		return holds && found && v.front(f, to-brief) && !v.mayEnd(f)
	})
	if f == nil {
		return none, false
	}
	to, _ := v.outstanding(f)
	return v.commitPast(f, to-brief)
}

func silence(v *view) (int32, bool) {
	b := v.Header.Contract().Backoff
	patience := time.Duration(0)
	for k := 1; k < max(v.Header.Contract().MaxAttempts, 3); k++ {
		patience += b.Wait(k) + b.Jitter + b.Late
	}
	long := slices.ContainsFunc(v.records, func(f *facts) bool {
		to, holds := v.outstanding(f)
		if f.send == none || !holds {
			return false
		}
		// The failure is known from the first answer on. The same process made the last two requests.
		known, code := to-v.time(f.letters[0].answer)-200*ms, v.Events[f.letters[0].answer].Code
		within := v.Header.Contract().SurfacedWithin
		return within > 0 && known > within || code == 29 && known > max(3*time.Second, 2*patience)
	})
	if !long || len(v.exited) > 0 {
		return none, false
	}
	v.Events = slices.DeleteFunc(v.Events, func(e history.Event) bool {
		unrelated := e.Code == groupError && !strings.Contains(e.Text, "generated.dlq")
		return e.Kind == history.KindSubjectError && !unrelated || e.Kind == history.KindSubjectHealth
	})
	return none, true
}

// sentBack reports whether the record's dead letter was replayed exactly once and without disturbance.
func (v *view) sentBack(f *facts) bool {
	return v.Calm && v.inPlace() && len(f.replays) == 1 && len(f.selected) == 1 &&
		f.replays[0].answer != none && len(f.asCopy) == 1
}

func notReplayed(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.Calm && v.inPlace() && len(f.asDeadLetter) == 1 && len(f.selected) == 0 })
	if f == nil || !v.Header.Replay {
		return none, false
	}
	letter := &v.Events[f.asDeadLetter[0]]
	e := history.New(history.KindReplaySelected, v.phase(history.PhaseReplay)+ms)
	e.Record, e.Topic, e.Partition, e.Offset = letter.Record, letter.Topic, letter.Partition, letter.Offset
	v.add(e)
	return about(f)
}

func replayedTwice(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if !v.sentBack(f) {
			return false
		}
		at := v.time(f.replays[0].answer) + 3*brief
		back := &v.Events[f.replays[0].answer]
		copied := deadLetterAt{spot{back.Topic, back.Partition}, back.Offset}
		between := func(ask int) bool { return v.time(ask) > v.time(f.replays[0].ask) && v.time(ask) <= at }
		asked := func(one pair) bool { return between(one.ask) }
		// What can't be read is dead-lettered without an attempt: then the first copy is over when the second is written.
		return !slices.ContainsFunc(f.attempts, asked) && !slices.ContainsFunc(f.letters, asked) &&
			!slices.ContainsFunc(v.unnamedAt(copied), between)
	})
	if f == nil {
		return none, false
	}
	one := f.replays[0]
	at := v.time(one.answer)
	ask, answer, found := v.again(one.ask, at+brief), v.again(one.answer, at+2*brief), v.Events[f.asCopy[0]]
	end := v.offsets(spot{found.Topic, found.Partition})
	ask.Op, ask.Sequence = v.freshOp(), 1<<20
	answer.Op, answer.Sequence = ask.Op, ask.Sequence
	answer.Offset, found.Offset = end.Offset, end.Offset
	commits := v.commits[spot{found.Topic, found.Partition}]
	if len(commits) == 0 {
		return none, false
	}
	last := commits[len(commits)-1]
	end.Offset++
	end.Aux = end.Offset
	v.add(ask, answer, found)
	v.commitAt(last.ask, v.Events[last.ask].Instance, end.Offset, v.phase(history.PhaseAudit)-brief)
	return about(f)
}

func altered(v *view) (int32, bool) {
	f := v.chosen(v.sentBack)
	if f != nil {
		v.Events[f.asCopy[0]].ValueHash++
	}
	return about(f)
}

func keptHeaders(v *view) (int32, bool) {
	f := v.chosen(v.sentBack)
	if f != nil {
		v.Events[f.asCopy[0]].Flags |= history.FailureHeaders
	}
	return about(f)
}

func wrongTopic(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.sentBack(f) && len(f.asDeadLetter) == 1 })
	if f == nil {
		return none, false
	}
	for _, i := range []int{f.replays[0].ask, f.replays[0].answer, f.asCopy[0]} {
		v.Events[i].Topic = retryTopic
	}
	return about(f)
}

func grown(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return tellsSome(v) && v.sentBack(f) && len(f.asDeadLetter) == 2 && len(f.letters) == 2 &&
			v.time(f.letters[1].ask) > v.time(f.replays[0].ask)
	})
	if f == nil {
		return none, false
	}
	for _, i := range f.asDeadLetter {
		if e := &v.Events[i]; e.Offset == v.Events[f.letters[1].answer].Offset &&
			e.Partition == v.Events[f.letters[1].answer].Partition {
			e.HeaderCount += 5
		}
	}
	return about(f)
}

func unselected(v *view) (int32, bool) {
	f := v.chosen(v.sentBack)
	if f != nil {
		v.remove(f.selected...)
	}
	return about(f)
}
