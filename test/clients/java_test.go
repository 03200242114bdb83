package clients_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// javaClient is the Java client of Kafka's own jars.
func (r *rig) javaClient(classes, mode string) *exec.Cmd {
	return exec.Command("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", classes+string(os.PathListSeparator)+r.ClassPath(),
		"Client", r.bootstrap, r.input, r.output, r.group, strconv.Itoa(records), mode)
}

func TestJavaClient(t *testing.T) {
	needed := needKafka(t)
	classes := needed.compile(t, "Client.java")
	c := startCluster(t)
	for _, mode := range []string{"eager", "cooperative", "consumer", "transactions"} {
		t.Run(mode, func(t *testing.T) {
			r := c.newRig(t)
			r.askForMetrics(t)
			r.exercise(t, r.javaClient(classes, mode))
			r.expectGroup(t)
			r.expectHarmlessTelemetry(t)
		})
	}
	t.Run("share", func(t *testing.T) {
		r := c.newRig(t)
		r.beginEarly(t)
		defer r.showUnfinished(t)
		r.exercise(t, r.javaClient(classes, "share"))
		r.expectShareGroup(t)
	})
}
