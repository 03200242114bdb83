// Package clients_test owns the proof that the tap works in front of Apache Kafka for the clients that people use:
// franz-go, the Java client and librdkafka, each in a process of its own, with every group protocol, with transactions
// and while leaders move and a broker is restarted. No connection may lead around the tap, and nothing the tap passes
// on may break a client. It knows the tap and its history, nothing of scenarios or of the harness.
//
// The tests need Java and the jars of Kafka. They run with DLQBENCH_KAFKA_TESTS=1 and say what is missing when they
// skip.
package clients_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes this test program a client: a process of its own, so that its connections can be told from the
// tap's.
const roleVariable = "DLQBENCH_CLIENTS_ROLE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(roleVariable); mode != "" {
		if err := franzClient(mode, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "the franz-go client ended:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
