package tap

import (
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// process is one process of a subject instance: the state that outlives its single connections.
type process struct {
	tap      *Tap
	instance int
	run      uint16
	fetching chan struct{} // closed by the first fetch that shows it is ready

	mu       sync.Mutex
	ready    bool
	grouped  bool // it has used a group protocol
	members  map[memberID]*member
	leaves   map[memberID]int         // how often a member has left
	asked    map[string]time.Duration // by group, the last session timeout that it asked for
	count    int32                    // number of members when last counted, at time counted; 0 if never counted
	counted  time.Duration
	sought   time.Duration // when it last looked for its group in vain, or waited for its group's answer
	sessions map[session]*fetchSession
	asking   map[partition]*conn // which connection asks for a partition
	refused  map[[2]int16]bool   // APIs and versions that were refused as unreadable
}

func newProcess(t *Tap, instance int, run uint16) *process {
	return &process{
		tap: t, instance: instance, run: run, fetching: make(chan struct{}),
		members: map[memberID]*member{}, leaves: map[memberID]int{}, asked: map[string]time.Duration{},
		sessions: map[session]*fetchSession{},
		asking:   map[partition]*conn{}, refused: map[[2]int16]bool{},
	}
}

// firstUnreadable reports whether this is the process's first use of an API and version that the tap does not read.
func (p *process) firstUnreadable(key, version int16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := [2]int16{key, version}
	first := !p.refused[at]
	p.refused[at] = true
	return first
}

func (p *process) event(kind history.Kind, at time.Duration) history.Event {
	e := history.New(kind, at)
	e.Instance, e.Run = int16(p.instance), p.run
	return e
}

// observesGroup reports whether membership in the group is recorded.
func (t *Tap) observesGroup(group string) bool { return t.Group == "" || t.Group == group }

// flagsOf returns what events about the group's partitions say of it.
func (t *Tap) flagsOf(group string) history.Flags {
	if t.observesGroup(group) {
		return 0
	}
	return history.OtherGroup
}
