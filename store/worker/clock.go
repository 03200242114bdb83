package worker

import (
	"errors"
	"math"
	"time"
)

// Clock runs Scale times as fast as the real one, so that hours of strategy pass in seconds: at 600 a minute takes 100
// ms. The zero Clock is the real one.
type Clock struct {
	// Scale is at least 1; 0 is 1.
	Scale float64
	// Origin is when the scaled calendar and the real one agree; the zero time: at each real midnight, UTC. So all
	// clocks of one scale agree with each other, wherever they run, and with a whole number for a scale the time of day
	// goes on over midnight without a jump.
	Origin time.Time
}

func (c Clock) scale() float64 { return max(c.Scale, 1) }

// validate reports a scale that would stop time or turn it back.
func (c Clock) validate() error {
	if c.Scale != 0 && !(c.Scale >= 1 && c.Scale <= 1e6) { // not a number, too
		return errors.New("the time scale must be from 1 (real time) to 1000000")
	}
	return nil
}

// Real returns how long the nominal duration takes: at least 1 ns, unless it is 0.
func (c Clock) Real(nominal time.Duration) time.Duration {
	if nominal <= 0 || c.scale() == 1 {
		return nominal
	}
	return max(1, time.Duration(math.Round(float64(nominal)/c.scale())))
}

// Calendar returns what the scaled calendar shows at a real time.
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
