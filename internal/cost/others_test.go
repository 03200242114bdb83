package cost

// This file runs what users would pick instead: load generators, and proxies. make bench downloads none of them; those
// that are not there are skipped.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	server "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
)

// toolJar matches the archive that contains kafka-producer-perf-test. An unpacked release has it (KAFKA_HOME), the
// installation by dlqbench does not.
var toolJar = regexp.MustCompile(`^kafka-tools-\d.*\.jar$`)

// toolRate matches the overall rate in the output of kafka-producer-perf-test.
var toolRate = regexp.MustCompile(`records sent, ([0-9.]+) records/sec .* 50th`)

// produceTool makes Apache Kafka's own tool send the records. Its own figure is taken, without the start of its JVM.
func produceTool(b *testing.B, r *rig, m *meter, count int) {
	installed, err := install.Open("")
	if !*realKafka || err != nil || !slices.ContainsFunc(installed.Jars, func(jar string) bool {
		return toolJar.MatchString(filepath.Base(jar))
	}) {
		skip(b, "it needs -real, and a Kafka with kafka-producer-perf-test in KAFKA_HOME")
	}
	java := must(install.FindJava(b.Context(), installed.Version.MinJava()))(b)
	said, err := exec.CommandContext(b.Context(), java.Command, "-Xmx384m", "-cp", installed.ClassPath(),
		"org.apache.kafka.tools.ProducerPerformance",
		"--topic", inputTopic, "--num-records", strconv.Itoa(count), "--record-size", strconv.Itoa(valueSize),
		"--throughput", "-1",
		"--producer-props", "bootstrap.servers="+r.address(), "acks=all", "linger.ms=1",
		"enable.idempotence=true").CombinedOutput()
	rate := toolRate.FindSubmatch(said)
	if err != nil || rate == nil {
		b.Fatalf("running kafka-producer-perf-test: %v: %s", err, said)
	}
	perSecond := must(strconv.ParseFloat(string(rate[1]), 64))(b)
	m.items, m.wall = m.items+count, m.wall+time.Duration(float64(count)/perSecond*float64(time.Second))
}

// produceK6 makes k6 send a tenth of the records, as it is slow. XK6_KAFKA names the program, with the xk6-kafka that is
// built into it. k6's own duration is taken, without its start. A call of xk6-kafka returns once all of its records are
// acknowledged, so four virtual users, each with a producer, send 500 records per call; the other ways have no such
// limit. Keys choose the partitions, because xk6-kafka can't be given one.
func produceK6(b *testing.B, r *rig, m *meter, count int) {
	count /= 10
	program := os.Getenv("XK6_KAFKA")
	if program == "" {
		skip(b, "set XK6_KAFKA to a k6 with xk6-kafka")
	}
	command := exec.CommandContext(b.Context(), program, "run", "--quiet", "--no-usage-report", "--no-color",
		"-e", "BROKER="+r.address(), "-e", "TOPIC="+inputTopic, "-e", "COUNT="+strconv.Itoa(count),
		"-e", "SIZE="+strconv.Itoa(valueSize), "-e", "KEYS="+strconv.Itoa(keyCount), "testdata/produce.js")
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	var result struct{ Records, Errors, Milliseconds float64 }
	if err == nil {
		err = json.Unmarshal(out, &result)
	}
	if err != nil || result.Errors > 0 {
		b.Fatalf("running k6: %v: %s%s", err, out, said.Bytes())
	}
	wholly(b, int64(result.Records), count)
	m.items, m.wall = m.items+count, m.wall+time.Duration(result.Milliseconds*float64(time.Millisecond))
}

// toxiproxy opens a proxy of toxiproxy's server without toxics, which others use in the place of a link.
func (r *rig) toxiproxy(b *testing.B, upstream string) string {
	api := server.NewServer(server.NewMetricsContainer(nil), zerolog.Nop())
	proxy := server.NewProxy(api, "bench", "127.0.0.1:0", upstream)
	done(b, api.Collection.Add(proxy, true))
	b.Cleanup(func() { done(b, api.Collection.Clear()) })
	return proxy.Listen
}

// kroxylicious starts a Kroxylicious without filters. KROXYLICIOUS_HOME names its folder, with the jars of
// testdata/pom.xml in libs.
func (r *rig) kroxylicious(b *testing.B, upstream string) way {
	w := way{name: "kroxylicious", jvm: true, apart: true}
	home := os.Getenv("KROXYLICIOUS_HOME")
	if home == "" {
		w.absent = "set KROXYLICIOUS_HOME to a folder with Kroxylicious in libs"
		return w
	}
	java := must(install.FindJava(b.Context(), 17))(b)
	var node string
	w.address, node = unused(b), unused(b)
	_, port, err := net.SplitHostPort(node)
	done(b, err)
	config := filepath.Join(b.TempDir(), "kroxylicious.yaml")
	id := r.kafka.Brokers()[0].ID
	done(b, os.WriteFile(config, fmt.Appendf(nil, `virtualClusters:
  - name: bench
    targetCluster: {bootstrapServers: "%s"}
    gateways:
      - name: bench
        portIdentifiesNode:
          bootstrapAddress: "%s"
          nodeStartPort: %s
          nodeIdRanges: [{name: bench, start: %d, end: %d}]
`, upstream, w.address, port, id, id), 0o600))
	var said bytes.Buffer
	command := exec.CommandContext(b.Context(), java.Command, "-cp", filepath.Join(home, "libs", "*"),
		"testdata/Proxy.java", config)
	command.Stdout, command.Stderr = &said, &said
	done(b, command.Start())
	ended := make(chan struct{})
	go func() { _ = command.Wait(); close(ended) }()
	b.Cleanup(func() { <-ended }) // the context of the benchmark has killed it
	for deadline := time.After(limit); ; {
		if conn, err := net.Dial("tcp", w.address); err == nil {
			done(b, conn.Close())
			return w
		}
		select {
		case <-ended:
			b.Fatalf("starting Kroxylicious: %s", said.Bytes())
		case <-deadline:
			b.Fatalf("Kroxylicious does not listen at %s after %s", w.address, limit)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// unused returns an address that nothing listens on.
func unused(b *testing.B) string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer func() { done(b, listener.Close()) }()
	return listener.Addr().String()
}
