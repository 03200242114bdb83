package assertions

// The work of a process that reads retry topics along with the input and does one thing at a time. A copy that is due
// waits for what the process has in hand, whatever topic that is from:
//
//	fetches 200 records of the input ─▶ attempts them, one after another … ─▶ attempts the copy, which was due meanwhile
//
// Its time for a record is not that of the attempt alone: it also decodes, writes copies and commits. So the time from
// one attempt to the next counts, too, if it had the next record in hand by then. If it had not, it was idle.
//
// kafkajs works this way with one partition at a time (partitionsConsumedConcurrently), its default.

import (
	"sort"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// solo is the activity of a process with retry topics.
type solo struct {
	open int // attempts under way
	// several: two attempts were under way at once, so a copy need not wait for other records.
	several bool
	// ended is when the latest attempt ended, spent how long the process was busy until then.
	ended, spent time.Duration
	// noted holds spent at times that are at least notedEvery apart, in order.
	noted []spentAt
}

type spentAt struct{ at, spent time.Duration }

// fetch is the first one of a partition since the latest attempt of its process ended, from an offset on.
type fetch struct {
	at   time.Duration
	from int64
}

// start notes an attempt. inHand: the process had the record when the attempt before ended.
func (s *solo) start(at time.Duration, inHand bool) {
	if s.several = s.several || s.open > 0; s.several {
		s.noted = nil
		return
	}
	if s.open++; inHand && s.ended != never {
		s.spent += min(max(at-s.ended, 0), refetch)
	}
	if n := len(s.noted); n == 0 || at-s.noted[n-1].at >= notedEvery {
		s.noted = append(s.noted, spentAt{at, s.spent})
	}
}

func (s *solo) end(a *attempt) {
	s.open = max(s.open-1, 0)
	s.spent += a.end - a.start
	s.ended = a.end
}

// since returns how long the process was busy with one record after another since the time.
func (s *solo) since(due time.Duration) time.Duration {
	if s.several {
		return 0
	}
	later := sort.Search(len(s.noted), func(i int) bool { return s.noted[i].at > due })
	if later == 0 {
		return s.spent
	}
	return s.spent - s.noted[later-1].spent
}

func (b *busy) solo(by holder) *solo {
	s := b.solos[by]
	if s == nil {
		s = &solo{ended: never}
		b.solos[by] = s
	}
	return s
}

// fetched notes what a process with retry topics is handed.
func (b *busy) fetched(e *history.Event) {
	at := place{e.Topic, e.Partition, none}
	if last, known := b.fetches[at]; !known || last.at <= b.solo(holder{e.Instance, e.Run}).ended {
		b.fetches[at] = fetch{e.Time, e.Offset}
	}
}

// inHand reports whether the process had the record at the place when its latest attempt ended.
func (b *busy) inHand(at place, s *solo) bool {
	first, known := b.fetches[place{at.topic, at.partition, none}]
	return !known || first.at <= s.ended || at.offset < first.from
}
