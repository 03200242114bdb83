package scenarios

// Dead letters that go to a downstream, such as a ticket service, an error store or a table, in the place of a topic.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Letters returns the name of the downstream that takes the dead letters, "" if a topic does, or if there are none.
func (s *SubjectFile) Letters() string {
	if !s.Contract.DLQ.Enabled {
		return ""
	}
	return s.Contract.DLQ.Downstream
}

// checkLetters checks that the downstream that takes the dead letters can, and that nothing is said of a topic.
func (c *checker) checkLetters(s *SubjectFile) {
	const base, path = "/contract/dlq", "/contract/dlq/downstream"
	name := s.Contract.DLQ.Downstream
	if name == "" || !c.allSound(base) || !c.allSound("/downstreams") {
		return
	}
	for _, key := range []string{"topic", "envelope", "partition", "written_by", "keeps_key", "keeps_value",
		"keeps_headers"} {
		c.refuseIf(c.has(base+"/"+key), base+"/"+key,
			"the dead letters go to a downstream, and what is in them is not judged: leave %s out, or downstream", key)
	}
	c.refuseIf(!s.Contract.DLQ.Enabled, path,
		"there are no dead letters with dlq.enabled: false: leave out one of the two")
	c.refuseIf(s.Contract.Transactions, "/contract/transactions",
		"dead letters that go to a downstream are in no transaction of Kafka's: leave transactions out")
	c.refuseIf(c.has("/replay"), "/replay", "dead letters are replayed from a topic, and these go to a downstream: "+
		"leave replay out")
	c.checkAbsent(c.root, `\.DLQTopic\b`, "the dead letters go to the downstream "+name+
		", so there is no dead-letter topic: use {{.DownstreamURLs."+name+"}}, or {{.DatabaseURL}}")
	var known []string
	for i, one := range s.Downstreams {
		if known = append(known, one.Called()); one.Called() != name {
			continue
		}
		c.refuseIf(i == s.deciding(), path, "%s decides what becomes of a record, so its calls are attempts: add a "+
			"downstream that takes the dead letters, behind it in the list", name)
		c.refuseIf(one.Kafka != nil, path, "%s is a topic: write dlq: {topic: %q}, and leave it out of downstreams", name,
			one.Kafka.topic())
		c.refuseIf(one.Optional, fmt.Sprintf("/downstreams/%d/optional", i), "a record that needs a dead letter is not "+
			"finished without it: leave optional out")
		return
	}
	c.hinted(path, fmt.Sprintf("there is no downstream %s: name one of downstreams (%s)", name, strings.Join(known, ", ")),
		hint(name, known))
}

// notReplayed says that dead letters are not replayed if a downstream takes them.
func (t *ContractText) notReplayed(subject *SubjectFile) {
	const name = "replay-round-trip"
	if subject == nil || subject.Letters() == "" {
		return
	}
	t.Judged = slices.DeleteFunc(t.Judged, func(r Reason) bool { return r.Invariant == name })
	t.NotJudged = append(t.NotJudged, Reason{Invariant: name, Why: "the dead letters go to the downstream " +
		subject.Letters() + ", and are replayed from a topic"})
}

func (k *KafkaDownstream) topic() string {
	if k == nil {
		return ""
	}
	return k.Topic
}

// unfitLetters says why the scenario shows nothing of a subject whose dead letters go to a downstream; "" if it does.
func (s *Scenario) unfitLetters(subject *SubjectFile) string {
	if subject.Letters() == "" || s.Replay == nil && s.Topics.DLQ.Foreign == 0 &&
		!slices.ContainsFunc(s.Written(), s.needsLetterTopic) {
		return ""
	}
	return fmt.Sprintf("%s is about a dead-letter topic, and the subject's dead letters go to the downstream %s: write "+
		"dlq: {topic: …} in its contract if it has such a topic, or run another scenario", s.Name, subject.Letters())
}

// needsLetterTopic reports whether the fault hits the dead-letter topic in a way that no downstream can be hit.
func (s *Scenario) needsLetterTopic(f catalogue.Spec) bool {
	if f.Kafka != nil && f.Kafka.HitsLetters() {
		_, found := atDownstream(f.Kafka)
		return !found
	}
	return f.Broker != nil && f.Broker.Broker > 0 && f.Broker.Broker == s.Topics.DLQ.Broker
}

// onePartition is the share of dead letters that stands for those of one partition of their topic.
const onePartition = 0.25

// atDownstream returns the fault of a downstream that does to calls what this one does to writes of dead letters; false
// if there is none.
func atDownstream(k *kafka.Kafka) (as downstream.Downstream, found bool) {
	share := k.Probability
	if k.EveryNth > 0 {
		share /= units.Percent(k.EveryNth)
	}
	if k.Partition != nil {
		share *= onePartition
	}
	refused, _ := kafka.ErrorCode(k.Error)
	switch {
	case k.Instance != nil || k.Version != nil || k.ClientID != "" || k.Nth > 0:
		return as, false
	case strings.Contains(k.Error, "PRODUCER") || strings.Contains(k.Error, "SEQUENCE"):
		return as, false // of the state of an idempotent producer
	case k.Error != "" && kerr.IsRetriable(kerr.ErrorForCode(refused)) && share == 1:
		as.Outage = true
	case k.Error != "" && kerr.IsRetriable(kerr.ErrorForCode(refused)):
		as.Errors = &downstream.Errors{Transient: share}
	case k.Error != "":
		as.Errors = &downstream.Errors{Permanent: share}
	case k.DropRequest || k.DropResponse:
		as.Errors = &downstream.Errors{Timeout: share}
	case k.Close:
		as.Errors = &downstream.Errors{Reset: share}
	case k.DelayRequest+k.DelayResponse > 0 && share == 1:
		as.Slow = k.DelayRequest + k.DelayResponse
	default:
		return as, false
	}
	return as, true
}

// fitLetters lets the faults of a shipped scenario that are written for a dead-letter topic hit the downstream that
// takes the subject's dead letters.
func (d *document) fitLetters(subject *SubjectFile) {
	letters := subject.Letters()
	if _, shipped := Shipped(d.name); !shipped || letters == "" {
		return
	}
	for _, path := range []string{"/faults", "/drill/faults"} {
		list := d.root.get(path)
		if list == nil || list.kind != listNode {
			continue
		}
		for _, fault := range list.items {
			if link := fault.get("/network/link"); link != nil && link.text == string(history.RoleDLQ) {
				link.text = history.TargetOther + letters
				link.scalar = link.text
			}
			d.fitWrites(fault, letters)
		}
	}
}

// fitWrites puts a fault of the downstream in the place of one of writes to the dead-letter topic.
func (d *document) fitWrites(fault *node, letters string) {
	written := fault.get("/kafka")
	if written == nil || written.at.file != d.name {
		return
	}
	var k kafka.Kafka
	text, err := json.Marshal(written.value(true))
	if err != nil || json.Unmarshal(text, &k) != nil || !k.HitsLetters() {
		return // what is wrong with it is found later
	}
	as, found := atDownstream(&k)
	if !found {
		return
	}
	as.Name = letters
	var plain any
	if text, err = json.Marshal(as); err != nil || json.Unmarshal(text, &plain) != nil {
		return
	}
	fault.drop("kafka")
	fault.put("downstream", built(plain, written.key))
}

// built returns the node of a value that is written at the place.
func built(value any, at place) *node {
	fields, is := value.(map[string]any)
	if !is {
		return &node{key: at, at: at, scalar: value, text: fmt.Sprint(value)}
	}
	n := &node{key: at, at: at, kind: mappingNode, fields: map[string]*node{}}
	for name, one := range fields {
		n.names, n.fields[name] = append(n.names, name), built(one, at)
	}
	slices.Sort(n.names)
	return n
}
