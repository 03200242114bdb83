// Telegraf with the plugins of telegraf.conf and no others. The program is Telegraf's own agent; what it does is
// configuration.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/logger"
	_ "github.com/influxdata/telegraf/plugins/inputs/kafka_consumer"
	_ "github.com/influxdata/telegraf/plugins/outputs/http"
	_ "github.com/influxdata/telegraf/plugins/outputs/kafka"
	_ "github.com/influxdata/telegraf/plugins/parsers/json"
	_ "github.com/influxdata/telegraf/plugins/serializers/json"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatalf("E! [telegraf] Error running agent: %v", err) // as Telegraf's own main does
	}
}

// planted sets what plants a mistake for tests, to see it named: settings that Telegraf's documentation allows.
func planted(bug string) {
	for name, value := range map[string]map[string]string{
		"buffer-overflows": {"BUFFER_LIMIT": "20"},
		"refused-dropped":  {"REFUSED": "[400, 404, 422, 503]"},
		"repeats-batch":    {"BATCH_SIZE": "1000"},
	}[bug] {
		os.Setenv(name, value)
	}
}

func run(file string) error {
	planted(os.Getenv("PLANTED_BUG"))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	settings := config.NewConfig()
	if err := settings.LoadAll(file); err != nil {
		return err
	}
	if err := logger.SetupLogging(&logger.Config{LogFormat: "text"}); err != nil {
		return err
	}
	return agent.NewAgent(settings).Run(ctx)
}
