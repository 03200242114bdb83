package deadletter

// WatermillName is the name of the dialect of Watermill.
const WatermillName = "watermill"

// watermill is the dialect of Watermill's middleware PoisonQueue over Kafka (message/router/middleware/poison.go). Key,
// value and headers are kept, including the message's UUID in _watermill_message_uuid. It adds reason_poisoned,
// topic_poisoned, handler_poisoned and subscriber_poisoned, in UTF-8.
//
// The dialect has no partition, offset or number of attempts. Watermill keeps headers in a map, so of several headers
// with one name only one is left, and their order is lost. Here they are all kept. Its default marshaler does not
// write the key. Here the key is kept, as with a partitioning marshaler that restores it. A replay goes to the topic
// in topic_poisoned, as with Watermill's requeuer.
func watermill() headers {
	return headers{fields: []headerField{
		{"reason_poisoned", partReason, formText},
		{"topic_poisoned", partTopic, formName},
		{"handler_poisoned", partService, formText},
		{"subscriber_poisoned", partInstance, formText},
		{"_watermill_message_uuid", partEventID, formForeign},
	}}
}
