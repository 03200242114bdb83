package assertions

// The work of a process that reads retry topics along with the input and does one thing at a time. A copy that is due
// waits for what the process has in hand, whatever topic that is from:
//
//	fetches 200 records of the input ─▶ attempts them, one after another … ─▶ attempts the copy, which was due meanwhile
//
// kafkajs works this way with one partition at a time (partitionsConsumedConcurrently), its default.

import (
	"sort"
	"time"
)

// solo is the activity of a process with retry topics.
type solo struct {
	open int // attempts under way
	// several: two attempts were under way at once, so a copy need not wait for other records.
	several bool
	// spent is how long the process was busy until the latest attempt ended.
	spent time.Duration
	// noted holds spent at times that are at least notedEvery apart, in order.
	noted []spentAt
}

type spentAt struct{ at, spent time.Duration }

// start notes an attempt. between is how long the process was busy since the one before.
func (s *solo) start(at, between time.Duration) {
	if s.several = s.several || s.open > 0; s.several {
		s.noted = nil
		return
	}
	s.open++
	s.spent += between
	if n := len(s.noted); n == 0 || at-s.noted[n-1].at >= notedEvery {
		s.noted = append(s.noted, spentAt{at, s.spent})
	}
}

func (s *solo) end(a *attempt) {
	s.open = max(s.open-1, 0)
	s.spent += a.end - a.start
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
		s = &solo{}
		b.solos[by] = s
	}
	return s
}
