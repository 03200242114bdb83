package assertions

// The ways in which a subject reports a failure: lines of its log, exits with an error, its health.

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// surface collects the failure reports of a run.
type surface struct {
	// errors holds log lines that report an error, and exits with one.
	errors []said
	// ill holds the intervals in which an instance reported that it is unhealthy, mute those of processes that wrote
	// lines but stated a level in none of them: errors in such a log cannot be recognized.
	ill, mute []stretch
	// began is when a process started, sick since when it is unhealthy.
	began, sick map[holder]time.Duration
}

// said is a report of an error. A line that is recognized as an error only by the name of a Kafka error, code, reports
// only dead letters that were answered with that error, unless it names the dead-letter topic. With code 0 it may
// report any failure.
type said struct {
	at   time.Duration
	code int16
}

// observe applies an event; names reports whether a text names a dead-letter topic.
func (s *surface) observe(e *history.Event, names func(string) bool) {
	if s.began == nil {
		s.began, s.sick = map[holder]time.Duration{}, map[holder]time.Duration{}
	}
	by := holder{e.Instance, e.Run}
	switch e.Kind {
	case history.KindSubjectError:
		one := said{e.Time, e.Code}
		if names(e.Text) {
			one.code = 0
		}
		s.errors = append(s.errors, one)
	case history.KindInstanceStarting:
		s.began[by] = e.Time
	case history.KindSubjectHealth:
		s.health(by, e)
	case history.KindSubjectLog:
		if e.N > 0 && e.Aux == 0 {
			s.mute = append(s.mute, stretch{s.began[by], e.Time})
		}
	case history.KindInstanceExited:
		s.recover(by, e.Time)
		if e.Code > 0 || e.Code < 0 && !e.Flags.Has(history.Expected) {
			s.errors = append(s.errors, said{at: e.Time})
		}
	}
}

func (s *surface) health(by holder, e *history.Event) {
	if e.N > 0 {
		s.recover(by, e.Time)
	} else if _, since := s.sick[by]; !since {
		s.sick[by] = e.Time
	}
}

// recover ends the interval in which a process reported that it is unhealthy.
func (s *surface) recover(by holder, at time.Duration) {
	if since, sick := s.sick[by]; sick {
		s.ill = append(s.ill, stretch{since, at})
		delete(s.sick, by)
	}
}

// told reports whether, between the two times, a failure of dead letters that were answered with the codes was
// reported.
func (s *surface) told(from, to time.Duration, codes []int16) bool {
	for _, since := range s.sick {
		if since <= to {
			return true
		}
	}
	return meets(s.ill, from, to) || slices.ContainsFunc(s.errors, func(one said) bool {
		return one.at >= from && one.at <= to && (one.code == 0 || slices.Contains(codes, one.code))
	})
}

// unreadable reports whether a process that ran between the two times wrote a log whose errors cannot be recognized.
func (s *surface) unreadable(from, to time.Duration) bool { return meets(s.mute, from, to) }

// meets reports whether any of the intervals overlaps the time between the two.
func meets(all []stretch, from, to time.Duration) bool {
	return slices.ContainsFunc(all, func(one stretch) bool { return one.from <= to && one.to >= from })
}

// namesDLQ reports whether a text names a dead-letter topic.
func (w *state) namesDLQ(text string) bool {
	return slices.ContainsFunc(w.header.Topics, func(topic history.Topic) bool {
		return topic.Role == history.RoleDLQ && topic.Name != "" && strings.Contains(text, topic.Name)
	})
}
