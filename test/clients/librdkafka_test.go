package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// needLibrdkafka returns a Python that has confluent-kafka, and skips the test where there is none.
func needLibrdkafka(t *testing.T) string {
	t.Helper()
	python := os.Getenv("DLQBENCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	if output, err := exec.Command(python, "-c", "import confluent_kafka").CombinedOutput(); err != nil {
		t.Skipf(
			"SKIPPED: %s has no confluent-kafka (pip install confluent-kafka; DLQBENCH_PYTHON names another Python): %v\n%s",
			python, err, output)
	}
	return python
}

func TestLibrdkafka(t *testing.T) {
	needKafka(t)
	python := needLibrdkafka(t)
	c := startCluster(t)
	for _, mode := range []string{"eager", "cooperative", "consumer", "transactions"} {
		t.Run(mode, func(t *testing.T) {
			r := c.newRig(t)
			r.askForMetrics(t)
			r.exercise(t, exec.Command(python, filepath.Join("testdata", "client.py"), r.bootstrap, r.input, r.output, r.group,
				strconv.Itoa(records), mode))
			r.expectGroup(t)
			r.expectHarmlessTelemetry(t)
		})
	}
}
