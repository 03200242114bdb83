package outward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Format is the form of a webhook's messages.
type Format string

// These are the formats. A generic message is the event as JSON.
const (
	FormatSlack   Format = "slack"
	FormatTeams   Format = "teams"
	FormatGeneric Format = "generic"
)

// Formats lists the formats.
func Formats() []Format { return []Format{FormatSlack, FormatTeams, FormatGeneric} }

// Webhook posts the start, the injections, the heals and the end of a drill to a chat channel or to a program.
type Webhook struct {
	address *url.URL
	format  Format
}

// NewWebhook returns a webhook. Without a format, the host decides. The error never contains the address, which is a
// secret.
func NewWebhook(address string, format Format) (*Webhook, error) {
	parsed, err := parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the webhook: %w", err)
	}
	format = cmp.Or(format, formatOf(parsed.Hostname()))
	if !slices.Contains(Formats(), format) {
		return nil, fmt.Errorf("%q is not a format of webhooks: write slack, teams or generic", format)
	}
	return &Webhook{parsed, format}, nil
}

// parse reads an address. Its error says nothing of the address.
func parse(address string) (*url.URL, error) {
	parsed, err := url.Parse(strings.TrimSpace(address))
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, errors.New("this is not an address: write https://HOST/PATH")
	}
	return parsed, nil
}

// formatOf guesses the format from the host: that of Slack's incoming webhooks, and those of Teams' webhooks and of the
// workflows that replace them.
func formatOf(host string) Format {
	under := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	switch {
	case under("hooks.slack.com") || under("hooks.slack-gov.com"):
		return FormatSlack
	case under("webhook.office.com") || under("logic.azure.com") || under("api.powerplatform.com"):
		return FormatTeams
	}
	return FormatGeneric
}

func (w *Webhook) name() string { return "webhook " + w.address.Hostname() }

func (w *Webhook) takes(event Event) bool {
	// A channel that was spared the faults gets them in one message at the end, not as a flood.
	return event.Kind != KindNotice && !event.late
}

func (w *Webhook) send(ctx context.Context, event Event) error {
	var body any = event
	text := "dlqbench: " + event.Text
	switch w.format {
	case FormatSlack:
		body = map[string]any{"text": slackEscaped(text)}
	case FormatTeams:
		body = map[string]any{"type": "message", "attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content": map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
				"version": "1.4", "body": []any{map[string]any{"type": "TextBlock", "wrap": true, "text": markdownEscaped(text)}}},
		}}}
	}
	return post(ctx, w.address, "", body)
}

// slackEscaped keeps Slack from finding mentions, channels and links in a text.
func slackEscaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// markdownEscaped keeps an adaptive card from finding links and emphasis in a text.
func markdownEscaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "`", "\\`").Replace(text)
}

// post sends JSON once. It follows no redirect, which could lead the secrets elsewhere. Its error has no more of the
// address than its host.
func post(ctx context.Context, address *url.URL, token string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(text))
	if err != nil {
		return errors.New("the address can't be asked")
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := http.Client{Transport: transport, Timeout: requestLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return plainly(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the answer is %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}

// plainly removes the address from an error of the HTTP client, which repeats it.
func plainly(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", requestLimit)
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return errors.New("the request failed")
}
