package measure

// Resource usage of the subject's instances, and the attempt rate of single records. A leak and a hot loop show here,
// regardless of the promised number of attempts. Memory and processor time cover all processes of an instance together,
// and are read once a second.

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// growthReadings is the number of readings of a process under load needed to determine its growth.
	growthReadings = 10
	// farthestReading is the longest time between two readings over which a curve is drawn.
	farthestReading = 3 * time.Second
)

// Usage is what the subject used.
type Usage struct {
	// Instances that were measured, by number; none where the history has no samples of them.
	Instances []InstanceUsage `json:"instances"`
	// Busiest is the record with the most attempts within one second; nil where no attempt was seen.
	Busiest *BusiestRecord `json:"busiest,omitempty"`
}

// InstanceUsage is what one instance used.
type InstanceUsage struct {
	Instance int16 `json:"instance"`
	// RSSMax is the most resident memory, in bytes, over the whole run.
	RSSMax int64 `json:"rss_max_bytes"`
	// RSSGrowth is by how many bytes the memory of one process grew under load: the median of the last third of its
	// readings in the phases steady and fault, from when it was ready, less the median of the first third. Of an
	// instance that was restarted it is the largest of its processes'; nil if none has ten such readings.
	RSSGrowth *int64 `json:"rss_growth_bytes,omitempty"`
	// CPUMean is how many processors it used on average over the phases steady and fault, CPUMax between the two
	// readings in them between which it used most; nil where it was not read twice in them.
	CPUMean *float64 `json:"cpu_mean,omitempty"`
	CPUMax  *float64 `json:"cpu_max,omitempty"`
}

// BusiestRecord is the record that was attempted most often within one second, and when that second ended.
type BusiestRecord struct {
	Record   int32         `json:"record"`
	Attempts int64         `json:"attempts_per_second"`
	At       time.Duration `json:"at_ns"`
}

// InstanceCurves are those of one instance; NaN where it was not running, or not measured.
type InstanceCurves struct {
	Instance int16 `json:"instance"`
	RSS      Curve `json:"rss_bytes"`
	CPU      Curve `json:"cpu"`
}

// usage collects the samples of the subject's processes.
type usage struct {
	at  map[holder]*process
	all []*process
}

// process is one process of an instance, including its child processes.
type process struct {
	by       holder
	ready    bool
	rss, cpu []reading
	// loaded holds the memory readings under load, from when it was ready.
	loaded []int64
	// used is the processor time used in the time under load, in, and the largest quotient of the two.
	used, in time.Duration
	most     float64
}

type reading struct {
	at    time.Duration
	value int64
}

func (u *usage) of(e *history.Event) *process {
	by := holder{instance: e.Instance, run: e.Run}
	if u.at[by] == nil {
		u.at[by] = &process{by: by}
		u.all = append(u.all, u.at[by])
	}
	return u.at[by]
}

// sampled applies a reading of a process; loaded: the run is under load.
func (u *usage) sampled(e *history.Event, loaded bool) {
	if e.Instance < 0 || e.Aux < 0 {
		return
	}
	p, next := u.of(e), reading{e.Time, e.Aux}
	if e.Text == history.SampleInstanceCPU {
		p.processor(next, loaded)
		return
	}
	p.rss = append(p.rss, next)
	if loaded && p.ready {
		p.loaded = append(p.loaded, e.Aux)
	}
}

func (p *process) processor(next reading, loaded bool) {
	if n := len(p.cpu); n > 0 && loaded {
		// A process that has ended removes its processor time from the sum if no parent waited for it.
		if in, used := next.at-p.cpu[n-1].at, time.Duration(next.value-p.cpu[n-1].value); in > 0 && used >= 0 {
			p.in, p.used = p.in+in, p.used+used
			p.most = max(p.most, used.Seconds()/in.Seconds())
		}
	}
	p.cpu = append(p.cpu, next)
}

// growth returns the growth of the memory under load, or false if there are too few readings.
func (p *process) growth() (int64, bool) {
	n := len(p.loaded)
	if n < growthReadings {
		return 0, false
	}
	return median(p.loaded[n-n/3:]) - median(p.loaded[:n/3]), true
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return low + (high-low)/2
}

// instances returns the sampled processes, by instance.
func (u *usage) instances() [][]*process {
	sampled := slices.DeleteFunc(slices.Clone(u.all), func(p *process) bool { return len(p.rss) == 0 })
	slices.SortStableFunc(sampled, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.by.instance, b.by.instance), cmp.Compare(a.by.run, b.by.run))
	})
	var out [][]*process
	for i, p := range sampled {
		if i == 0 || sampled[i-1].by.instance != p.by.instance {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

func (m *Measurer) finishUsage() {
	m.out.Usage = Usage{Instances: []InstanceUsage{}, Busiest: m.recent.busiest}
	for _, processes := range m.usage.instances() {
		m.out.Usage.Instances = append(m.out.Usage.Instances, usageOf(processes))
		m.out.Series.Instances = append(m.out.Series.Instances,
			curvesOf(processes, m.out.Series.Step, len(m.out.Series.Sent)))
	}
}

// JoinUsage adds the usage of the instances of another part of the same run. They are numbered after the existing ones.
func (m *Measurements) JoinUsage(other *Measurements) {
	m.Usage.Instances = append(m.Usage.Instances, other.Usage.Instances...)
	if b := other.Usage.Busiest; b != nil && (m.Usage.Busiest == nil || b.Attempts > m.Usage.Busiest.Attempts) {
		m.Usage.Busiest = b
	}
	if other.Series.Step != m.Series.Step {
		return // the history ends between two parts: their curves differ in length
	}
	for _, one := range other.Series.Instances {
		one.RSS, one.CPU = one.RSS.fit(len(m.Series.Sent)), one.CPU.fit(len(m.Series.Sent))
		m.Series.Instances = append(m.Series.Instances, one)
	}
}

// fit returns the first steps of the curve, and pads missing steps as unknown.
func (c Curve) fit(steps int) Curve {
	for len(c) < steps {
		c = append(c, math.NaN())
	}
	return c[:steps]
}

// usageOf sums up the processes of one instance.
func usageOf(processes []*process) InstanceUsage {
	out := InstanceUsage{Instance: processes[0].by.instance}
	var in, used time.Duration
	most := 0.0
	for _, p := range processes {
		for _, one := range p.rss {
			out.RSSMax = max(out.RSSMax, one.value)
		}
		if growth, known := p.growth(); known && (out.RSSGrowth == nil || growth > *out.RSSGrowth) {
			out.RSSGrowth = &growth
		}
		in, used, most = in+p.in, used+p.used, max(most, p.most)
	}
	if in > 0 {
		mean := used.Seconds() / in.Seconds()
		out.CPUMean, out.CPUMax = &mean, &most
	}
	return out
}

// curvesOf returns the curves of one instance, with the given number of steps. A reading represents the time since the
// previous reading.
func curvesOf(processes []*process, step time.Duration, steps int) InstanceCurves {
	out := InstanceCurves{Instance: processes[0].by.instance, RSS: make(Curve, steps), CPU: make(Curve, steps)}
	used, in := make([]float64, steps), make([]float64, steps)
	for i := range steps {
		out.RSS[i] = math.NaN()
	}
	for _, p := range processes {
		between(p.rss, step, steps, func(i int, _ float64, _, next reading) {
			if value := float64(next.value); !(value <= out.RSS[i]) {
				out.RSS[i] = value
			}
		})
		between(p.cpu, step, steps, func(i int, share float64, before, next reading) {
			if next.value >= before.value {
				used[i] += share * float64(next.value-before.value)
				in[i] += share * float64(next.at-before.at)
			}
		})
	}
	for i := range steps {
		out.CPU[i] = used[i] / in[i] // 0/0 is NaN
	}
	return out
}

// between calls fn for each step that overlaps the time between two readings, with the share of that time that lies in
// the step.
func between(readings []reading, step time.Duration, steps int, fn func(i int, share float64, before, next reading)) {
	for i := range max(len(readings)-1, 0) {
		before, next := readings[i], readings[i+1]
		if apart := next.at - before.at; before.at < 0 || apart <= 0 || apart > farthestReading {
			continue
		}
		for at := int(before.at / step); at < steps && step*time.Duration(at) < next.at; at++ {
			from, to := max(before.at, step*time.Duration(at)), min(next.at, step*time.Duration(at+1))
			fn(at, float64(to-from)/float64(next.at-before.at), before, next)
		}
	}
}

// recentAttempts counts, for each record, the attempts of the last second, and removes older ones as time passes.
type recentAttempts struct {
	// window holds the attempts of the last second from first on, oldest first.
	window  []recentAttempt
	first   int
	busiest *BusiestRecord
}

type recentAttempt struct {
	at     time.Duration
	record int32
}

func (a *recentAttempts) attempted(records *records, number int32, at time.Duration) {
	r := records.at(number)
	if r == nil {
		return
	}
	for a.first < len(a.window) && at-a.window[a.first].at >= time.Second {
		old := records.at(a.window[a.first].record)
		kept := records.track(old)
		kept.recent--
		records.release(old, kept)
		a.first++
	}
	if a.first > len(a.window)/2 {
		a.window = append(a.window[:0], a.window[a.first:]...)
		a.first = 0
	}
	a.window = append(a.window, recentAttempt{at, number})
	kept := records.track(r)
	kept.recent++
	if a.busiest == nil {
		a.busiest = &BusiestRecord{}
	}
	if count := int64(kept.recent); count > a.busiest.Attempts {
		*a.busiest = BusiestRecord{Record: number, Attempts: count, At: at}
	}
}
