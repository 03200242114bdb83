package admin

import "fmt"

// This file has the settings of brokers that dlqbench starts, however they are started. They are Kafka's defaults
// except for the needs of a short run on one machine: few threads and internal partitions, changes that are detected
// within seconds, and no automatic actions that were not requested.

// NodeSettings are those of each node of a cluster with this number of brokers.
func NodeSettings(brokers int) map[string]string {
	return map[string]string{
		"background.threads":  "2",
		"num.network.threads": "1",
		"num.io.threads":      "2",
		// A killed broker's leaders move when its session ends.
		"broker.session.timeout.ms":    "4000",
		"broker.heartbeat.interval.ms": "500",
		// Leaders move only on request.
		"auto.leader.rebalance.enable":   "false",
		"auto.create.topics.enable":      "false", // a client with a wrong name must see an error
		"unclean.leader.election.enable": "false",
		"min.insync.replicas":            inSync(brokers),
		"default.replication.factor":     copies(brokers),
	}
}

// BrokerSettings are those of each broker besides.
func BrokerSettings(brokers int) map[string]string {
	return map[string]string{
		"num.replica.fetchers":                     "1",
		"replica.fetch.backoff.ms":                 "100",
		"log.retention.ms":                         "-1",
		"log.cleaner.threads":                      "1",
		"log.cleaner.dedupe.buffer.size":           "4194304",
		"offsets.topic.num.partitions":             fmt.Sprint(OffsetsPartitions),
		"offsets.topic.replication.factor":         copies(brokers),
		"transaction.state.log.num.partitions":     fmt.Sprint(TransactionsPartitions),
		"transaction.state.log.replication.factor": copies(brokers),
		"transaction.state.log.min.isr":            inSync(brokers),
		// Expired transactions are aborted at once: by default the coordinator checks every ten seconds.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		// Groups form at once. They may ask for short sessions, so that the partitions of a killed consumer are
		// reassigned within a run, and for sessions as long as the default maximum.
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "1000",
		"group.max.session.timeout.ms":     "1800000",
	}
}

// GroupSettings are those of groups whose members are told by the broker when to send heartbeats (KIP-848, from 4.0
// on). Kafka's own times, 5 s and 45 s, are longer than a run's drain.
func GroupSettings() map[string]string { return heartbeats("consumer") }

// StreamsGroupSettings are those of groups of Kafka Streams (KIP-1071, from 4.2 on).
func StreamsGroupSettings() map[string]string { return heartbeats("streams") }

// ShareGroupSettings are those of share groups (KIP-932, from 4.1 on).
func ShareGroupSettings(brokers int) map[string]string {
	settings := heartbeats("share")
	settings["group.share.record.lock.duration.ms"] = "15000"
	settings["share.coordinator.state.topic.num.partitions"] = fmt.Sprint(ShareStatePartitions)
	settings["share.coordinator.state.topic.replication.factor"] = copies(brokers)
	settings["share.coordinator.state.topic.min.isr"] = inSync(brokers)
	settings["share.coordinator.state.topic.segment.bytes"] = "104857600"
	settings["share.coordinator.state.topic.compression.codec"] = "0"
	return settings
}

func heartbeats(kind string) map[string]string {
	prefix := "group." + kind + "."
	return map[string]string{
		prefix + "heartbeat.interval.ms":     "500",
		prefix + "min.heartbeat.interval.ms": "500",
		prefix + "session.timeout.ms":        "6000",
		prefix + "min.session.timeout.ms":    "6000",
	}
}

// DeadLetterSettings let brokers write the dead letters of share groups to any topic (KIP-1191, from 4.4 on): a run's
// topics begin with its id.
func DeadLetterSettings() map[string]string { return map[string]string{shareDLQPrefix: ""} }

// copies is the number of replicas of topics that reserve no broker.
func copies(brokers int) string { return fmt.Sprint(min(replicationFactor, brokers)) }

// inSync is how many replicas must have a record before it is acknowledged to a producer that asks for all. Of three,
// one may be missing. Two replicas must tolerate a loss as well, or the loss of one broker would stop all writes.
func inSync(brokers int) string {
	if brokers >= replicationFactor {
		return "2"
	}
	return "1"
}
