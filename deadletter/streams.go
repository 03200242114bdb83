package deadletter

// StreamsName is the name of the dialect of Kafka Streams.
const StreamsName = "streams"

// streams is the dialect of Kafka Streams' dead-letter queue (KIP-1034), class
// org.apache.kafka.streams.errors.internals.ExceptionHandlerUtils. Key and value are kept as they were read, and so are
// the headers and the timestamp, so a dead letter does not say when the record failed. The added headers all begin with
// "__streams.errors.": exception (its class), message, stacktrace, topic, partition and offset, all in UTF-8, numbers
// in decimal. The message of an exception without a message is null.
//
// The dialect has no number of attempts, because Streams does not retry. Streams appends the headers of each further
// failure. Here they replace the earlier ones. A replay goes to the topic in __streams.errors.topic.
func streams() headers {
	return headers{
		timeless: true,
		fields: []headerField{
			{"__streams.errors.exception", partClass, formName},
			{"__streams.errors.message", partReason, formText},
			{"__streams.errors.stacktrace", partStack, formText},
			{"__streams.errors.topic", partTopic, formName},
			{"__streams.errors.partition", partPartition, formNumber},
			{"__streams.errors.offset", partOffset, formNumber},
		},
	}
}
