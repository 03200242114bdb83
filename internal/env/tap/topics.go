package tap

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
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
// an unknown one. If it does (a consumer group assignment may come before the metadata), the tap queries the id
// itself.
type topics struct {
	list   []history.Topic
	byName map[string]int16

	mu    sync.RWMutex
	names map[[16]byte]string // "" for an id that is known to belong to none of the run's topics
	asked time.Time           // of the last failed query, so that a dead link is not queried for each frame
	// missing holds the topics that did not exist when a client last asked for them.
	missing map[string]bool
}

const (
	askLimit = 2 * time.Second
	askPause = time.Second
	// askVersion is the first Metadata version with topic ids.
	askVersion = 10
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
	if err := c.tap.topics.ask(c.resolver(), id); err != nil {
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

// resolver returns the function that queries topic ids: the one in the tap's Config, or a query to the broker.
func (c *conn) resolver() func(context.Context, []string) (map[string][16]byte, error) {
	if c.tap.TopicIDs != nil {
		return c.tap.TopicIDs
	}
	return c.to.topicIDs
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

// topicIDs queries the broker, on a separate connection and without credentials.
func (u Upstream) topicIDs(ctx context.Context, names []string) (map[string][16]byte, error) {
	link, err := u.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = link.Close() }()
	deadline, _ := ctx.Deadline() // no deadline here means none for the link either
	if err := link.SetDeadline(deadline); err != nil {
		return nil, err
	}
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(askVersion)
	for i := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &names[i]
		request.Topics = append(request.Topics, topic)
	}
	if _, err := link.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		return nil, err
	}
	response, err := readMetadata(link)
	if err != nil {
		return nil, err
	}
	ids := map[string][16]byte{}
	for _, topic := range response.Topics {
		if topic.Topic != nil && topic.ErrorCode == 0 {
			ids[*topic.Topic] = topic.TopicID
		}
	}
	return ids, nil
}

// open opens a connection to the broker.
func (u Upstream) open(ctx context.Context) (net.Conn, error) {
	conn, err := u.Dial(ctx)
	if err != nil || u.TLS == nil {
		return conn, err
	}
	secured := tls.Client(conn, u.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// readMetadata reads the answer to the first request on a connection.
func readMetadata(link net.Conn) (*kmsg.MetadataResponse, error) {
	var pool frames
	answer, err := pool.read(bufio.NewReader(link))
	if err != nil {
		return nil, err
	}
	head := header{key: keyMetadata, version: askVersion, flexible: true}
	body, err := head.responseHeader(answer.payload())
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(answer.payload()) != 1 {
		return nil, fmt.Errorf("the answer belongs to another request")
	}
	response := kmsg.NewPtrMetadataResponse()
	response.SetVersion(askVersion)
	return response, response.ReadFrom(answer.payload()[body:])
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
