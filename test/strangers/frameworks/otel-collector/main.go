// A collector as the OpenTelemetry Collector Builder makes one, with the Kafka receiver and the OTLP/HTTP exporter.
// collector.yaml is what it does.
package main

import (
	"log"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "orders", Version: "1.0.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{
				fileprovider.NewFactory(), envprovider.NewFactory(), yamlprovider.NewFactory(),
			},
		}},
	})
	command.SetArgs(append(os.Args[1:], planted(os.Getenv("PLANTED_BUG"))...))
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}

// planted returns what plants a mistake for tests, to see it named: a setting that is left at its default.
func planted(bug string) []string {
	return map[string][]string{
		"marked-first":       {"--set=receivers.kafka.message_marking.after=false"},
		"queued":             {"--set=exporters.otlp_http.sending_queue.enabled=true"},
		"refused-not-marked": {"--set=receivers.kafka.message_marking.on_permanent_error=false"},
	}[bug]
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](kafkareceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return otelcol.Factories{
		Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory(),
	}, err
}
