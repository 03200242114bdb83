package reports

// This file defines the live state of a run. Nothing in it is judged: the verdict is made from the history,
// afterwards.
//
// A snapshot is sent as JSON to observers. Its times are in ns, counted from the run's base, as in the history.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// MaxLiveEvents is the maximum number of events in a snapshot, which has the newest ones.
const MaxLiveEvents = 200

// Snapshot is the state of a run at one moment. It shares nothing with the run, and whoever gets it must not change it:
// others have it too.
type Snapshot struct {
	Scenario string `json:"scenario"`
	RunID    string `json:"run_id"`
	// Seed is a string in JSON: JavaScript's numbers are too small for it.
	Seed    uint64 `json:"seed,string"`
	Subject string `json:"subject"`
	// Started is the wall-clock time of the run's base, from which Now and the times of events and states are counted.
	Started time.Time     `json:"started"`
	Now     time.Duration `json:"now_ns"`

	Phase string `json:"phase"`
	// Waiting is what somebody has to do before the run goes on, "" for nothing.
	Waiting string `json:"waiting,omitempty"`
	// Doing is what the run is busy with while no load runs, and for how long: "waiting for instance 0, 12 of 30 s". ""
	// means that the figures say enough.
	Doing string `json:"doing,omitempty"`
	// Place is the place among several runs, such as 2/5; "" for a single one.
	Place string `json:"place,omitempty"`
	// Elapsed and Total are the load's times, from its beginning on (before it, Elapsed is that of setting up); Total 0
	// is unknown.
	Elapsed time.Duration `json:"elapsed_ns"`
	Total   time.Duration `json:"total_ns"`

	// Rates are records (attempts, dead letters) per second, over the last second.
	SentRate       float64 `json:"sent_rate"`
	ProcessedRate  float64 `json:"processed_rate"`
	AttemptRate    float64 `json:"attempt_rate"`
	DeadLetterRate float64 `json:"dead_letter_rate"`

	Totals Totals `json:"totals"`
	// Lag is how many records of the input no accepted commit covers yet, in all partitions; DeadLetters repeats
	// Totals.DeadLetters; RetriesInFlight is how many records failed and are neither finished nor dead-lettered yet.
	Lag             int64 `json:"lag"`
	DeadLetters     int64 `json:"dead_letters"`
	RetriesInFlight int64 `json:"retries_in_flight"`

	// Latency is of the last seconds.
	Latency LiveLatency `json:"latency"`
	// Partitions of the input topics (of a graph, of every node's input), by topic and partition.
	Partitions []PartitionState `json:"partitions"`
	// Instances of the subject, then the processes of the dead-letter store's service.
	Instances []InstanceState `json:"instances"`
	// Rebalances is how often a group's partitions were assigned anew, the first time not counted.
	Rebalances int64 `json:"rebalances"`
	// Store is nil where no dead-letter store is judged.
	Store *StoreFigures `json:"store,omitempty"`

	// Registry is nil where the run has no schema registry.
	Registry *RegistryFigures `json:"registry,omitempty"`

	// ActiveFaults are the faults in force, in the order in which they began. They, FaultsInjected, the events of the
	// kind EventFault and what WithoutFaults replaces are all that tells of faults.
	ActiveFaults []FaultState `json:"active_faults"`
	// FaultsInjected is how many began so far.
	FaultsInjected int64 `json:"faults_injected"`
	// Events are the newest, oldest first: at most MaxLiveEvents.
	Events []LiveEvent `json:"events"`
}

// Totals are counts since the run began.
type Totals struct {
	// Sent records were handed to the workload's producer, Acknowledged ones are in the topic.
	Sent         int64 `json:"sent"`
	Acknowledged int64 `json:"acknowledged"`
	// Processed are successful (or logically failed) attempts, Attempts all of them.
	Processed int64 `json:"processed"`
	Attempts  int64 `json:"attempts"`
	// DeadLetters were acknowledged to whoever wrote them.
	DeadLetters int64 `json:"dead_letters"`
	// Duplicates are records that succeeded more than once, whatever the reason.
	Duplicates int64 `json:"duplicates"`
	// Replayed are dead letters that were written back and acknowledged.
	Replayed int64 `json:"replayed"`
	// Late are records that were sent later than the scenario allows.
	Late int64 `json:"late"`
}

// LiveLatency are latencies of a while that goes with the run, both from the moment at which a record should have been
// sent: Success to the end of the attempt that succeeded first, FirstAttempt to the start of the first one.
type LiveLatency struct {
	Window       time.Duration `json:"window_ns"`
	Success      LiveLatencies `json:"success"`
	FirstAttempt LiveLatencies `json:"first_attempt"`
}

// LiveLatencies are latencies of the window, 0 where Count is; the quantiles are at most 5 % too high.
type LiveLatencies struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	// SinceBegin is the histogram since the run began.
	SinceBegin Buckets `json:"-"`
}

// Buckets is a cumulative histogram: Below[i] latencies are less than Bounds[i]. Count is the total number, Sum their
// sum.
type Buckets struct {
	Bounds []time.Duration
	Below  []uint64
	Count  uint64
	Sum    time.Duration
}

// PartitionState is how far the subject is in one partition.
type PartitionState struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// End is behind the last record that is known to be in it, Committed up to where an accepted commit came. In a
	// share group Committed is how many records were accepted or rejected.
	End       int64 `json:"end"`
	Committed int64 `json:"committed"`
	Lag       int64 `json:"lag"`
	// Instance has it, as far as the taps have seen; -1: none. In a share group no instance has any.
	Instance int `json:"instance"`
}

// InstanceStatus is the state of a process.
type InstanceStatus string

// The states of a process.
const (
	InstanceStarting InstanceStatus = "starting"
	InstanceRunning  InstanceStatus = "running"
	InstancePaused   InstanceStatus = "paused"   // stopped by a signal, alive
	InstanceStopping InstanceStatus = "stopping" // asked to end, still running
	InstanceStopped  InstanceStatus = "stopped"  // ended as asked
	InstanceKilled   InstanceStatus = "killed"   // ended by a KILL
	InstanceCrashed  InstanceStatus = "crashed"  // ended by itself
)

// Up reports whether there is a process.
func (s InstanceStatus) Up() bool {
	return slices.Contains([]InstanceStatus{InstanceStarting, InstanceRunning, InstancePaused, InstanceStopping}, s)
}

// InstanceState is one process of the subject, or of the dead-letter store's service.
type InstanceState struct {
	// Kind is "instance", "router", "worker" or "keeper"; Number counts from 0 within it. Name is both: "instance 1".
	Kind   string `json:"kind"`
	Number int    `json:"number"`
	Name   string `json:"name"`
	// Node is the node of the graph, or the one of several services, that it belongs to.
	Node string `json:"node,omitempty"`
	// Run counts its processes from 0.
	Run    uint16         `json:"run"`
	Status InstanceStatus `json:"status"`
	// Since is when it came into this state; Ready when it last became ready, 0 if it has not.
	Since time.Duration `json:"since_ns"`
	Ready time.Duration `json:"ready_ns"`
	// Partitions is how many it has; 0 in a share group.
	Partitions int `json:"partitions"`
	// FetchRate and AttemptRate are records and attempts per second, over the last second.
	FetchRate   float64 `json:"fetch_rate"`
	AttemptRate float64 `json:"attempt_rate"`
	// Attempts and Fetched records since the run began.
	Attempts int64 `json:"attempts"`
	Fetched  int64 `json:"fetched"`
	// Errors is how many lines it wrote that report one, LastError the last of them.
	Errors    int64  `json:"errors"`
	LastError string `json:"last_error,omitempty"`
}

// FaultState is a fault in force.
type FaultState struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	What   string `json:"what"`
	Target string `json:"target"`
	// Since is when it was injected, For how long it is planned to last (0: until it is healed by hand, or an instant).
	Since time.Duration `json:"since_ns"`
	For   time.Duration `json:"for_ns"`
	// Effects is how often it did something so far: connections cut, requests answered.
	Effects int64 `json:"effects"`
}

// StoreFigures is the dead-letter store as it was seen last.
type StoreFigures struct {
	// ByState counts the entries.
	ByState map[history.StoreState]int64 `json:"by_state"`
	// Changes is how many changes of entries were seen.
	Changes int64 `json:"changes"`
}

// RegistryFigures is the schema registry of a run.
type RegistryFigures struct {
	// Requests is how many have arrived.
	Requests int64 `json:"requests"`
}

// EventKind is the type of an event in the log.
type EventKind string

// The kinds of events.
const (
	EventPhase     EventKind = "phase"
	EventFault     EventKind = "fault"     // a fault was injected or lifted, or a process was sent a signal
	EventInstance  EventKind = "instance"  // a process started, became ready, ended
	EventRebalance EventKind = "rebalance" // partitions were reassigned
)

// LiveEvent is a line of the event log.
type LiveEvent struct {
	// Sequence counts the run's events from 1, so that whoever has seen some can go on.
	Sequence int64         `json:"seq"`
	At       time.Duration `json:"at_ns"`
	Kind     EventKind     `json:"kind"`
	Text     string        `json:"text"`
}

// EventsAfter returns the snapshot's events with a larger sequence number.
func (s *Snapshot) EventsAfter(sequence int64) []LiveEvent {
	at, _ := slices.BinarySearchFunc(s.Events, sequence+1, func(e LiveEvent, want int64) int {
		return int(e.Sequence - want)
	})
	return s.Events[at:]
}

// WithoutFaults returns the snapshot as a person on call would see it, who has to find the cause: no faults, nothing
// that reveals them, no phases that they cause, and no signals. The end of a process is visible. That it was paused,
// or why it ended, is not.
func (s Snapshot) WithoutFaults() Snapshot {
	s.ActiveFaults, s.FaultsInjected = nil, 0
	if faulty(s.Phase) {
		s.Phase, s.Doing = history.PhaseSteady, ""
	}
	s.Instances = slices.Clone(s.Instances)
	for i := range s.Instances {
		switch s.Instances[i].Status {
		case InstancePaused:
			s.Instances[i].Status, s.Instances[i].Since = InstanceRunning, s.Instances[i].Ready
		case InstanceKilled, InstanceStopped:
			s.Instances[i].Status = InstanceCrashed
		}
	}
	s.Events = slices.DeleteFunc(slices.Clone(s.Events), func(e LiveEvent) bool {
		return e.Kind == EventFault || e.Kind == EventPhase && faulty(e.Text)
	})
	return s
}

func faulty(phase string) bool { return phase == history.PhaseFault || phase == history.PhaseHeal }

// StoreStates returns the states of a dead-letter store's entries, in the order of an entry's lifecycle.
func StoreStates() []history.StoreState {
	return []history.StoreState{
		history.StorePending, history.StoreProcessing, history.StoreResolved, history.StoreFailed, history.StoreManual,
		history.StoreArchived, history.StoreUnknown,
	}
}
