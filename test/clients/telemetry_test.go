package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// askForMetrics makes the brokers want the metrics of every client each second.
func (r *rig) askForMetrics(t *testing.T) {
	t.Helper()
	r.configure(t, kmsg.ConfigResourceTypeClientMetrics, "all", map[string]string{"metrics": "*", "interval.ms": "1000"})
	// A broker hears of it a little later, and a client that asks before is told to ask again in minutes.
	for _, b := range r.running.Brokers() {
		wait.Until(t, fmt.Sprintf("broker %d asks for metrics", b.Number), func() bool {
			response, err := r.client.Broker(int(b.ID)).Request(within(t), kmsg.NewPtrGetTelemetrySubscriptionsRequest())
			return err == nil && len(response.(*kmsg.GetTelemetrySubscriptionsResponse).RequestedMetrics) > 0
		})
	}
}

// configure changes settings of a resource of the cluster.
func (r *rig) configure(t *testing.T, kind kmsg.ConfigResourceType, name string, settings map[string]string) {
	t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for key, value := range settings {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = key, &value
		resource.Configs = append(resource.Configs, config)
	}
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(within(t), r.client)
	if err != nil || response.Resources[0].ErrorCode != 0 {
		t.Fatalf("configuring %s: %v %+v", name, err, response)
	}
}

// expectHarmlessTelemetry: clients were asked for their metrics through the tap and gave them, and what they gave names
// no broker's address.
func (r *rig) expectHarmlessTelemetry(t *testing.T) {
	t.Helper()
	const getSubscriptions, push = 71, 72
	if !r.spoken.has(getSubscriptions) || !r.spoken.has(push) {
		t.Error("the client was not asked for its metrics, or did not push them: nothing is shown about telemetry")
	}
	files, err := filepath.Glob(filepath.Join(r.telemetry, "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("the brokers were given no metrics: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for port := range r.ports(t) {
			if strings.Contains(string(data), fmt.Sprint(port)) {
				t.Errorf("what a client pushed to broker %s has a broker's port, %d", filepath.Base(file), port)
			}
		}
	}
}
