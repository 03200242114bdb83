package docker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
)

// The ports inside the container. Only the clients' port is published.
const (
	clientPort     = 9092
	internalPort   = 9093
	controllerPort = 9094
)

// settings are a broker's environment. The image drops all its defaults as soon as one KAFKA_ variable is set, so
// this is the full set: KRaft with combined nodes, and the settings of every broker that dlqbench starts, as far as
// any version has them.
func settings(brokers int, number int32, clusterID string, hostPort int) map[string]string {
	var voters []string
	for id := range brokers {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", id+1, alias(int32(id+1)), controllerPort))
	}
	set := map[string]string{
		"CLUSTER_ID":                           clusterID,
		"KAFKA_NODE_ID":                        strconv.Itoa(int(number)),
		"KAFKA_PROCESS_ROLES":                  "broker,controller",
		"KAFKA_CONTROLLER_QUORUM_VOTERS":       strings.Join(voters, ","),
		"KAFKA_CONTROLLER_LISTENER_NAMES":      "CONTROLLER",
		"KAFKA_INTER_BROKER_LISTENER_NAME":     "INTERNAL",
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"KAFKA_LISTENERS": fmt.Sprintf("CLIENT://:%d,INTERNAL://:%d,CONTROLLER://:%d", clientPort,
			internalPort, controllerPort),
		"KAFKA_ADVERTISED_LISTENERS": fmt.Sprintf("CLIENT://%s:%d,INTERNAL://%s:%d", loopback, hostPort,
			alias(number), internalPort),
		// Elections among controllers on one machine take less than a second.
		"KAFKA_CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS":     "500",
		"KAFKA_CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS": "300",
		"KAFKA_CONTROLLER_QUORUM_FETCH_TIMEOUT_MS":        "2000",
		"KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs", // the image's own choice, writable by its user
		"KAFKA_NUM_RECOVERY_THREADS_PER_DATA_DIR":     "1",
		"KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS": "classic,consumer",
		"KAFKA_HEAP_OPTS":            "-Xms192m -Xmx384m",
		"KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
	}
	for _, common := range []map[string]string{admin.NodeSettings(brokers), admin.BrokerSettings(brokers),
		admin.GroupSettings(), admin.ShareGroupSettings(brokers), admin.DeadLetterSettings()} {
		for name, value := range common {
			set["KAFKA_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_"))] = value // the image's spelling
		}
	}
	return set
}

// alias returns a broker's name inside the run's network.
func alias(number int32) string { return fmt.Sprintf("broker-%d", number) }
