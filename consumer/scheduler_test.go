package consumer

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelTask is a task of the reference model, which keeps a list and searches it.
type modelTask struct {
	*task
	lane    uint64
	ordered bool
	state   string // fresh, active, timed, due
}

// TestTheSchedulerAgreesWithANaiveModel: fresh tasks in order of arrival, due ones before them, never two of a lane
// at a time.
func TestTheSchedulerAgreesWithANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScheduler()
		homes := []*partition{{at: TopicPartition{Partition: 0}}, {at: TopicPartition{Partition: 1}}}
		var model []*modelTask // unfinished, in order of arrival
		now := time.Unix(0, 0)
		find := func(t *task) *modelTask {
			return model[slices.IndexFunc(model, func(m *modelTask) bool { return m.task == t })]
		}
		heads := func(m *modelTask) bool {
			return !m.ordered || slices.IndexFunc(model, func(o *modelTask) bool {
				return o.ordered && o.home == m.home && o.lane == m.lane
			}) == slices.Index(model, m)
		}
		inState := func(state string) []*modelTask {
			return slices.Collect(func(yield func(*modelTask) bool) {
				for _, m := range model {
					if m.state == state && !yield(m) {
						return
					}
				}
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				m := &modelTask{task: &task{home: rapid.SampledFrom(homes).Draw(t, "home")},
					lane: rapid.Uint64Range(0, 3).Draw(t, "lane"), ordered: rapid.Bool().Draw(t, "ordered"), state: "fresh"}
				model = append(model, m)
				s.add(m.task, m.lane, m.ordered)
			},
			"next": func(t *rapid.T) {
				got := s.next()
				due := len(inState("due")) > 0
				able := slices.ContainsFunc(inState("fresh"), heads)
				if got == nil {
					if due || able {
						t.Fatal("there was a task to try, and none was given")
					}
					return
				}
				m := find(got)
				if due != (m.state == "due") || (m.state != "due" && m.state != "fresh") || !heads(m) {
					t.Fatalf("given a %s task (heads its lane: %v) with %d due", m.state, heads(m), len(inState("due")))
				}
				m.state = "active"
			},
			"release": func(t *rapid.T) {
				if active := inState("active"); len(active) > 0 {
					m := rapid.SampledFrom(active).Draw(t, "which")
					s.release(m.task)
					model = slices.DeleteFunc(model, func(o *modelTask) bool { return o == m })
				}
			},
			"later": func(t *rapid.T) {
				if active := inState("active"); len(active) > 0 {
					m := rapid.SampledFrom(active).Draw(t, "which")
					m.state = "timed"
					s.later(m.task, waiting, now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "wait"))))
				}
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "time")))
				last := time.Time{}
				for got := s.expired(now); got != nil; got = s.expired(now) {
					if m := find(got); m.state != "timed" || m.due.After(now) || m.due.Before(last) {
						t.Fatalf("a %s task due at %v came at %v after one due at %v", m.state, m.due, now, last)
					}
					last = got.due
					find(got).state = "due"
					s.ready(got)
				}
				at, ok := s.wake()
				for _, m := range inState("timed") {
					if !m.due.After(now) || !ok || at.After(m.due) {
						t.Fatalf("a task due at %v is left behind at %v; next wake %v", m.due, now, at)
					}
				}
			},
			"forget": func(t *rapid.T) {
				if rapid.IntRange(0, 2).Draw(t, "seldom") > 0 {
					return
				}
				at := rapid.IntRange(0, 1).Draw(t, "home")
				gone := homes[at]
				s.forget(gone)
				for _, m := range model {
					if m.home == gone && m.state == "active" {
						s.release(m.task) // a worker returns it: no task may follow
					}
				}
				model = slices.DeleteFunc(model, func(m *modelTask) bool { return m.home == gone })
				homes[at] = &partition{at: gone.at}
			},
		})
	})
}
