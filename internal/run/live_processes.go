package run

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// processes is the live view's state of the subject's instances and of the processes of the dead-letter store's
// service.
type processes struct {
	log *eventLog
	// instances are the subject's instances by number. They are looked up for every attempt, so lookups take no lock.
	instances []instanceView

	mu      sync.Mutex
	service map[int16]*instanceView
}

// instanceView is the state of one process. Counters that change with every record are atomic; processes.mu guards
// the rest.
type instanceView struct {
	fetched, attempts atomic.Int64
	state             reports.InstanceState
	// last is the last signal sent to the process. It explains how the process ended.
	last string
	// started: there was a process. fell: the latest ended without being asked to.
	started, fell bool
	// begun is when the latest process was started, starting what it and those before it took to get ready or to end.
	begun    time.Duration
	starting startup
}

func newProcesses(header *history.Header, log *eventLog) *processes {
	p := &processes{log: log, instances: make([]instanceView, header.Instances), service: map[int16]*instanceView{}}
	for number := range p.instances {
		state := &p.instances[number].state
		state.Kind, state.Number, state.Name, state.Status = "instance", number, fmt.Sprintf("instance %d", number),
			reports.InstanceStopped
		if at := header.ConsumerOf(int16(number)); at >= 0 {
			state.Node = header.Consumers[at].Name
		}
	}
	return p
}

// of returns the instance's view, nil if there is no such instance.
func (p *processes) of(instance int16) *instanceView {
	if instance >= 0 {
		if int(instance) < len(p.instances) {
			return &p.instances[instance]
		}
		return nil
	}
	kind, number := history.StoreProcess(instance)
	if kind == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	view := p.service[instance]
	if view == nil {
		view = &instanceView{state: reports.InstanceState{Kind: kind, Number: number,
			Name: fmt.Sprintf("%s %d", kind, number), Status: reports.InstanceStopped}}
		p.service[instance] = view
	}
	return view
}

func (p *processes) fetched(event *history.Event) {
	if view := p.of(event.Instance); view != nil {
		view.fetched.Add(event.Aux - event.Offset + 1)
	}
}

func (p *processes) attempted(instance int16) {
	if view := p.of(instance); view != nil {
		view.attempts.Add(1)
	}
}

// changed updates the state of a process.
func (p *processes) changed(event *history.Event) {
	view := p.of(event.Instance)
	if view == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	state := &view.state
	if event.Run < state.Run {
		return // of a process that another one has replaced
	}
	was := state.Status
	kind, text := reports.EventInstance, ""
	switch event.Kind {
	case history.KindInstanceStarting:
		if state.Ready > 0 {
			view.starting = startup{after: view.starting.after + 1}
		}
		state.Status, state.Run, state.Ready, view.last = reports.InstanceStarting, event.Run, 0, ""
		view.started, view.fell, view.begun = true, false, event.Time
		text = "starts"
		if event.Run > 0 {
			text = "starts again"
		}
	case history.KindInstanceReady:
		view.starting.took = view.startup(event.Time)
		state.Status, state.Ready, text = reports.InstanceRunning, event.Time, "is ready"
	case history.KindInstanceSignal:
		kind, text = reports.EventFault, "was sent "+event.Text
		view.signalled(event.Text)
	case history.KindInstanceExited:
		view.starting.took = view.startup(event.Time)
		text, view.fell = view.exited(event), !event.Flags.Has(history.Expected)
	case history.KindSubjectError:
		state.Errors++
		state.LastError = event.Text
	}
	if state.Status != was {
		state.Since = event.Time
		if state.Status == reports.InstanceRunning && state.Ready > 0 {
			state.Since = state.Ready
		}
	}
	if text != "" {
		p.log.add(event.Time, kind, state.Name+" "+text)
	}
}

// allFell reports whether instances were started, and the latest process of each ended by itself.
func (p *processes) allFell() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	some := false
	for i := range p.instances {
		view := &p.instances[i]
		if view.started && !view.fell {
			return false
		}
		some = some || view.fell
	}
	return some
}

// startup is the time that an instance took to have a process that is ready, after as many that were.
type startup struct {
	took  time.Duration
	after int
}

// startup returns the time that the instance has taken by now to have a process that is ready.
func (v *instanceView) startup(now time.Duration) time.Duration {
	if v.state.Ready > 0 || !v.state.Status.Up() {
		return v.starting.took
	}
	return v.starting.took + now - v.begun
}

// startups returns that time for each instance.
func (p *processes) startups(now time.Duration) []startup {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]startup, len(p.instances))
	for number := range p.instances {
		view := &p.instances[number]
		all[number] = startup{view.startup(now), view.starting.after}
	}
	return all
}

// signalled notes that the process was sent a signal, or is about to be.
func (v *instanceView) signalled(signal string) {
	v.last = signal
	if !v.state.Status.Up() {
		return
	}
	switch signal {
	case "STOP":
		v.state.Status = reports.InstancePaused
	case "CONT":
		v.state.Status = reports.InstanceRunning
		if v.state.Ready == 0 {
			v.state.Status = reports.InstanceStarting
		}
	case "TERM", "INT":
		v.state.Status = reports.InstanceStopping
	}
}

// exited describes how the process ended.
func (v *instanceView) exited(event *history.Event) string {
	how := fmt.Sprintf("exit code %d", event.Code)
	switch {
	case event.Text != "":
		how = "signal " + event.Text
	case event.Code < 0:
		how = "its connections are closed"
	}
	switch {
	case !event.Flags.Has(history.Expected):
		v.state.Status = reports.InstanceCrashed
	case v.last == "KILL":
		v.state.Status = reports.InstanceKilled
	default:
		v.state.Status = reports.InstanceStopped
	}
	return "ended: " + how
}

// processSample is a copy of an instance's counters at one moment.
type processSample struct{ fetched, attempts int64 }

// sample reads the counters, by Instance.
func (p *processes) sample() map[int16]processSample {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := make(map[int16]processSample, len(p.instances)+len(p.service))
	for number := range p.instances {
		counts[int16(number)] = p.instances[number].sample()
	}
	for instance, view := range p.service {
		counts[instance] = view.sample()
	}
	return counts
}

func (v *instanceView) sample() processSample {
	return processSample{v.fetched.Load(), v.attempts.Load()}
}

// states returns all processes that were ever started, for the view. Rates cover the time since before. Instances
// reserved for a fault are left out until they are started.
func (p *processes) states(before, now map[int16]processSample, passed time.Duration) []reports.InstanceState {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := func(view *instanceView, instance int16) reports.InstanceState {
		state := view.state
		state.Attempts, state.Fetched = now[instance].attempts, now[instance].fetched
		state.FetchRate = perSecond(now[instance].fetched-before[instance].fetched, passed)
		state.AttemptRate = perSecond(now[instance].attempts-before[instance].attempts, passed)
		return state
	}
	states := make([]reports.InstanceState, 0, len(p.instances)+len(p.service))
	for number := range p.instances {
		if view := &p.instances[number]; view.state.Since > 0 {
			states = append(states, shown(view, int16(number)))
		}
	}
	// Routers, workers, keepers: their numbers descend from one kind to the next and ascend within a kind.
	for _, kind := range []string{"router", "worker", "keeper"} {
		first := len(states)
		for instance, view := range p.service {
			if view.state.Kind == kind && view.state.Since > 0 {
				states = append(states, shown(view, instance))
			}
		}
		slices.SortFunc(states[first:], func(a, b reports.InstanceState) int { return a.Number - b.Number })
	}
	return states
}

// eventLog keeps the newest events.
type eventLog struct {
	mu     sync.Mutex
	last   int64
	events []reports.LiveEvent
}

func (l *eventLog) add(at time.Duration, kind reports.EventKind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	if len(l.events) == reports.MaxLiveEvents {
		l.events = l.events[1:]
	}
	l.events = append(l.events, reports.LiveEvent{Sequence: l.last, At: at, Kind: kind, Text: text})
}

func (l *eventLog) newest() []reports.LiveEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}
