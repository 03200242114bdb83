package assertions

// What a subject makes known of a failure: lines of its log, ends with an error, its health.

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// surface is what was seen of it in a run.
type surface struct {
	// errors are lines that report an error, and ends with one.
	errors []said
	// ill are the stretches in which an instance said that it is unhealthy, mute those of processes that wrote lines
	// and stated a level in none of them: if they reported an error, nobody could tell.
	ill, mute []stretch
	// began is when a process started, sick since when its health is bad.
	began, sick map[holder]time.Duration
}

// said is that something was wrong. A line that is known for an error only by the name of one of Kafka's, code, tells
// of a dead letter that was answered with that one, or if it names the dead-letter topic; 0: it tells of anything.
type said struct {
	at   time.Duration
	code int16
}

// observe takes an event; names reports whether a text names a dead-letter topic.
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

// recover ends the stretch in which a process said that it is unhealthy.
func (s *surface) recover(by holder, at time.Duration) {
	if since, sick := s.sick[by]; sick {
		s.ill = append(s.ill, stretch{since, at})
		delete(s.sick, by)
	}
}

// told reports whether, between the two times, a failure was made known of dead letters that were answered with the
// codes.
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

// unreadable reports whether a process that was there between the two times wrote a log of which nobody can tell what
// it reports.
func (s *surface) unreadable(from, to time.Duration) bool { return meets(s.mute, from, to) }

// meets reports whether any of the stretches has a moment between the two times.
func meets(all []stretch, from, to time.Duration) bool {
	return slices.ContainsFunc(all, func(one stretch) bool { return one.from <= to && one.to >= from })
}

// namesDLQ reports whether a text names a dead-letter topic.
func (w *state) namesDLQ(text string) bool {
	return slices.ContainsFunc(w.header.Topics, func(topic history.Topic) bool {
		return topic.Role == history.RoleDLQ && topic.Name != "" && strings.Contains(text, topic.Name)
	})
}
