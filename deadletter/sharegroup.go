package deadletter

// ShareGroupName is the name of the dialect of share groups.
const ShareGroupName = "share-group"

// shareGroup is the dialect of the dead-letter queues of share groups (KIP-1191), which the broker writes, class
// org.apache.kafka.server.share.dlq.ShareGroupDLQStateManager. The dead letter has six headers that begin with
// "__dlq.errors.": topic, partition, offset, group, delivery.count (the number of attempts, 32767 at most) and message,
// all in UTF-8, numbers in decimal. With errors.deadletterqueue.copy.record.enable it also has the record's key and
// value.
//
// The record's own headers are not kept. A replay goes to the topic in __dlq.errors.topic. From a dead letter without
// a copy of the record, it produces a record without key and value.
func shareGroup() headers {
	return headers{
		bare:        true,
		attemptBits: 15,
		fields: []headerField{
			{"__dlq.errors.topic", partTopic, formName},
			{"__dlq.errors.partition", partPartition, formNumber},
			{"__dlq.errors.offset", partOffset, formNumber},
			{"__dlq.errors.group", partGroup, formText},
			{"__dlq.errors.delivery.count", partAttempts, formNumber},
			{"__dlq.errors.message", partReason, formText},
		},
	}
}
