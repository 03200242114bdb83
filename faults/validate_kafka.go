package faults

// Which requests a kafka fault can match, what can be done to them, and which combinations no subject could ever meet.

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the requests, as Kafka's protocol has them.
const (
	apiProduce         = "Produce"
	apiFetch           = "Fetch"
	apiOffsetCommit    = "OffsetCommit"
	apiTxnOffsetCommit = "TxnOffsetCommit"
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

	// protocolConsumer is the group protocol of KIP-848, protocolShare stands for share groups (KIP-932).
	protocolConsumer = "consumer"
	protocolShare    = "share"

	roleInput = "input"
	roleRetry = "retry"
	roleDLQ   = "dlq"
	// ownGroup is the subject's own consumer group.
	ownGroup = "subject"
)

// hasTopics, hasPartitions and hasGroup tell what a request names. (A Metadata request names topics; the partitions are
// in its answer.)
func (k Kafka) hasTopics() bool { return k.hasPartitions() || k.API == apiMetadata }

func (k Kafka) hasPartitions() bool {
	return slices.Contains([]string{apiProduce, apiFetch, apiOffsetCommit, apiTxnOffsetCommit}, k.API)
}

func (k Kafka) hasGroup() bool {
	return slices.Contains([]string{
		apiOffsetCommit, apiTxnOffsetCommit, apiFindCoordinator, apiJoinGroup, apiSyncGroup, apiHeartbeat, apiConsumerGroup,
		apiShareGroup, apiShareFetch, apiShareAck,
	}, k.API)
}

func (k Kafka) validate(setting Setting) []Defect {
	set := names(map[string]bool{
		"error": k.Error != "", "delay_request": k.DelayRequest > 0, "delay_response": k.DelayResponse > 0,
		"drop_request": k.DropRequest, "drop_response": k.DropResponse, "close": k.Close, "throttle": k.Throttle > 0,
	})
	defects := exactlyOne(set, "error, delay_request, delay_response, drop_request, drop_response, close and throttle")
	defects = append(defects, k.unmade(setting)...)
	defects = append(defects, k.error()...)
	if k.Probability <= 0 {
		defects = append(defects, Defect{Path: "/probability", Message: "at 0% this fault could have no effect"})
	}
	if k.Nth > 0 && k.EveryNth > 0 {
		defects = append(defects, Defect{Path: "/every_nth", Message: "nth and every_nth exclude each other: nth selects " +
			"one request, every_nth every n-th request"})
	}
	defects = append(defects, k.topic(setting)...)
	defects = append(defects, k.partition(setting)...)
	defects = append(defects, k.group(setting)...)
	instances := max(setting.Instances, setting.MaxInstances)
	return append(defects, instance(k.Instance, instances)...)
}

// unmade refuses requests that the reference consumer never makes.
func (k Kafka) unmade(setting Setting) []Defect {
	reference := setting.Reference
	if reference == nil {
		return nil
	}
	at := func(message string) []Defect {
		return []Defect{{Path: "/api", Message: message + ", so this fault could have no effect"}}
	}
	classic := slices.Contains([]string{apiJoinGroup, apiSyncGroup, apiHeartbeat}, k.API)
	shared := slices.Contains([]string{apiShareGroup, apiShareFetch, apiShareAck}, k.API)
	grouped := classic || slices.Contains([]string{apiConsumerGroup, apiFetch, apiOffsetCommit}, k.API)
	switch {
	case (k.API == apiTxnOffsetCommit || k.API == apiEndTxn) && !reference.Transactions:
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

// error checks the error's name. Two errors are lies when no broker says them: a correct client believes them, and then
// loses or repeats records through the fault, not through a mistake of its own.
func (k Kafka) error() []Defect {
	at := func(message string) []Defect { return []Defect{{Path: "/error", Message: message}} }
	switch {
	case k.Error == "":
		return nil
	case !slices.Contains(ErrorNames(), k.Error):
		return []Defect{{Path: "/error", Message: fmt.Sprintf("%q is no Kafka error", k.Error), Got: k.Error,
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

func (k Kafka) topic(setting Setting) []Defect {
	at := func(message string) []Defect { return []Defect{{Path: "/topic", Message: message}} }
	commits := k.API == apiOffsetCommit || k.API == apiTxnOffsetCommit
	switch {
	case k.Topic == "":
		return nil
	case !k.hasTopics():
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
	case k.API == apiProduce && k.Topic == roleDLQ && setting.NoDeadLetters:
		return at(noLetters + ", so this fault could have no effect: leave it out, or run another scenario")
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
	return []Defect{{Path: "/topic", Message: fmt.Sprintf("there is no topic %q: write %s", k.Topic,
		strings.Join(known, " or ")), Got: k.Topic, Known: known}}
}

func (k Kafka) partition(setting Setting) []Defect {
	at := func(message string) []Defect { return []Defect{{Path: "/partition", Message: message}} }
	switch {
	case k.Partition == nil:
		return nil
	case !k.hasPartitions():
		return at(fmt.Sprintf("a %s names no partition: leave partition out", k.API))
	case k.Topic == "":
		return at("partition goes with topic: say of which topic it is")
	}
	if count := setting.Partitions[k.Topic]; count > 0 && *k.Partition >= count {
		return at(fmt.Sprintf("there is no partition %d: the %s topic has %s, numbered from 0", *k.Partition, k.Topic,
			counted(count, "partition")))
	}
	return nil
}

func (k Kafka) group(setting Setting) []Defect {
	switch {
	case k.Group == "":
		return nil
	case !k.hasGroup():
		return []Defect{{Path: "/group", Message: fmt.Sprintf("a %s names no group: leave group out", k.API)}}
	case setting.Reference != nil && k.Group != ownGroup:
		return []Defect{{Path: "/group", Message: fmt.Sprintf(
			"the reference consumer has one group only, so for group %q this fault could have no effect: write group: "+
				"subject, or leave group out", k.Group)}}
	}
	return nil
}
