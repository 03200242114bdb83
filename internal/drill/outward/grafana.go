package outward

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// Grafana marks a drill on dashboards: a region for each fault and for the whole load, and a moment for each notice. It
// uses Grafana's annotations API (POST /api/annotations).
type Grafana struct {
	address *url.URL
	token   string
}

// NewGrafana returns a Grafana at its base address, with a token of a service account that may write annotations.
func NewGrafana(address, token string) (*Grafana, error) {
	parsed, err := parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the address of Grafana: %w", err)
	case parsed.User != nil || parsed.RawQuery != "":
		return nil, errors.New("the address of Grafana has a password or parameters: write https://HOST, and give the " +
			"token in the environment")
	case token == "":
		return nil, errors.New("Grafana needs the token of a service account, in the environment")
	}
	return &Grafana{parsed.JoinPath("api", "annotations"), token}, nil
}

func (g *Grafana) name() string { return "Grafana " + g.address.Hostname() }

// takes leaves out injections: a fault is one region, once its end is known.
func (g *Grafana) takes(event Event) bool {
	return event.Kind != KindInjection && event.Kind != KindStart
}

// annotation is the body of the request. Times are in ms since 1970.
type annotation struct {
	Time    int64    `json:"time"`
	TimeEnd int64    `json:"timeEnd,omitempty"`
	Tags    []string `json:"tags"`
	Text    string   `json:"text"`
}

func (g *Grafana) send(ctx context.Context, event Event) error {
	out := annotation{Time: event.At.UnixMilli(), Tags: []string{"dlqbench", "drill"}, Text: event.Text}
	switch event.Kind {
	case KindHeal:
		out.Tags = append(out.Tags, "fault", event.Fault)
	case KindNotice:
		out.Tags = append(out.Tags, "notice")
	}
	if event.Since != nil {
		out.Time, out.TimeEnd = event.Since.UnixMilli(), event.At.UnixMilli()
	}
	return post(ctx, g.address, g.token, out)
}
