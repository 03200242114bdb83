package tap

import (
	"maps"
	"sync"

	"github.com/dlqbench/dlqbench/history"
)

// readers tells whose assignments and commits count for a topic. Some frameworks read retry topics with groups of their
// own: SmallRye with one for all of them, Spring's @RetryableTopic with one for each. A retry topic therefore belongs
// to the first group that is assigned it or commits it, until the run's group does so, which takes it over. What
// another group does with other topics is not recorded: it may read the input for a purpose of its own.
type readers struct {
	own   string // the run's group; "": every group counts
	roles []history.Topic

	mu sync.Mutex
	of map[int16]string // the other groups, by retry topic; own where the run's group took the topic over
	// seen: the run's group was assigned or committed something. instead is the first other group on each input topic.
	seen    bool
	instead map[int16]string
}

func newReaders(own string, topics []history.Topic) *readers {
	return &readers{own: own, roles: topics, of: map[int16]string{}, instead: map[int16]string{}}
}

// claims reports whether the group, which is assigned the topic or commits it, is the one that counts there.
func (r *readers) claims(group string, topic int16) bool {
	ours := r.own == "" || group == r.own
	if topic < 0 {
		return ours
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = r.seen || ours
	if role := r.roles[topic].Role; role != history.RoleRetry {
		if role == history.RoleInput && r.instead[topic] == "" && !ours {
			r.instead[topic] = group
		}
		return ours
	}
	if _, taken := r.of[topic]; ours && r.own != "" || !taken && !ours {
		r.of[topic] = group
	}
	return ours || r.of[topic] == group
}

// has reports whether the group still counts for a topic that it has claimed.
func (r *readers) has(group string, topic int16) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own == "" || group == r.own || r.of[topic] == group
}

// Instead returns the groups that read input topics, by the topic's index, if the run's group reads nothing: it has
// another name than the contract says.
func (t *Tap) Instead() map[int16]string {
	t.readers.mu.Lock()
	defer t.readers.mu.Unlock()
	if t.readers.seen {
		return nil
	}
	return maps.Clone(t.readers.instead)
}

// OtherGroups returns the groups that read topics of the run and are not the run's group, by the topic's index.
func (t *Tap) OtherGroups() map[int16]string {
	t.readers.mu.Lock()
	defer t.readers.mu.Unlock()
	others := maps.Clone(t.readers.of)
	maps.DeleteFunc(others, func(_ int16, group string) bool { return group == t.Group })
	return others
}
