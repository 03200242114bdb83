package kafka

// This file defines how faults of Kafka requests are written, checked, described and explained.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Kafka acts on requests that the tap sees. Exactly one of Error, DelayRequest, DelayResponse, DropRequest,
// DropResponse, Close, LeaderLoss, Throttle is set; the other fields say which requests match, and all of them must.
type Kafka struct {
	// API is Kafka's name of the request.
	API string `json:"api" jsonschema:"required,enum=Produce,enum=Fetch,enum=OffsetCommit,enum=TxnOffsetCommit,enum=AddPartitionsToTxn,enum=AddOffsetsToTxn,enum=EndTxn,enum=Metadata,enum=FindCoordinator,enum=JoinGroup,enum=SyncGroup,enum=Heartbeat,enum=ConsumerGroupHeartbeat,enum=InitProducerId,enum=ShareGroupHeartbeat,enum=ShareFetch,enum=ShareAcknowledge"`
	// Topic limits it to requests that touch the topic: "input", "retry", "dlq" or a topic's name; Partition to those
	// that touch that partition of it.
	Topic     string `json:"topic,omitempty"`
	Partition *int   `json:"partition,omitempty" jsonschema:"minimum=0"`
	// Group limits it to requests of that consumer group, "subject" being the subject's own; ClientID to those with
	// that client id.
	Group    string `json:"group,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	// Instance limits it to one instance, Version to requests of that version.
	Instance *int `json:"instance,omitempty" jsonschema:"minimum=0"`
	Version  *int `json:"version,omitempty" jsonschema:"minimum=0"`
	// Nth hits only the nth matching request, EveryNth every nth, both counted from 1 from the start of the fault.
	Nth      int `json:"nth,omitempty" jsonschema:"minimum=1"`
	EveryNth int `json:"every_nth,omitempty" jsonschema:"minimum=1"`
	// Probability is the share of matching requests that is hit, drawn from the seed; default 100%.
	Probability units.Percent `json:"probability,omitempty"`

	// Error is Kafka's name of an error code (NOT_ENOUGH_REPLICAS) answered in the broker's place, for the partitions
	// that match where the API has partitions.
	Error string `json:"error,omitempty"`
	// DelayRequest holds the request back before the broker sees it, DelayResponse the broker's answer before the
	// client sees it.
	DelayRequest  units.Duration `json:"delay_request,omitempty"`
	DelayResponse units.Duration `json:"delay_response,omitempty"`
	// DropRequest: neither does the broker see the request nor the client an answer. DropResponse: the broker does it,
	// the answer never reaches the client.
	DropRequest  bool `json:"drop_request,omitempty"`
	DropResponse bool `json:"drop_response,omitempty"`
	// Close closes the client's connection in place of passing the request on.
	Close bool `json:"close,omitempty"`
	// LeaderLoss: the leader fails before another broker has the write. A write that waits for the leader alone (acks=1)
	// is acknowledged and lost, one that waits for all replicas finds its connection closed.
	LeaderLoss bool `json:"leader_loss,omitempty"`
	// Throttle is written into the answer's throttle_time_ms, as a broker does that enforces a quota (KIP-219: the
	// client waits). Clients that use earlier versions of the API do not wait; for them the answer is held that long.
	Throttle units.Duration `json:"throttle,omitempty"`
}

// UnmarshalJSON fills in the default of Probability, which is not the zero value.
func (k *Kafka) UnmarshalJSON(data []byte) error {
	type plain Kafka
	*k = Kafka{Probability: 1}
	return json.Unmarshal(data, (*plain)(k))
}

// The names of the requests in Kafka's protocol.
const (
	apiProduce         = "Produce"
	apiFetch           = "Fetch"
	apiOffsetCommit    = "OffsetCommit"
	apiTxnOffsetCommit = "TxnOffsetCommit"
	apiAddPartitions   = "AddPartitionsToTxn"
	apiAddOffsets      = "AddOffsetsToTxn"
	apiEndTxn          = "EndTxn"
	apiMetadata        = "Metadata"
	apiFindCoordinator = "FindCoordinator"
	apiJoinGroup       = "JoinGroup"
	apiSyncGroup       = "SyncGroup"
	apiHeartbeat       = "Heartbeat"
	apiConsumerGroup   = "ConsumerGroupHeartbeat"
	apiShareGroup      = "ShareGroupHeartbeat"
	apiShareFetch      = "ShareFetch"
	apiShareAck        = "ShareAcknowledge"

	// protocolConsumer is the group protocol of KIP-848. protocolShare stands for share groups (KIP-932).
	protocolConsumer = "consumer"
	protocolShare    = "share"

	roleInput = "input"
	roleRetry = "retry"
	roleDLQ   = "dlq"
	// ownGroup stands for the subject's own consumer group, whatever its name.
	ownGroup = "subject"
)

// The properties that distinguish requests. The other criteria (client id, instance, version, count, share) work for
// all requests. A Metadata request names topics only; the partitions are in its response.
const (
	withTopics     = "Produce, Fetch, OffsetCommit, TxnOffsetCommit, Metadata"
	withPartitions = "Produce, Fetch, OffsetCommit, TxnOffsetCommit"
	withGroup      = "OffsetCommit, TxnOffsetCommit, FindCoordinator, JoinGroup, SyncGroup, Heartbeat, " +
		"ConsumerGroupHeartbeat, ShareGroupHeartbeat, ShareFetch, ShareAcknowledge"
)

func listed(names, name string) bool { return slices.Contains(strings.Split(names, ", "), name) }

// longestThrottle is the maximum value of throttle_time_ms.
const longestThrottle = math.MaxInt32 * time.Millisecond

// action is one fault of Kafka requests. The fault's rule holds the settings of all of them.
type action = faults.Action[Kafka, struct{}]

// actions returns all faults of Kafka requests.
func actions() []action { return append(refusals(), losses()...) }

const made = "The tap, the protocol-aware proxy between the subject and Kafka, acts on the requests that match " +
	"all of: api, topic (input, retry, dlq or a name) and partition, group (subject is its own), client_id, instance, " +
	"version, nth or every_nth (counted from the start of the fault) and, drawn from the seed, probability."

func keys(own string) []string {
	return []string{
		"kafka.api", "kafka.topic", "kafka.partition", "kafka.group", "kafka.client_id", "kafka.instance", "kafka.version",
		"kafka.nth", "kafka.every_nth", "kafka.probability", own,
	}
}

func refusals() []action {
	return []action{{
		Blocks: true,
		What:   func(k *Kafka) string { return "answered " + k.Error },
		Entry: faults.Entry{
			Name: "kafka.error", Summary: "The broker refuses a request.", Made: made + " Errors that would be untrue are " +
				"refused: a client that gets DUPLICATE_SEQUENCE_NUMBER believes that its record is written.",
			Does: "The tap answers the request with a Kafka error, only for matching partitions if the request has " +
				"partitions. The broker never sees that part, so nothing of it is written or committed.",
			Shows: "A correct consumer retries if the error is retriable; otherwise it holds the offset back and reports the " +
				"error. Bugs: an error of one partition taken for the success of all, a commit past a refused dead letter, a " +
				"refused commit that ends all work.",
			Effects: []string{"requests answered NOT_ENOUGH_REPLICAS (or whichever error it is)"}, Keys: keys("kafka.error"),
			Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}"},
	}, {
		What: func(k *Kafka) string { return fmt.Sprintf("held back for %s", k.DelayRequest) },
		Entry: faults.Entry{Name: "kafka.delay_request", Summary: "A request reaches the broker late.", Made: made,
			Does: "The request is held back before the broker sees it. Requests queued behind it on the same connection " +
				"wait too.",
			Shows: "A correct consumer waits. Bugs: a commit on another connection that overtakes the dead letter, " +
				"heartbeats that are late because they share a connection with slow requests.",
			Effects: []string{"requests delayed"}, Keys: keys("kafka.delay_request"),
			Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, delay_request: 300ms}}"},
	}, {
		What: func(k *Kafka) string { return fmt.Sprintf("answered %s late", k.DelayResponse) },
		Entry: faults.Entry{Name: "kafka.delay_response", Summary: "The broker answers late.", Made: made,
			Does: "The broker executes the request at once and its response is held back, which exposes a subject that does " +
				"not wait for it. Responses on one connection stay in order, so later ones wait too.",
			Shows: "A correct consumer commits only after the response. Bugs: commits that do not wait for the dead letter's " +
				"acknowledgement (fire and forget, an ignored future).",
			Effects: []string{"responses delayed"}, Keys: keys("kafka.delay_response"),
			Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, delay_response: 300ms}}"},
	}}
}

func losses() []action {
	return []action{{
		Blocks: true,
		What:   func(*Kafka) string { return "lost on the way to the broker" },
		Entry: faults.Entry{Name: "kafka.drop_request", Summary: "A request is lost.", Made: made,
			Does: "The broker does not see the request and the subject gets no response. The connection is closed when the " +
				"fault is over.",
			Shows: "A correct consumer repeats the request after its timeout. Bugs: a dead letter that was sent once and " +
				"counts as written, a rebalance that never ends.",
			Effects: []string{"requests dropped", "connections closed"}, Keys: keys("kafka.drop_request"),
			Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, nth: 1, drop_request: true}}"},
	}, {
		Blocks: true,
		What:   func(*Kafka) string { return "carried out, the answer lost" },
		Entry: faults.Entry{Name: "kafka.drop_response", Summary: "An acknowledgement is lost.", Made: made,
			Does: "The broker executes the request, but the response never reaches the subject: a dead letter is written, " +
				"or an offset committed, without the subject's knowledge.",
			Shows: "A correct consumer writes the dead letter again, or commits again; a second copy is justified. Bugs: " +
				"silence taken for success, silence that stops all work for good.",
			Effects: []string{"responses dropped", "connections closed"}, Keys: keys("kafka.drop_response"),
			Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, instance: 0, probability: 50%, drop_response: true}}"},
	}, {
		Blocks: true,
		What:   func(*Kafka) string { return "answered by closing the connection" },
		Entry: faults.Entry{Name: "kafka.close", Summary: "The broker closes the connection.", Made: made,
			Does: "The subject's connection is closed instead of passing the request on. Other requests in flight on it " +
				"stay unanswered.",
			Shows: "A correct consumer reconnects and repeats the request. Bugs: a request that is repeated without end or " +
				"never, a consumer that ends with its connection.",
			Effects: []string{"connections closed"}, Keys: keys("kafka.close"),
			Example: "{at: 1s, for: 2s, kafka: {api: Fetch, every_nth: 5, close: true}}"},
	}, {
		Blocks: true,
		What:   func(*Kafka) string { return "lost with the leader" },
		Entry: faults.Entry{
			Name: "kafka.leader_loss", Summary: "A leader fails before others have what it wrote.", Made: made,
			Does: "A write that waits for the leader alone (acks=1) is acknowledged, and no broker has it. One that waits for " +
				"nothing (acks=0) is lost. Where the client waits for all replicas (acks=all), nothing is acknowledged: its " +
				"connection is closed.",
			Shows: "A correct consumer waits for all replicas, and writes again. Bugs: a producer of dead letters or retry " +
				"copies with acks=1 or acks=0, the default of many clients.",
			Effects: []string{"writes acknowledged and lost", "requests dropped", "connections closed"},
			Keys:    keys("kafka.leader_loss"),
			Example: "{at: 1s, for: 500ms, kafka: {api: Produce, topic: dlq, leader_loss: true}}"},
	}, {
		What: func(k *Kafka) string { return fmt.Sprintf("throttled by %s", k.Throttle) },
		Entry: faults.Entry{Name: "kafka.throttle", Summary: "The broker enforces a quota.", Made: made,
			Does: "The response's throttle_time_ms tells the client how long to send nothing (KIP-219). A response of an " +
				"earlier version of the API is held that long.",
			Shows: "A correct consumer only slows down. Bugs: polls or heartbeats that stop with the throttled connection, " +
				"so that the partition is lost.",
			Effects: []string{"responses throttled"}, Keys: keys("kafka.throttle"),
			Example: "{at: 1s, for: 2s, kafka: {api: Fetch, throttle: 200ms}}"},
	}}
}

// Entries implements faults.Fault.
func (*Kafka) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (k *Kafka) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), k)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(k)
	traits.What = k.requests() + " " + traits.What + k.share()
	traits.Target, traits.Name, traits.Patient = k.target(), faults.Dashed(k.API+" "+chosen.Key()), true
	traits.API, traits.Instance, traits.Idle = k.plainAPI(), k.Instance, k.idle()
	if chosen.Blocks && k.hitsEveryDeadLetter() {
		traits.Blocks = faults.EveryBroker
	}
	return traits
}

// idle returns the reasons for which the fault may have no effect.
func (k *Kafka) idle() history.Idle {
	idle := history.Idle{
		Needs:  history.NeedRecord,
		Why:    "no request matched while it was in force (" + history.InForce + ")",
		Passed: "of the requests that came while it was in force it picked none",
		Do:     "make it longer, or plan records that cause such requests (" + k.target() + ")",
	}
	switch {
	case k.API == apiProduce && k.Topic == roleDLQ:
		idle.Needs = history.NeedDeadLetter
	case k.API == apiAddPartitions, k.API == apiAddOffsets:
		idle.Do += "; clients with transaction protocol 2 (KIP-890, Kafka 4.0) do not send them: use EndTxn or " +
			"TxnOffsetCommit for those"
	}
	return idle
}

// hitsEveryDeadLetter reports whether every write to the DLQ topic matches. A fault that hits only some writes (one
// instance, one partition, one version, some client ids, the nth, a share) lets the others through.
func (k *Kafka) hitsEveryDeadLetter() bool {
	// Group is not checked, because a Produce request names no group.
	everyone := k.Instance == nil && k.Partition == nil && k.Version == nil && k.ClientID == "" &&
		k.Nth == 0 && k.EveryNth <= 1 && k.Probability >= 1
	return everyone && k.API == apiProduce && (k.Topic == "" || k.Topic == roleDLQ)
}

// requests describes which requests match.
func (k *Kafka) requests() string {
	text := k.API
	if k.Nth > 0 {
		text = ordinal(k.Nth) + " " + text
	}
	if k.Version != nil {
		text += fmt.Sprintf(" v%d", *k.Version)
	}
	return text + k.scope()
}

// share describes which share of the matching requests is hit, "" if all are.
func (k *Kafka) share() string {
	var share []string
	if k.EveryNth > 1 {
		share = append(share, fmt.Sprintf("every %s of the requests", ordinal(k.EveryNth)))
	}
	if k.Probability > 0 && k.Probability < 1 {
		share = append(share, fmt.Sprintf("%s of the requests", k.Probability))
	}
	if len(share) == 0 {
		return ""
	}
	return " (" + strings.Join(share, ", ") + ")"
}

// scope describes what the requests touch and who sends them.
func (k *Kafka) scope() string {
	var text strings.Builder
	preposition := map[string]string{apiFetch: " from ", apiOffsetCommit: " for ", apiTxnOffsetCommit: " for ",
		apiMetadata: " of "}[k.API]
	preposition = cmp.Or(preposition, " to ")
	switch {
	case k.Topic != "" && k.Partition != nil:
		fmt.Fprintf(&text, "%s%s/%d", preposition, k.Topic, *k.Partition)
	case k.Topic != "":
		text.WriteString(preposition + k.Topic)
	}
	if k.Group != "" && k.Group != ownGroup {
		text.WriteString(" of group " + k.Group)
	}
	if k.ClientID != "" {
		text.WriteString(" by client " + k.ClientID)
	}
	if k.Instance != nil {
		fmt.Fprintf(&text, " by instance %d", *k.Instance)
	}
	return text.String()
}

// ordinal writes 1st, 2nd, 3rd, 4th, 11th, 21st.
func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100; tens < 11 || tens > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// plainAPI returns the request that k affects, "" if only some requests of its target match.
func (k *Kafka) plainAPI() string {
	if k.ClientID != "" || k.Version != nil || k.Partition != nil || k.Group != "" && k.Group != ownGroup ||
		k.Topic != "" && k.Instance != nil {
		return ""
	}
	return k.API
}

func (k *Kafka) target() string {
	switch {
	case k.Topic != "":
		return k.Topic
	case k.Instance != nil:
		return fmt.Sprintf("instance %d", *k.Instance)
	}
	return "every instance"
}

// Validate implements faults.Fault.
func (k *Kafka) Validate(setting faults.Setting) []faults.Defect {
	_, defects := faults.CheckActions(actions(), k)
	return slices.Concat(defects, k.unmade(setting), k.error(),
		faults.AtIf(k.Probability <= 0, "/probability", "at 0%% this fault could have no effect"),
		faults.AtIf(k.LeaderLoss && k.API != apiProduce, "/api", "only a Produce can be lost with its leader: api: Produce"),
		faults.AtIf(k.Nth > 0 && k.EveryNth > 0, "/every_nth",
			"nth and every_nth exclude each other: nth selects one request, every_nth every n-th request"),
		k.topic(setting), k.partition(setting), k.group(setting), k.throttle(),
		faults.CheckInstance(k.Instance, max(setting.Instances, setting.MaxInstances)))
}

// OfClassicGroup reports whether the fault hits only requests made by members of a classic group. Under KIP-848 there
// are no such requests.
func (k *Kafka) OfClassicGroup() bool {
	return slices.Contains([]string{apiJoinGroup, apiSyncGroup, apiHeartbeat}, k.API)
}

// OfGroup reports whether the fault hits only requests that a consumer makes as a member of a group.
func (k *Kafka) OfGroup() bool {
	return k.OfClassicGroup() || slices.Contains([]string{apiFindCoordinator, apiConsumerGroup, apiShareGroup}, k.API)
}

// HitsLetters reports whether the fault hits writes to the DLQ topic, and only these.
func (k *Kafka) HitsLetters() bool { return k.API == apiProduce && k.Topic == roleDLQ }

// OfCommits reports whether the fault hits only commits of offsets.
func (k *Kafka) OfCommits() bool { return k.API == apiOffsetCommit || k.API == apiTxnOffsetCommit }

// unmade rejects requests that the reference consumer never makes.
func (k *Kafka) unmade(setting faults.Setting) []faults.Defect {
	reference := setting.Reference
	if reference == nil {
		return nil
	}
	at := func(message string) []faults.Defect {
		return faults.At("/api", "%s", message+", so this fault could have no effect")
	}
	classic := k.OfClassicGroup()
	transactional := slices.Contains([]string{apiTxnOffsetCommit, apiAddPartitions, apiAddOffsets, apiEndTxn}, k.API)
	shared := slices.Contains([]string{apiShareGroup, apiShareFetch, apiShareAck}, k.API)
	grouped := classic || slices.Contains([]string{apiConsumerGroup, apiFetch, apiOffsetCommit}, k.API)
	switch {
	case transactional && !reference.Transactions:
		return at("the reference consumer uses no transactions (transactions: true)")
	case k.API == apiOffsetCommit && reference.Transactions:
		return at("with transactions: true offsets are committed by TxnOffsetCommit and EndTxn")
	case shared && reference.GroupProtocol != protocolShare:
		return at("the reference consumer is in no share group (group_protocol: share for KIP-932)")
	case grouped && reference.GroupProtocol == protocolShare:
		return at(fmt.Sprintf(
			"with group_protocol: share (KIP-932) there is no %s, only ShareGroupHeartbeat, ShareFetch and ShareAcknowledge",
			k.API))
	case k.API == apiConsumerGroup && reference.GroupProtocol != "" && reference.GroupProtocol != protocolConsumer:
		return at("the reference consumer uses the classic group protocol (group_protocol: consumer for KIP-848)")
	case classic && reference.GroupProtocol == protocolConsumer:
		return at(fmt.Sprintf("with group_protocol: consumer (KIP-848) there is no %s, only ConsumerGroupHeartbeat", k.API))
	case (k.API == apiProduce || k.API == "InitProducerId") && setting.NoDeadLetters && setting.NoRetryTopics:
		return at("without dead letters of its own (dlq_enabled, dlq_written_by) and without retry topics the reference " +
			"consumer writes nothing")
	}
	return nil
}

// error checks the error's name. Two errors would be lies, because no broker returns them there: a correct client
// believes them and then loses or duplicates records because of the fault and not because of a bug.
func (k *Kafka) error() []faults.Defect {
	at := func(message string) []faults.Defect { return faults.At("/error", "%s", message) }
	switch {
	case k.Error == "":
		return nil
	case !slices.Contains(ErrorNames(), k.Error):
		return []faults.Defect{{Path: "/error", Message: fmt.Sprintf("%q is no Kafka error", k.Error), Got: k.Error,
			Known: ErrorNames()}}
	case k.API == apiProduce && k.Error == "DUPLICATE_SEQUENCE_NUMBER":
		return at(
			"clients take DUPLICATE_SEQUENCE_NUMBER for a yes: the record would be lost by this fault, not by the subject")
	case k.API == apiFetch && k.Error == "OFFSET_OUT_OF_RANGE":
		return at("on OFFSET_OUT_OF_RANGE clients give their position up and begin elsewhere: records would be lost or " +
			"repeated by this fault, not by the subject")
	}
	return nil
}

func (k *Kafka) topic(setting faults.Setting) []faults.Defect {
	at := func(message string) []faults.Defect { return faults.At("/topic", "%s", message) }
	commits := k.API == apiOffsetCommit || k.API == apiTxnOffsetCommit
	switch {
	case k.Topic == "":
		return nil
	case !listed(withTopics, k.API):
		return at(fmt.Sprintf("a %s names no topic: leave topic out", k.API))
	case commits && k.Topic == roleDLQ:
		return at("no consumer commits offsets of the DLQ topic, so this fault could have no effect: use topic: input, or " +
			"leave topic out")
	case k.API == apiFetch && k.Topic == roleDLQ:
		return at(
			"the subject does not read the DLQ topic, so this fault could have no effect: use topic: input, or leave topic out")
	case k.API == apiProduce && k.Topic == roleInput:
		return at("the subject does not produce to the input topic, so this fault could have no effect: use topic: dlq")
	case k.Topic == roleRetry && setting.NoRetryTopics:
		return at("the subject has no retry topics, so this fault could have no effect (the reference consumer has them " +
			"with retry: topics)")
	case k.API == apiProduce && k.Topic == roleDLQ && setting.Letters != "":
		return at(setting.LettersElsewhere() + ": write downstream: {name: " + setting.Letters + ", outage: true}, or " +
			"another fault of a downstream")
	case k.API == apiProduce && k.Topic == roleDLQ && setting.NoDeadLetters:
		return at(faults.NoLetters + ", so this fault could have no effect: leave it out, or run another scenario")
	case slices.Contains([]string{roleInput, roleRetry, roleDLQ}, k.Topic) || setting.Topics == nil:
		return nil
	}
	known := []string{roleInput, roleDLQ}
	if !setting.NoRetryTopics {
		known = []string{roleInput, roleRetry, roleDLQ}
	}
	known = append(known, setting.Topics...)
	if slices.Contains(known, k.Topic) {
		return nil
	}
	return []faults.Defect{{Path: "/topic", Message: fmt.Sprintf("there is no topic %q: write %s", k.Topic,
		strings.Join(known, " or ")), Got: k.Topic, Known: known}}
}

func (k *Kafka) partition(setting faults.Setting) []faults.Defect {
	at := func(message string) []faults.Defect { return faults.At("/partition", "%s", message) }
	switch {
	case k.Partition == nil:
		return nil
	case !listed(withPartitions, k.API):
		return at(fmt.Sprintf("a %s names no partition: leave partition out", k.API))
	case k.Topic == "":
		return at("partition goes with topic: say of which topic it is")
	}
	if count := setting.Partitions[k.Topic]; count > 0 && *k.Partition >= count {
		return at(fmt.Sprintf("there is no partition %d: the %s topic has %s, numbered from 0", *k.Partition, k.Topic,
			faults.Counted(count, "partition")))
	}
	return nil
}

func (k *Kafka) group(setting faults.Setting) []faults.Defect {
	switch {
	case k.Group == "":
		return nil
	case !listed(withGroup, k.API):
		return faults.At("/group", "a %s names no group: leave group out", k.API)
	case setting.Reference != nil && k.Group != ownGroup:
		return faults.At("/group", "the reference consumer has one group only, so for group %q this fault could have no "+
			"effect: write group: subject, or leave group out", k.Group)
	}
	return nil
}

// throttle checks that throttle_time_ms can hold the time.
func (k *Kafka) throttle() []faults.Defect {
	if k.Throttle.D() <= longestThrottle {
		return nil
	}
	return faults.At("/throttle", "a throttle of %s is more than throttle_time_ms can say: the longest is %s",
		k.Throttle, longestThrottle)
}
