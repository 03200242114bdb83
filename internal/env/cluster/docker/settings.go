package docker

import (
	"fmt"
	"maps"
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
// this is the full set: KRaft with combined nodes, and short times that make a cluster react within seconds as a
// real one does within minutes.
//
// The names are Kafka's, in the image's spelling: KAFKA_ before, _ for a dot.
func settings(brokers int, number int32, clusterID string, hostPort int) map[string]string {
	var voters []string
	for id := range brokers {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", id+1, alias(int32(id+1)), controllerPort))
	}
	replicas, inSync := strconv.Itoa(min(3, brokers)), strconv.Itoa(minInSync(brokers))
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
		// Elections among controllers on one machine take less than a second, and a killed broker's leaders move when
		// its session ends.
		"KAFKA_CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS":     "500",
		"KAFKA_CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS": "300",
		"KAFKA_CONTROLLER_QUORUM_FETCH_TIMEOUT_MS":        "2000",
		"KAFKA_BROKER_SESSION_TIMEOUT_MS":                 "4000",
		"KAFKA_BROKER_HEARTBEAT_INTERVAL_MS":              "500",
		// the image's own choice, writable by its user
		"KAFKA_LOG_DIRS":                                 "/tmp/kraft-combined-logs",
		"KAFKA_DEFAULT_REPLICATION_FACTOR":               replicas,
		"KAFKA_MIN_INSYNC_REPLICAS":                      inSync,
		"KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE":           "false",
		"KAFKA_AUTO_LEADER_REBALANCE_ENABLE":             "false", // leaders move only when a fault says so
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE":                "false", // a client with a wrong name must see an error
		"KAFKA_LOG_RETENTION_MS":                         "-1",
		"KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS":             strconv.Itoa(admin.OffsetsPartitions),
		"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR":         replicas,
		"KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS":     strconv.Itoa(admin.TransactionsPartitions),
		"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": replicas,
		"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR":            inSync,
		// Share groups (KIP-932), in versions that have them.
		"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS":     strconv.Itoa(admin.ShareStatePartitions),
		"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": replicas,
		"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR":            inSync,
		// Expired transactions are aborted at once: by default the coordinator checks every ten seconds.
		"KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "500",
		// Groups form at once and may ask for short sessions, so that the partitions of a killed consumer are
		// reassigned within a run. Under KIP-848 and KIP-932 the broker sets the times; Kafka's own (5 s and 45 s) are
		// longer than a run's drain.
		"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS":         "0",
		"KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS":             "1000",
		"KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS":             "1800000",
		"KAFKA_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS": "500",
		"KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS":     "500",
		"KAFKA_GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS":    "6000",
		"KAFKA_GROUP_CONSUMER_SESSION_TIMEOUT_MS":        "6000",
		"KAFKA_GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS":    "500",
		"KAFKA_GROUP_SHARE_HEARTBEAT_INTERVAL_MS":        "500",
		"KAFKA_GROUP_SHARE_MIN_SESSION_TIMEOUT_MS":       "6000",
		"KAFKA_GROUP_SHARE_SESSION_TIMEOUT_MS":           "6000",
		"KAFKA_GROUP_SHARE_RECORD_LOCK_DURATION_MS":      "15000",
		"KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS":    "classic,consumer",
		"KAFKA_ERRORS_DEADLETTERQUEUE_TOPIC_NAME_PREFIX": "", // a run's topics begin with its id (KIP-1191)
	}
	maps.Copy(set, small())
	return set
}

// small returns the settings of a broker that shares a machine with others and with the measured subject.
func small() map[string]string {
	return map[string]string{
		"KAFKA_NUM_NETWORK_THREADS":               "1",
		"KAFKA_NUM_IO_THREADS":                    "2",
		"KAFKA_NUM_RECOVERY_THREADS_PER_DATA_DIR": "1",
		"KAFKA_BACKGROUND_THREADS":                "2",
		"KAFKA_LOG_CLEANER_DEDUPE_BUFFER_SIZE":    "4194304",
		"KAFKA_NUM_REPLICA_FETCHERS":              "1",
		"KAFKA_REPLICA_FETCH_BACKOFF_MS":          "100",
		"KAFKA_LOG_CLEANER_THREADS":               "1",
		"KAFKA_HEAP_OPTS":                         "-Xms192m -Xmx384m",
		"KAFKA_JVM_PERFORMANCE_OPTS":              "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
	}
}

// minInSync returns how many replicas must have a record before it is acknowledged to a producer that asks for all.
// Of three, one may be missing. With two replicas or one, tolerating no loss would stop all writes, so one suffices.
func minInSync(replicas int) int {
	if replicas >= 3 {
		return 2
	}
	return 1
}

// alias returns a broker's name inside the run's network.
func alias(number int32) string { return fmt.Sprintf("broker-%d", number) }
