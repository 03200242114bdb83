package main

// This file has the webhooks and Grafana that are told about a drill. Their secrets come from flags or, better, from
// the environment, because other users of a machine can read command lines.

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/internal/drill/outward"
)

// These environment variables hold a webhook's address and the token for Grafana.
const (
	environmentWebhook      = "DLQBENCH_DRILL_WEBHOOK"
	environmentGrafanaToken = "DLQBENCH_GRAFANA_TOKEN"
)

// outwardFlags say who is told about a drill.
type outwardFlags struct {
	webhooks []string
	format   string
	grafana  string
}

func (f *outwardFlags) add(set *pflag.FlagSet) {
	set.StringArrayVar(&f.webhooks, "webhook", nil,
		"URL of a webhook that is told of start, faults, heals and end; may be repeated (or "+environmentWebhook+")")
	set.StringVar(&f.format, "webhook-format", "", "slack, teams or generic (default: by the host of the webhook)")
	set.StringVar(&f.grafana, "grafana", "",
		"URL of a Grafana that gets an annotation for each fault; the token is in "+environmentGrafanaToken)
}

// targets returns those that are told.
func (f outwardFlags) targets() ([]outward.Target, error) {
	webhooks := f.webhooks
	if address := os.Getenv(environmentWebhook); address != "" {
		webhooks = append(webhooks, address)
	}
	if f.format != "" && len(webhooks) == 0 {
		return nil, fmt.Errorf("--webhook-format: there is no webhook: add --webhook, or set %s", environmentWebhook)
	}
	var all []outward.Target
	for _, address := range webhooks {
		webhook, err := outward.NewWebhook(address, outward.Format(strings.ToLower(f.format)))
		if err != nil {
			return nil, fmt.Errorf("--webhook: %w", err)
		}
		all = append(all, webhook)
	}
	if f.grafana == "" {
		return all, nil
	}
	grafana, err := outward.NewGrafana(f.grafana, os.Getenv(environmentGrafanaToken))
	if err != nil {
		return nil, fmt.Errorf("--grafana (token: %s): %w", environmentGrafanaToken, err)
	}
	return append(all, grafana), nil
}
