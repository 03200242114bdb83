package worker

import (
	"errors"
	"math"
	"time"
)

// Clock runs Scale times as fast as the real one, so that hours of a strategy pass in seconds: at 600 a minute takes
// 100 ms. The zero Clock is the real one.
type Clock struct {
	// Scale is at least 1; 0 means 1.
	Scale float64
	// Origin is the time at which the scaled calendar and the real one agree. With the zero time, they agree at each
	// real midnight UTC. All clocks of one scale then agree with each other on all machines, and with an integer scale
	// the time of day continues over midnight without a jump.
	Origin time.Time
}

func (c Clock) scale() float64 { return max(c.Scale, 1) }

// validate returns an error for a scale that would stop time or reverse it.
func (c Clock) validate() error {
	if c.Scale != 0 && !(c.Scale >= 1 && c.Scale <= 1e6) { // also excludes NaN
		return errors.New("the time scale must be from 1 (real time) to 1000000")
	}
	return nil
}

// Real returns the real duration of a nominal one: at least 1 ns, unless it is 0.
func (c Clock) Real(nominal time.Duration) time.Duration {
	if nominal <= 0 || c.scale() == 1 {
		return nominal
	}
	return max(1, time.Duration(math.Round(float64(nominal)/c.scale())))
}

// Calendar returns the time of the scaled calendar at a real time.
func (c Clock) Calendar(at time.Time) time.Time {
	if c.scale() == 1 {
		return at
	}
	origin := c.Origin
	if origin.IsZero() {
		origin = at.UTC().Truncate(24 * time.Hour)
	}
	return origin.Add(time.Duration(float64(at.Sub(origin)) * c.scale()))
}
