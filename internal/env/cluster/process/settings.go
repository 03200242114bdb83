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

// settings returns a node's settings.
func (n *node) settings(c *config) map[string]string {
	settings := admin.NodeSettings(c.brokers)
	maps.Copy(settings, map[string]string{
		"node.id":                        fmt.Sprint(n.number),
		"controller.quorum.voters":       c.voters(),
		"controller.listener.names":      "CONTROLLER",
		"log.dirs":                       filepath.Join(n.dir, dataDir),
		"listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
	})
	if n.controller {
		maps.Copy(settings, n.electionSettings())
	}
	if n.broker {
		maps.Copy(settings, admin.BrokerSettings(c.brokers))
		settings["inter.broker.listener.name"] = "INTERNAL"
	}
	if c.version.AtLeast(4, 0) {
		maps.Copy(settings, admin.GroupSettings())
	}
	if shareGroups(c.version) {
		maps.Copy(settings, admin.ShareGroupSettings(c.brokers))
	}
	if c.version.AtLeast(4, 2) {
		maps.Copy(settings, admin.StreamsGroupSettings())
	}
	if c.version.AtLeast(4, 4) {
		maps.Copy(settings, admin.DeadLetterSettings())
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

// electionSettings give the controllers different waits before they stand for election. With equal short times they
// stand at the same time, none has a majority, and on a busy machine that repeats for half a minute.
func (n *node) electionSettings() map[string]string {
	later := int(n.number - 1)
	return map[string]string{
		"controller.quorum.election.timeout.ms": fmt.Sprint(700 + 1000*later),
		"controller.quorum.fetch.timeout.ms":    fmt.Sprint(2000 + 400*later),
	}
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
