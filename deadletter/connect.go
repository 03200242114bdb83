package deadletter

// ConnectName is the name of the dialect of Kafka Connect.
const ConnectName = "connect"

// connect is the dialect of a Kafka Connect sink's dead-letter queue, class
// org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter, with
// errors.deadletterqueue.context.headers.enable. Key, value, headers and timestamp are kept, so a dead letter does
// not say when the record failed. The added headers all begin with "__connect.errors.": topic, partition, offset,
// connector.name, task.id, stage, class.name (of the executed class), exception.class.name, exception.message and
// exception.stacktrace, all in UTF-8, numbers in decimal.
//
// The dialect has no number of attempts. Connect does not overwrite headers that the record already has, so a record
// that fails again still describes its first failure. Here each failure replaces the previous one. A replay goes to
// the topic in __connect.errors.topic.
func connect() headers {
	return headers{
		timeless: true,
		stage:    "TASK_PUT", // of a sink's failures (Stage.TASK_PUT), the only stage that a consumer can fail in
		fields: []headerField{
			{"__connect.errors.topic", partTopic, formName},
			{"__connect.errors.partition", partPartition, formNumber},
			{"__connect.errors.offset", partOffset, formNumber},
			{"__connect.errors.connector.name", partService, formText},
			{"__connect.errors.task.id", partInstance, formText},
			{"__connect.errors.stage", partStage, formName},
			{"__connect.errors.class.name", partHandler, formText},
			{"__connect.errors.exception.class.name", partClass, formName},
			{"__connect.errors.exception.message", partReason, formExtra},
			{"__connect.errors.exception.stacktrace", partStack, formKnown},
		},
	}
}
