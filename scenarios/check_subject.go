package scenarios

// What a subject file can get wrong although every value is well written.

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// checkSubject checks a subject file; folder is what its paths are relative to.
func (d *document) checkSubject(s *SubjectFile, folder string) {
	c := newChecker(d, nil)
	for _, path := range []string{"/command", "/args", "/build", "/env", "/files", "/contract/group",
		"/contract/dlq/topic", "/contract/retry_topics", "/contract/health", "/contract/effects",
		"/topics", "/ready", "/replay", "/input/topic", "/input/topics", "/external", "/needs"} {
		d.checkTemplates(d.root.get(path))
	}
	for i := range s.Downstreams {
		d.checkTemplates(d.root.get(fmt.Sprintf("/downstreams/%d/kafka", i)))
		d.checkTemplates(d.root.get(fmt.Sprintf("/downstreams/%d/http/forward", i)))
	}
	c.checkKind(s)
	c.checkListen(s)
	c.checkReady("/ready", s.Ready)
	c.checkFiles("", s.Files)
	c.checkEnv("")
	c.checkNeeds(s)
	c.checkRecordHeaders("/record_headers", s.RecordHeaders)
	c.checkOwnStore(s.Store)
	c.checkClasses(s.Contract.Classes, s.answers())
	c.checkBackoff(s.Contract.Backoff)
	c.checkCalls(s)
	c.checkCommits(s)
	c.checkRetryTopics(s.Contract)
	c.checkExits(s.Contract)
	c.checkEnvelope(s.Contract.DLQ)
	c.checkShareGroup(s.Contract)
	c.checkInput(s, folder)
	c.checkTopicNames(s)
	c.checkDownstreams(s, folder)
	c.checkLetters(s)
	c.checkEffects(s)
}

// checkKind: each kind of subject is started by something else.
func (c *checker) checkKind(s *SubjectFile) {
	if !c.sound("/kind") {
		return
	}
	c.refuseIf(s.Kind != KindExternal && s.Kind != KindDeployment && c.has("/external"), "/external",
		"external goes with kind: external: dlqbench gives an instance that it starts free addresses")
	c.refuseIf(s.Kind != KindDeployment && c.has("/deployment"), "/deployment", "deployment goes with kind: deployment")
	switch s.Kind {
	case KindDeployment:
		c.checkDeployment(s)
	case KindExternal:
		c.checkExternal(s)
	case KindProcess:
		c.refuseIf(!c.has("/command"), "/kind", "command is missing: what starts the subject, such as command: [./orders]")
		c.refuseIf(c.has("/image"), "/image", "an image goes with kind: container")
	case KindContainer:
		c.refuseIf(strings.TrimSpace(s.Image) == "", "/kind",
			"image is missing: what the container is made of, such as image: orders:dev")
		c.refuseIf(c.has("/args") && !c.has("/command"), "/args",
			"args are appended to command: write the whole command of the container there")
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// names returns the keys of the mapping at the path, in the order of the file.
func (d *document) names(path string) []string {
	if n := d.root.get(path); n != nil && n.kind == mappingNode {
		return n.names
	}
	return nil
}

// checkFiles checks the paths of the files that are written for a program.
func (c *checker) checkFiles(base string, files map[string]string) {
	for _, name := range c.names(base + "/files") {
		if _, sound := files[name]; sound && !filepath.IsLocal(name) {
			c.add(c.root.get(base + "/files").fields[name].key,
				fmt.Sprintf("%q leads out of the work folder: write a relative path below it", name), "")
		}
	}
}

// checkEnv checks the names of environment variables.
func (c *checker) checkEnv(base string) {
	for _, name := range c.names(base + "/env") {
		if !envName.MatchString(name) {
			c.add(c.root.get(base + "/env").fields[name].key,
				fmt.Sprintf("%q can't be the name of an environment variable", name), "")
		}
	}
}

// checkReady checks what says that a program is ready.
func (c *checker) checkReady(base string, ready Ready) {
	var set []string
	for _, name := range c.names(base) {
		if name == "log" || name == "port" || name == "url" {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		c.at(base+"/"+set[1], "%s and %s exclude each other: keep the one that says when the subject is ready", set[0],
			set[1])
	}
	if _, err := regexp.Compile(ready.Log); err != nil {
		c.at(base+"/log", "this is not a regular expression: %v", err)
	}
	c.refuseIf(c.has(base+"/timeout") && ready.Timeout <= 0, base+"/timeout",
		"the subject needs some time to get ready, such as 30s")
}

func (c *checker) checkClasses(classes ClassesSpec, answers []classed) {
	claimed, lists := map[history.Outcome]string{}, classes.lists()
	for _, name := range []string{"retryable", "permanent", "logical"} {
		for i, written := range lists[name] {
			path := fmt.Sprintf("/contract/classes/%s/%d", name, i)
			outcomes, err := written.outcomes(answers)
			if err != nil {
				c.hinted(path, err.Error(), hint(string(written), []string{"timeout", "reset"}))
				continue
			}
			for _, outcome := range outcomes {
				if earlier := claimed[outcome]; earlier != "" {
					c.at(path, "%s is in classes.%s already: an outcome has one class", written, earlier)
					break
				}
			}
			for _, outcome := range outcomes {
				claimed[outcome] = name
			}
		}
	}
}

func (c *checker) checkBackoff(backoff BackoffSpec) {
	const base = "/contract/backoff"
	if !c.allSound(base) {
		return
	}
	if backoff.Initial == 0 {
		for _, name := range []string{"multiplier", "cap", "jitter", "late"} {
			c.refuseIf(c.has(base+"/"+name), base+"/"+name,
				"%s means nothing without a first wait: add initial, such as initial: 100ms", name)
		}
		return
	}
	c.refuseIf(backoff.Cap > 0 && backoff.Cap < backoff.Initial, base+"/cap",
		"the cap (%s) is less than the first wait (%s)", backoff.Cap, backoff.Initial)
}

// checkCalls: calls that a client repeats by itself are told from attempts by the waits.
func (c *checker) checkCalls(s *SubjectFile) {
	const path = "/contract/attempts/calls"
	if s.Contract.Attempts.Calls < 2 || !c.allSound("/contract") {
		return
	}
	switch {
	case s.Observe == ObserveWire:
		c.at(path, "observe: wire says that the subject makes no calls that can be watched: leave calls out")
	case s.Kafka() != nil:
		c.at(path, "a write that Kafka's client repeats by itself is one attempt in any case: leave calls out")
	case s.Contract.Retry != string(history.RetryInPlace):
		c.at(path, "calls goes with retry: in-place: only where a process makes the next attempt itself, its waits tell an "+
			"attempt from a call that the client repeats")
	case s.Contract.Backoff.Initial == 0:
		c.at(path, "without a promised wait, an attempt can't be told from a call that the client repeats: add backoff: "+
			"{initial: 1s}, with the wait between attempts, which must be longer than those of the client")
	}
}

// checkCommits: without commits, only outcomes show how far the subject is.
func (c *checker) checkCommits(s *SubjectFile) {
	const path = "/contract/commits"
	switch {
	case s.Contract.Commits.After != CommitsNever:
	case s.Contract.Transactions || s.Contract.OffsetMetadata != "":
		c.at(path, "transactions and offset_metadata are about offsets that are committed: leave them out, or commits: never")
	case s.Observe == ObserveWire:
		c.at(path, "with observe: wire, only commits show how far the subject is: describe what it calls or writes "+
			"(downstreams), or leave commits: never out")
	}
}

// checkShareGroup: what a member of a share group (KIP-932) can't promise, and what only one can.
func (c *checker) checkShareGroup(contract ContractSpec) {
	const base = "/contract/"
	share := contract.GroupType == string(history.GroupShare)
	delivery := contract.Attempts.Counter == string(history.CounterDelivery)
	redelivery := contract.Retry == string(history.RetryRedelivery)
	if !share {
		c.refuseIf(delivery, base+"attempts/counter",
			"delivery is the delivery count of a share group: it goes with group_type: share")
		c.refuseIf(contract.DLQ.WrittenBy == WrittenByBroker, base+"dlq/written_by",
			"brokers write the dead letters of share groups only (KIP-1191): it goes with group_type: share")
		return
	}
	c.refuseIf(delivery != redelivery && contract.Attempts.Counter != string(history.CounterStore), base+"group_type",
		"in a share group retry: redelivery and attempts.counter: delivery go together: a released record comes back, and "+
			"the broker counts how often")
	for _, wrong := range []struct {
		path, why string
		is        bool
	}{
		{"ordering", "a share group hands records of one key to several members at once: it keeps no order",
			contract.Ordering != string(history.OrderingNone)},
		{"retry", "share groups with retry topics can't be judged: write in-place or redelivery",
			contract.Retry == string(history.RetryTopics)},
		{"commits", "a share group acknowledges each record, so nothing is committed by time, and offsets are nowhere else",
			contract.Commits.After != commitsOutcome},
		{"offset_metadata", "a share group commits no offsets, so there is no offset metadata",
			contract.OffsetMetadata != ""},
		{"isolation", "in a share group no record waits behind another, so there is no isolation to promise",
			contract.Isolation.Share() > 0},
		{"attempts/max", "a broker gives a record up after group.share.delivery.count.limit deliveries, so none is tried " +
			"without a limit", contract.Attempts.Max == Unlimited},
		{"backoff/initial", "the broker decides when a released record comes back, so no wait can be promised", redelivery &&
			contract.Backoff.Initial > 0},
	} {
		c.refuseIf(wrong.is, base+wrong.path, "%s", wrong.why)
	}
}

// checkEnvelope: headers of the subject's own must be told apart, and nothing is promised of dead letters that nobody
// writes.
func (c *checker) checkEnvelope(dlq DLQSpec) {
	const path = "/contract/dlq/envelope"
	if !c.has(path) || !c.sound(path) {
		return
	}
	c.refuseIf(!dlq.Enabled && dlq.Envelope != "", path,
		"there are no dead letters with dlq.enabled: false: leave out one of the two")
	headers := map[string]string{}
	for field, header := range c.root.get(path).fields {
		headers[field] = header.text
	}
	if len(headers) == 0 {
		return
	}
	if _, err := deadletter.OwnHeadersName(headers); err != nil {
		c.at(path, "%s", err)
	}
}

// checkExits checks what ends a record or a process. A process ends because of a record only where it has no
// dead-letter topic for it and still holds it.
func (c *checker) checkExits(contract ContractSpec) {
	const path = "/contract/on_exhausted"
	c.refuseIf(contract.Attempts.Max == Unlimited && contract.OnExhausted != "", path,
		"with attempts: {max: unlimited} a record is tried until it succeeds: leave on_exhausted out")
	if contract.OnExhausted == consumer.ExhaustedExit {
		switch {
		case contract.DLQ.Enabled:
			c.at(path, "records that fail for good are dead-lettered: leave on_exhausted out, or say that there is no "+
				"dead-letter topic (dlq: {enabled: false})")
		case contract.Retry != string(history.RetryInPlace) ||
			contract.GroupType == string(history.GroupShare) || contract.Commits.After != commitsOutcome:
			c.at(path, "exit goes with retry: in-place, in a consumer group, and with commits: after-outcome")
		}
	}
	c.refuseIf(contract.Poison == string(history.PoisonDeadLetter) && !contract.DLQ.Enabled, "/contract/poison",
		"there are no dead letters with dlq.enabled: false: write poison: skip or halt, or leave it out")
	c.refuseIf(contract.Poison == string(history.PoisonHalt) && contract.GroupType == string(history.GroupShare),
		"/contract/poison", "the broker of a share group hands a record out a few times and then gives it up, so no "+
			"member can halt at it: write poison: dead-letter or skip, or leave it out")
	c.refuseIf(contract.OnUnhealthy == UnhealthyRestart && contract.Health == "", "/contract/on_unhealthy",
		"restart needs health: the URL by which an instance is seen to be unhealthy")
	c.refuseIf(c.has("/contract/order_of") && contract.Ordering == string(history.OrderingNone), "/contract/order_of",
		"order_of means nothing without an order: add ordering: key or partition")
}

func (c *checker) checkRetryTopics(contract ContractSpec) {
	const path = "/contract/retry_topics"
	topics := contract.Retry == string(history.RetryTopics)
	switch {
	case topics && !c.has(path):
		c.at("/contract/retry", "retry: topics needs retry_topics: the topics that retries go through, in order")
	case !topics && c.has(path) && c.sound("/contract/retry"):
		c.at(path, "retry_topics goes with retry: topics")
	}
	if i := slices.Index(contract.RetryTopics, ""); i >= 0 {
		c.at(fmt.Sprintf("%s/%d", path, i), "a topic needs a name")
	}
}

// topicName is what Kafka takes as the name of a topic.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// checkTopicNames checks the names of topics of the subject's own: each is legal, and no topic has two purposes.
func (c *checker) checkTopicNames(s *SubjectFile) {
	paths := []string{"/input/topic", "/contract/dlq/topic", "/contract/retry_topics", "/replay/to", "/topics",
		"/contract/effects", "/downstreams"}
	if slices.ContainsFunc(paths, func(path string) bool { return !c.allSound(path) }) {
		return
	}
	values, err := s.TakesFrom(Values{RunID: "run", GroupID: "run", InputTopic: "run.input", DLQTopic: "run.input.dlq"})
	if err != nil {
		return // checkTemplates has said so
	}
	rendered, err := s.Render(values)
	if err != nil {
		return
	}
	names, err := s.TopicNames(values)
	if err != nil {
		return
	}
	c.refuseIf(len(names.Retries) == 0 && c.has("/contract/retry_topics"), "/contract/retry_topics",
		"{{.RetryTopics}} are topics for each attempt but the last: set attempts.max to 2 or more, or name the topics")
	purposes := map[string]string{}
	claim := func(path, name, purpose string) {
		switch earlier := purposes[name]; {
		case name == "":
		case !topicName.MatchString(name) || name == "." || name == "..":
			c.at(path, "%q can't be the name of a topic: it has up to 249 letters, digits, dots, dashes and underscores", name)
		case earlier != "":
			c.at(path, "%s is the %s already: name another one as %s", name, earlier, purpose)
		default:
			purposes[name] = purpose
		}
	}
	for i, name := range names.Inputs {
		at := "/input/topic"
		if s.Input != nil && i < len(s.Input.Topics) {
			at = fmt.Sprintf("/input/topics/%d", i)
		}
		claim(at, name, "input topic")
	}
	for _, name := range names.DeadLetters {
		claim("/contract/dlq/topic", name, "dead-letter topic")
	}
	for i, name := range names.Retries {
		if slices.Contains(names.Inputs, name) {
			continue // a record that failed goes to the end of the input
		}
		claim(fmt.Sprintf("/contract/retry_topics/%d", i%len(s.Contract.RetryTopics)), name,
			fmt.Sprintf("retry topic %d", i+1))
	}
	if !slices.Contains(names.Inputs, rendered.Replay.To) {
		claim("/replay/to", rendered.Replay.To, "topic of replayed records")
	}
	for i, name := range rendered.Topics {
		claim(fmt.Sprintf("/topics/%d", i), name, "further topic")
	}
	known := slices.Clone(rendered.Topics)
	for i, one := range rendered.Downstreams {
		if one.Kafka != nil && !slices.Contains(rendered.Topics, one.Kafka.Topic) {
			claim(fmt.Sprintf("/downstreams/%d/kafka/topic", i), one.Kafka.Topic, "output topic")
			known = append(known, one.Kafka.Topic)
		}
	}
	if name := rendered.EffectsTopic(); name != "" && !slices.Contains(known, name) {
		claim("/contract/effects/topic", name, "output topic")
	}
}
