package tap

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// partition names a partition of one of the run's topics.
type partition struct {
	topic  int16
	number int32
}

// topics finds the run's topics by name and by id. Ids are learned from passing answers, so a client can hardly use
// an unknown one. If it does (a consumer group assignment may come before the metadata), the tap asks for it.
type topics struct {
	list   []history.Topic
	byName map[string]int16

	mu    sync.RWMutex
	names map[[16]byte]string // "" for an id that is known to belong to none of the run's topics
	asked time.Time           // of the last failed query, so that brokers that are down are not queried for each frame
	// missing holds the topics that did not exist when a client last asked for them.
	missing map[string]bool
}

const (
	askLimit = 2 * time.Second
	askPause = time.Second
)

func newTopics(list []history.Topic) *topics {
	t := &topics{list: list, byName: map[string]int16{}, names: map[[16]byte]string{},
		missing: map[string]bool{}}
	for i := range list {
		t.byName[list[i].Name] = int16(i)
	}
	return t
}

// named returns the index of a topic, None if it is not one of the run's.
func (t *topics) named(name string) int16 {
	if i, ok := t.byName[name]; ok {
		return i
	}
	return history.None
}

// namedBytes is named for the undecoded bytes of a name. It does not allocate.
func (t *topics) namedBytes(name []byte) int16 {
	if i, ok := t.byName[string(name)]; ok {
		return i
	}
	return history.None
}

// learn notes a topic's id.
func (t *topics) learn(id [16]byte, name string) {
	if id == ([16]byte{}) || name == "" {
		return
	}
	t.mu.RLock()
	known := t.names[id] == name
	t.mu.RUnlock()
	if known {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[id] = name
}

// name returns the name for an id, "" if the topic is not of the run's. known is false for an id not seen yet.
func (t *topics) name(id [16]byte) (name string, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	name, known = t.names[id]
	return name, known
}

// topicOf returns the index of a topic that a message gives by id, if id is set, or by name.
func (c *conn) topicOf(name string, id [16]byte) int16 {
	if id == ([16]byte{}) {
		return c.tap.topics.named(name)
	}
	return c.tap.topics.named(c.nameOf(id))
}

// nameOf returns the name of the topic with the id, "" if it cannot be learned or the topic is none of the run's.
func (c *conn) nameOf(id [16]byte) string {
	if name, known := c.tap.topics.name(id); known {
		return name
	}
	if err := c.tap.topics.ask(c.tap.TopicIDs, id); err != nil {
		c.log.Warn().Err(err).Msg("a topic id is not known: what is done with that topic is not recorded now")
		return ""
	}
	name, _ := c.tap.topics.name(id)
	return name
}

// idOf returns the id of the topic with the name. It is known once any message has contained it.
func (t *topics) idOf(name string) (found [16]byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, known := range t.names {
		if known == name {
			return id
		}
	}
	return found
}

// ask learns the ids of the run's topics. An id that belongs to none of them is noted as foreign.
func (t *topics) ask(resolve func(context.Context, []string) (map[string][16]byte, error), id [16]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.names[id]; known {
		return nil
	}
	if time.Since(t.asked) < askPause {
		return fmt.Errorf("asking for topic ids: the last question failed less than %s ago", askPause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	var names []string
	for i := range t.list {
		names = append(names, t.list[i].Name)
	}
	ids, err := resolve(ctx, names)
	if err != nil {
		t.asked = time.Now()
		return fmt.Errorf("asking for topic ids: %w", err)
	}
	for name, id := range ids {
		t.names[id] = name
	}
	switch _, known := t.names[id]; {
	case known:
	case len(ids) < len(names): // the id may belong to a topic that is missing in the answer
		t.asked = time.Now()
		return fmt.Errorf("asking for topic ids: %d of the run's %d topics have none now", len(names)-len(ids), len(names))
	default:
		t.names[id] = ""
	}
	return nil
}

// learnTopics learns the topic ids in a response.
func (t *topics) learnTopics(response kmsg.Response) {
	told := func(id [16]byte, name *string, code int16) {
		if name != nil {
			t.learn(id, *name)
			t.miss(*name, code)
		}
	}
	switch r := response.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Topics {
			told(r.Topics[i].TopicID, r.Topics[i].Topic, r.Topics[i].ErrorCode)
		}
	case *kmsg.DescribeTopicPartitionsResponse:
		for i := range r.Topics {
			told(r.Topics[i].TopicID, r.Topics[i].Topic, r.Topics[i].ErrorCode)
		}
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			told(r.Topics[i].TopicID, &r.Topics[i].Topic, r.Topics[i].ErrorCode)
		}
	}
}

// miss notes whether a topic exists, by the error code of an answer about it.
func (t *topics) miss(name string, code int16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch code {
	case kerr.UnknownTopicOrPartition.Code:
		t.missing[strings.Clone(name)] = true
	case 0:
		delete(t.missing, name)
	}
}

// Missing returns the topics that did not exist when the subject last asked for them, sorted. Clients wait for such a
// topic, a producer for a minute with each record, and few say which one it is.
func (t *Tap) Missing() []string {
	t.topics.mu.RLock()
	defer t.topics.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.topics.missing))
}
