package process

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
)

// settings returns a node's settings. They are Kafka's defaults except for the needs of a short run on one machine:
// few threads and internal partitions, changes that are detected within seconds, and no automatic actions that were
// not requested.
func (n *node) settings(c *config) map[string]string {
	settings := map[string]string{
		"node.id":                        fmt.Sprint(n.number),
		"controller.quorum.voters":       c.voters(),
		"controller.listener.names":      "CONTROLLER",
		"log.dirs":                       filepath.Join(n.dir, dataDir),
		"listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"background.threads":             "2",
		"num.network.threads":            "1",
		"num.io.threads":                 "2",
		// A killed broker's leaders move when its session ends.
		"broker.session.timeout.ms":    "4000",
		"broker.heartbeat.interval.ms": "500",
		// Leaders move only on request.
		"auto.leader.rebalance.enable":   "false",
		"auto.create.topics.enable":      "false",
		"unclean.leader.election.enable": "false",
		"min.insync.replicas":            fmt.Sprint(minInSync(min(3, c.brokers))),
		"default.replication.factor":     fmt.Sprint(min(3, c.brokers)),
	}
	if n.controller {
		maps.Copy(settings, n.electionSettings())
	}
	if n.broker {
		maps.Copy(settings, n.brokerSettings(c))
	}
	if c.version.AtLeast(4, 0) {
		maps.Copy(settings, groupSettings(c.version))
	}
	switch {
	case n.broker && n.controller:
		settings["process.roles"] = "broker,controller"
		settings["listeners"] = n.listeners(true, true)
		settings["advertised.listeners"] = n.listeners(true, false)
	case n.broker:
		settings["process.roles"] = "broker"
		settings["listeners"] = n.listeners(true, false)
		settings["advertised.listeners"] = n.listeners(true, false)
	default:
		settings["process.roles"] = "controller"
		settings["listeners"] = n.listeners(false, true)
	}
	return settings
}

// minInSync returns how many replicas must have a record before it is acknowledged to a producer that asks for all.
// Of three, one may be missing. Two replicas must tolerate a loss as well, or the loss of one broker would stop all
// writes.
func minInSync(replicas int) int {
	if replicas >= 3 {
		return 2
	}
	return 1
}

// electionSettings give the controllers different waits before they stand for election. With equal short times they
// stand at the same time, none has a majority, and on a busy machine that repeats for half a minute.
func (n *node) electionSettings() map[string]string {
	later := int(n.number - 1)
	return map[string]string{
		"controller.quorum.election.timeout.ms": fmt.Sprint(700 + 1000*later),
		"controller.quorum.fetch.timeout.ms":    fmt.Sprint(2000 + 400*later),
	}
}

func (n *node) brokerSettings(c *config) map[string]string {
	copies := fmt.Sprint(min(3, c.brokers))
	return map[string]string{
		"inter.broker.listener.name":               "INTERNAL",
		"num.replica.fetchers":                     "1",
		"replica.fetch.backoff.ms":                 "100",
		"log.retention.ms":                         "-1",
		"log.cleaner.threads":                      "1",
		"log.cleaner.dedupe.buffer.size":           "4194304",
		"offsets.topic.num.partitions":             fmt.Sprint(admin.OffsetsPartitions),
		"offsets.topic.replication.factor":         copies,
		"transaction.state.log.num.partitions":     fmt.Sprint(admin.TransactionsPartitions),
		"transaction.state.log.replication.factor": copies,
		"transaction.state.log.min.isr":            fmt.Sprint(minInSync(min(3, c.brokers))),
		// Expired transactions are aborted at once: by default the coordinator checks every ten seconds.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		// Groups form at once. They may ask for short sessions, so that the partitions of a killed consumer are
		// reassigned within a run, and for sessions as long as the default maximum.
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "1000",
		"group.max.session.timeout.ms":     "1800000",
	}
}

// groupSettings returns the settings of groups whose members are told by the broker when to send heartbeats
// (KIP-848, KIP-932). Kafka's own times, 5 s and 45 s, are longer than a run's drain.
func groupSettings(version install.Version) map[string]string {
	settings := map[string]string{
		"group.consumer.heartbeat.interval.ms":     "500",
		"group.consumer.min.heartbeat.interval.ms": "500",
		"group.consumer.session.timeout.ms":        "6000",
		"group.consumer.min.session.timeout.ms":    "6000",
	}
	if shareGroups(version) {
		maps.Copy(settings, map[string]string{
			"group.share.heartbeat.interval.ms":               "500",
			"group.share.min.heartbeat.interval.ms":           "500",
			"group.share.session.timeout.ms":                  "6000",
			"group.share.min.session.timeout.ms":              "6000",
			"group.share.record.lock.duration.ms":             "15000",
			"share.coordinator.state.topic.num.partitions":    fmt.Sprint(admin.ShareStatePartitions),
			"share.coordinator.state.topic.segment.bytes":     "104857600",
			"share.coordinator.state.topic.compression.codec": "0",
		})
	}
	if version.AtLeast(4, 4) {
		settings["errors.deadletterqueue.topic.name.prefix"] = "" // a run's topics begin with its id (KIP-1191)
	}
	return settings
}

// shareGroups reports whether a version has share groups that are not reserved for Kafka's developers (KIP-932: from
// 4.1 on).
func shareGroups(version install.Version) bool { return version.AtLeast(4, 1) }

// sharePreview reports whether a version has share groups as a preview. A new cluster has a preview turned off
// unless it is formatted with it. From 4.2 on a new cluster has the newest share.version of its release.
func sharePreview(version install.Version) bool {
	return shareGroups(version) && !version.AtLeast(4, 2)
}

func (n *node) listeners(broker, controller bool) string {
	var listeners []string
	if broker {
		listeners = append(listeners, "CLIENTS://"+address(n.clients), "INTERNAL://"+address(n.internal))
	}
	if controller {
		listeners = append(listeners, "CONTROLLER://"+address(n.quorum))
	}
	return strings.Join(listeners, ",")
}

// properties writes settings in Java's format, sorted.
func properties(settings map[string]string) string {
	var text strings.Builder
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", name, escaped.Replace(settings[name]))
	}
	return text.String()
}

// logging returns the option that makes a broker log to its standard output, and the name and content of the file
// that the option refers to. The file is in the folder in which brokers run. An absolute path would be taken for a
// URL, and a path with a space or a percent sign is not a valid URL.
func logging(version install.Version) (option, file, content string) {
	if version.AtLeast(4, 0) {
		return "-Dlog4j2.configurationFile=log4j2.properties", "log4j2.properties", log4j2Properties
	}
	return "-Dlog4j.configuration=file:log4j.properties", "log4j.properties", log4jProperties
}

// The brokers' settings are not logged: they have a hundred lines each, and are in a file nearby.
const log4j2Properties = `status=error
name=broker
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c{1})%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
logger.config.name=org.apache.kafka.common.config
logger.config.level=warn
logger.kafkaConfig.name=kafka.server.KafkaConfig
logger.kafkaConfig.level=warn
logger.state.name=state.change.logger
logger.state.level=warn
`

const log4jProperties = `log4j.rootLogger=info, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %m (%c{1})%n
log4j.logger.org.apache.kafka.common.config=warn
log4j.logger.kafka.server.KafkaConfig=warn
log4j.logger.state.change.logger=warn
`
