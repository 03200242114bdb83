package scaffold

import (
	"cmp"
	"path"
	"strings"
)

// Framework is a library that reads Kafka and writes dead letters on the consumer's behalf, as it does by default.
type Framework struct {
	dependency string
	// Envelope is the dialect of its dead letters, Letters what else its contract says of them.
	Envelope, Letters string
	// Bootstrap and Group are the environment variables that it reads.
	Bootstrap, Group string
}

// frameworks are those that are known, by the name of their dependency in the build file.
func frameworks() []Framework {
	return []Framework{
		// DeadLetterPublishingRecoverer appends -dlt to the topic's name, and .DLT before 3.3.
		spring("spring-kafka", "spring", "-dlt"), spring("spring-boot-starter-kafka", "spring", "-dlt"),
		cloudStream("spring-cloud-stream-binder-kafka"), cloudStream("spring-cloud-starter-stream-kafka"),
		// Both read Kafka's address from the property kafka.bootstrap.servers.
		{dependency: "smallrye-reactive-messaging-kafka", Envelope: "smallrye", Bootstrap: "KAFKA_BOOTSTRAP_SERVERS"},
		{dependency: "quarkus-messaging-kafka", Envelope: "smallrye", Bootstrap: "KAFKA_BOOTSTRAP_SERVERS"},
		{dependency: "kafka-streams", Envelope: "streams"},
		// Its default marshaler writes no key, and its headers are a map.
		{dependency: "ThreeDotsLabs/watermill", Envelope: "watermill",
			Letters: "enabled: true, keeps_key: false, keeps_headers: false"},
	}
}

// cloudStream is Spring Cloud Stream. Its binder writes the dead letters if enable-dlq is set.
func cloudStream(dependency string) Framework {
	return Framework{dependency: dependency, Bootstrap: "SPRING_CLOUD_STREAM_KAFKA_BINDER_BROKERS",
		Envelope: "{topic: x-original-topic, partition: x-original-partition, offset: x-original-offset, " +
			"reason: x-exception-message, class: x-exception-fqcn}"}
}

// spring is spring-kafka with this envelope and suffix of the dead-letter topic's name.
func spring(dependency, envelope, suffix string) Framework {
	return Framework{dependency: dependency, Envelope: envelope,
		Letters:   `topic: "{{.InputTopic}}` + suffix + `", enabled: true, keeps_headers: true`,
		Bootstrap: "SPRING_KAFKA_BOOTSTRAP_SERVERS", Group: "SPRING_KAFKA_CONSUMER_GROUP_ID"}
}

// framework is the one whose annotation was found.
func (f Retries) framework() Framework {
	of := spring("spring-kafka", "spring-retryable-topic", f.suffix)
	if f.suffix == "" {
		of.Envelope, of.Letters = "", "enabled: false"
	}
	return of
}

// framework finds the one that a build file names, and says where it is named.
func (r repository) framework(file string) (found Framework, because string) {
	builds := r.builds(file)
	for _, known := range frameworks() {
		for _, one := range builds {
			if strings.Contains(one.text, known.dependency) {
				return known, known.dependency + " in " + one.path
			}
		}
	}
	return Framework{}, ""
}

// builds are the build files of a repository that are called as this one, which is first: those of its modules, too.
func (r repository) builds(file string) (all []source) {
	if file == "" {
		return nil
	}
	all = []source{{file, r.read(file)}}
	for name := range r.files(r.foreign) {
		if path.Base(name) == path.Base(file) && name != file {
			all = append(all, source{name, r.read(name)})
		}
	}
	return all
}

// buildText is the text of all of them.
func (r repository) buildText(file string) string {
	var text strings.Builder
	for _, one := range r.builds(file) {
		text.WriteString(one.text)
	}
	return text.String()
}

// orPlain fills in what holds of a consumer without a framework.
func (f Framework) orPlain() Framework {
	f.Letters = cmp.Or(f.Letters, "enabled: true, keeps_headers: true")
	return f
}
