package kube

import (
	"fmt"
	"time"
)

// Patience bears with a cluster in which no pod starts, or whose API server does not answer, for as long as Limit. What
// it says, it says once.
type Patience struct {
	Limit time.Duration
	Say   func(string)
	// Moved is when a pod started or ended last, Answered when the API server answered last.
	Moved, Answered time.Time
	told            map[string]bool
}

// passing is how long trouble that mostly passes is not worth a line.
const passing = time.Minute

// NewPatience is the patience at the beginning.
func NewPatience(limit time.Duration, say func(string)) *Patience {
	return &Patience{Limit: limit, Say: say, Moved: time.Now(), Answered: time.Now(), told: map[string]bool{}}
}

// First reports whether it is asked for the first time about something.
func (p *Patience) First(about string) bool {
	told := p.told[about]
	p.told[about] = true
	return !told
}

// SayOnce says a line, unless it has.
func (p *Patience) SayOnce(line string) {
	if p.First(line) {
		p.Say(line)
	}
}

// Away bears with an API server that does not answer, and says what goes on. over means that the patience is.
func (p *Patience) Away(goesOn string, err error) (over bool) {
	if time.Since(p.Answered) >= p.Limit {
		return true
	}
	p.SayOnce("the API server does not answer, " + goesOn + ": " + err.Error())
	return false
}

// Stuck bears with the trouble because of which no pod starts, and says what is worth a line. over means that the
// patience is, and why is then the trouble, "" if none is known. The error is trouble that does not pass.
func (p *Patience) Stuck(found []Trouble) (why string, over bool, err error) {
	still := time.Since(p.Moved)
	for _, one := range found {
		if one.Hopeless {
			return "", false, fmt.Errorf("the pods can't run: %s", one.What)
		}
		if !one.Passing || still >= min(passing, p.Limit/2) {
			p.SayOnce(one.What)
		}
		why = one.What
	}
	return why, still >= p.Limit, nil
}
