// Benthos with the components of consumer.yaml and no others. The program is Benthos' own; what it does is
// configuration.
package main

import (
	"context"
	"os"

	_ "github.com/benthosdev/benthos/v4/public/components/io"
	_ "github.com/benthosdev/benthos/v4/public/components/kafka"
	_ "github.com/benthosdev/benthos/v4/public/components/pure"
	"github.com/benthosdev/benthos/v4/public/service"
)

func main() {
	// A mistake that tests plant, to see it named: what the output rejects is not repeated, and kafka_franz commits it.
	if os.Getenv("PLANTED_BUG") == "nacks-not-replayed" {
		os.Args = append(os.Args, "--set", "input.kafka_franz.auto_replay_nacks=false")
	}
	service.RunCLI(context.Background())
}
