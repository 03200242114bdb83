package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const mib = 1 << 20

// uses reads an instance once a second from one time to another; the functions give memory and processor time by
// second.
func (s *builder) uses(instance int16, run uint16, from, to time.Duration, rss func(float64) float64,
	cpu func(float64) float64) {
	for at := from; at <= to; at += time.Second {
		sample := func(text string, value float64) {
			s.add(history.KindSample, at, func(e *history.Event) {
				e.Instance, e.Run, e.Text, e.Aux = instance, run, text, int64(value)
			})
		}
		sample(history.SampleInstanceCPU, cpu((at-from).Seconds())*1e9)
		sample(history.SampleInstanceRSS, rss((at-from).Seconds())*mib)
	}
}

func (s *builder) ready(instance int16, run uint16, at time.Duration) {
	s.add(history.KindInstanceReady, at, func(e *history.Event) { e.Instance, e.Run = instance, run })
}

func flat(level float64) func(float64) float64 { return func(float64) float64 { return level } }
func slope(level, perSecond float64) func(float64) float64 {
	return func(second float64) float64 { return level + perSecond*second }
}

// loaded is a run whose load lasts from the 5th second to the 25th.
func loaded() *builder {
	s := newBuilder(0)
	s.phase(0, history.PhaseSetup)
	s.phase(3*time.Second, history.PhaseWarmup)
	s.phase(5*time.Second, history.PhaseSteady)
	s.phase(15*time.Second, history.PhaseFault)
	s.phase(25*time.Second, history.PhaseHeal)
	s.phase(40*time.Second, history.PhaseAudit)
	return s
}

func TestLeaksAreToldFromWarmUp(t *testing.T) {
	saw := func(second float64) float64 { return 100 + 30*float64(int(second)%3) } // as with a garbage collector
	for name, c := range map[string]struct {
		make     func(*builder)
		max      string
		growth   string
		met      bool
		unheard  bool
		measured bool
	}{
		"steady": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 39*time.Second, flat(80), flat(0))
		}, "80MiB", "0B", true, false, true},
		"leaking": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 39*time.Second, slope(80, 3), flat(0))
		}, "197MiB", "42MiB", false, false, true},
		"grows while it starts, and while it drains": {func(s *builder) {
			s.ready(0, 0, 4*time.Second)
			s.uses(0, 0, 0, 4*time.Second, slope(10, 30), flat(0))
			s.uses(0, 0, 5*time.Second, 24*time.Second, flat(130), flat(0))
			s.uses(0, 0, 25*time.Second, 35*time.Second, slope(130, 30), flat(0))
		}, "430MiB", "0B", true, false, true},
		"collected": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 39*time.Second, saw, flat(0))
		}, "160MiB", "0B", true, false, true},
		"shrinking": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 39*time.Second, slope(200, -2), flat(0))
		}, "200MiB", "-28MiB", true, false, true},
		"only the second leaks": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.ready(1, 0, 2*time.Second)
			s.uses(0, 0, 0, 39*time.Second, slope(80, -1), flat(0))
			s.uses(1, 0, 0, 39*time.Second, slope(10, 2), flat(0))
		}, "88MiB", "28MiB", false, false, true},
		"a restart begins anew, and is not ready at once": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 16*time.Second, slope(20, 0.5), flat(0))
			s.uses(0, 1, 17*time.Second, 39*time.Second, slope(20, 10), flat(0))
			s.ready(0, 1, 20*time.Second)
		}, "240MiB", "4MiB", true, false, true},
		"never long under load": {func(s *builder) {
			s.ready(0, 0, 2*time.Second)
			s.uses(0, 0, 0, 12*time.Second, slope(20, 10), flat(0))
		}, "140MiB", "", false, true, true},
		"not measured": {func(*builder) {}, "", "", false, true, false},
	} {
		s := loaded()
		c.make(s)
		m := s.measure(t)
		got := m.Evaluate([]string{"subject.rss.growth < 24MiB", "subject.rss.max < 1GiB"})
		if growth := got[0]; growth.Met != c.met || growth.Actual != c.growth || (growth.Error != "") != c.unheard {
			t.Errorf("%s: %+v, want %s", name, growth, c.growth)
		}
		if most := got[1]; most.Met != c.measured || most.Actual != c.max || (most.Error != "") == c.measured {
			t.Errorf("%s: %+v, want %s", name, most, c.max)
		}
		for _, one := range got {
			if one.Error != "" && !strings.Contains(one.Error, "not measured") {
				t.Errorf("%s: %s", name, one.Error)
			}
		}
	}
}

func TestProcessorsOfTheBusiestInstance(t *testing.T) {
	s := loaded()
	s.uses(0, 0, 0, 39*time.Second, flat(1), slope(0, 0.25))
	// Two under load, and four before and after.
	s.uses(1, 0, 0, 5*time.Second, flat(1), slope(0, 4))
	s.uses(1, 0, 6*time.Second, 24*time.Second, flat(1), slope(22, 2))
	s.uses(1, 0, 25*time.Second, 39*time.Second, flat(1), slope(62, 4))
	m := s.measure(t)
	if len(m.Usage.Instances) != 2 || *m.Usage.Instances[0].CPUMean != 0.25 || *m.Usage.Instances[1].CPUMax != 4 {
		t.Errorf("%+v", m.Usage)
	}
	for expression, met := range map[string]bool{
		"subject.cpu.mean < 2.2": true, "subject.cpu.mean < 2": false, "subject.cpu.max <= 4": true,
		"subject.cpu.max < 4": false,
	} {
		if got := m.Evaluate([]string{expression})[0]; got.Met != met || got.Error != "" {
			t.Errorf("%+v", got)
		}
	}
	// A process whose ended children take their usage along, unreported, must not yield a negative value.
	s = loaded()
	s.uses(0, 0, 0, 39*time.Second, flat(1), func(second float64) float64 { return math.Mod(second, 10) })
	if got := s.measure(t).Usage.Instances[0]; *got.CPUMean != 1 || *got.CPUMax != 1 {
		t.Errorf("%v, %v", *got.CPUMean, *got.CPUMax)
	}
}

func TestCurvesOfInstances(t *testing.T) {
	s := loaded()
	s.uses(2, 0, 500*ms, 4500*ms, slope(100, 10), slope(0, 0.5))
	s.uses(2, 1, 9500*ms, 20500*ms, flat(50), slope(0, 1))
	m := s.measure(t)
	if len(m.Series.Instances) != 1 || m.Series.Instances[0].Instance != 2 {
		t.Fatalf("%+v", m.Series.Instances)
	}
	curves := m.Series.Instances[0]
	if len(curves.RSS) != len(m.Series.Sent) || len(curves.CPU) != len(m.Series.Sent) {
		t.Errorf("%d and %d points, want %d", len(curves.RSS), len(curves.CPU), len(m.Series.Sent))
	}
	for step, want := range map[int][2]float64{5: {110 * mib, 0.5}, 14: {110 * mib, 0.5}, 15: {120 * mib, 0.5},
		44: {140 * mib, 0.5}, 150: {50 * mib, 1}} {
		if curves.RSS[step] != want[0] || math.Abs(curves.CPU[step]-want[1]) > 1e-9 {
			t.Errorf("step %d: %v bytes, %v processors, want %v", step, curves.RSS[step], curves.CPU[step], want)
		}
	}
	for _, step := range []int{0, 4, 45, 70, 94, 300} {
		if !math.IsNaN(curves.RSS[step]) || !math.IsNaN(curves.CPU[step]) {
			t.Errorf("step %d: %v bytes, %v processors of a process that was not there", step, curves.RSS[step],
				curves.CPU[step])
		}
	}
}

// Nothing is promised about attempts here, and one record is attempted in a loop.
func TestHotLoop(t *testing.T) {
	s := newBuilder(3)
	s.header.Contract().MaxAttempts, s.header.Contract().Backoff = 0, history.Backoff{}
	s.sent(0, 0, 0, ms, 0, 0)
	s.sent(1, 0, 0, ms, 0, 1)
	for i := range 30 { // every 100 ms: ten in each second
		at := time.Duration(i) * 100 * ms
		s.attempt(0, 10*ms+at, 20*ms+at, history.OutcomeTransient, nil)
	}
	if got := s.measure(t).Evaluate([]string{"subject.attempts_per_second.max <= 10"})[0]; !got.Met || got.Actual != "10" {
		t.Errorf("%+v", got)
	}
	for i := range 200 {
		at := 5*time.Second + time.Duration(i)*4*ms
		s.attempt(1, at, at+ms, history.OutcomeTransient, nil)
	}
	m := s.measure(t)
	if got := m.Evaluate([]string{"subject.attempts_per_second.max < 100"})[0]; got.Met ||
		got.Actual != "200" || got.Error != "" {
		t.Errorf("%+v", got)
	}
	if got := m.Usage.Busiest; got.Record != 1 || got.At != 5796*ms {
		t.Errorf("%+v", got)
	}
	// A record that the downstream cannot identify is known by its place.
	s = newBuilder(3)
	s.sent(2, 0, 0, ms, 1, 7)
	for i := range 50 {
		at := time.Second + time.Duration(i)*2*ms
		s.attempt(history.None, at, at+ms, history.OutcomeUnknownID, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset = input, 1, 7
		})
	}
	if got := s.measure(t).Usage.Busiest; got == nil || got.Record != 2 || got.Attempts != 50 {
		t.Errorf("%+v", got)
	}
	if got := newBuilder(3).measure(t).Evaluate(
		[]string{"subject.attempts_per_second.max < 100"})[0]; got.Met || !strings.Contains(got.Error, "not measured") {
		t.Errorf("%+v", got)
	}
}
