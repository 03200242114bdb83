package deadletter

// SmallRyeName is the name of the dialect of SmallRye Reactive Messaging.
const SmallRyeName = "smallrye"

// smallRye is the dialect of the failure strategy dead-letter-queue in SmallRye Reactive Messaging (Quarkus), class
// io.smallrye.reactive.messaging.kafka.fault.KafkaDeadLetterQueue. Key, value and headers are kept. Before the headers
// it writes dead-letter-exception-class-name, dead-letter-reason, if the error has a cause
// dead-letter-cause-class-name and dead-letter-cause, and dead-letter-topic, -partition and -offset, all in UTF-8,
// numbers in decimal.
//
// The dialect has no number of attempts. SmallRye treats the headers of an earlier failure like any other header of
// the record and writes them after the new ones. Here they are dropped. A replay goes to the topic in
// dead-letter-topic.
func smallRye() headers {
	return headers{
		before: true,
		fields: []headerField{
			{"dead-letter-exception-class-name", partClass, formName},
			{"dead-letter-reason", partReason, formText},
			{"dead-letter-cause-class-name", partCause, formKnown},
			{"dead-letter-cause", partCauseReason, formKnown},
			{"dead-letter-topic", partTopic, formName},
			{"dead-letter-partition", partPartition, formNumber},
			{"dead-letter-offset", partOffset, formNumber},
		},
	}
}
