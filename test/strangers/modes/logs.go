package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// logger writes lines as a logging library would.
type logger struct {
	format string
	mu     sync.Mutex
	out    io.Writer
	failed atomic.Bool // in the format "health", where errors show in nothing else
}

// healthOnly is the format of a log that has no errors: they show in the health.
const healthOnly = "health"

func newLogger(format string) *logger { return &logger{format: format, out: os.Stderr} }

func logFormats() []string {
	return []string{
		"pino", "bunyan", "logfmt", "log4j", "dotnet", "ansi", "syslog", "gelf", "glog", "zap", "serilog", "monolog",
		"tracing", "structlog", "otel",
	}
}

func (l *logger) Info(text string) { l.line(false, text) }
func (l *logger) Error(text string) {
	if l.format == healthOnly {
		l.failed.Store(true)
		return
	}
	l.line(true, text)
}

// Well is said when what failed succeeds.
func (l *logger) Well() { l.failed.Store(false) }

// ServeHTTP tells the health: 503 while something fails.
func (l *logger) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if l.failed.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (l *logger) line(bad bool, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, l.rendered(bad, text, time.Now()))
}

// pick returns what stands for an error, or for information.
func pick[T any](bad bool, anError, information T) T {
	if bad {
		return anError
	}
	return information
}

func (l *logger) rendered(bad bool, text string, at time.Time) string {
	word := pick(bad, "ERROR", "INFO")
	iso := at.Format("2006-01-02T15:04:05.000Z07:00")
	switch l.format {
	case "logfmt":
		return fmt.Sprintf("time=%s level=%s msg=%q", iso, pick(bad, "error", "info"), text)
	case "log4j":
		return fmt.Sprintf("%s %-5s [main] com.example.orders.Worker - %s", at.Format("2006-01-02 15:04:05,000"), word, text)
	case "dotnet":
		return fmt.Sprintf("%s: Orders.Worker[0]\n      %s", pick(bad, "fail", "info"), text)
	case "ansi":
		return fmt.Sprintf("%s [%sm%s\x1b[0m] orders: %s", at.Format("15:04:05"), pick(bad, "\x1b[31", "\x1b[32"), word, text)
	case "syslog":
		return fmt.Sprintf("<%d>1 %s host orders 1 - - %s", pick(bad, 11, 14), iso, text)
	case "glog":
		return fmt.Sprintf("%s%s       1 worker.go:42] %s", pick(bad, "E", "I"), at.Format("0102 15:04:05.000000"), text)
	case "monolog":
		return fmt.Sprintf("[%s] orders.%s: %s [] []", at.Format("2006-01-02T15:04:05.000000Z07:00"), word, text)
	case "tracing":
		return fmt.Sprintf("%s %5s orders::worker: %s", at.UTC().Format("2006-01-02T15:04:05.000000Z"), word, text)
	case "text", healthOnly:
		return fmt.Sprintf("%s %s %s", at.Format("2006/01/02 15:04:05"), word, text)
	}
	encoded, err := json.Marshal(l.fields(bad, text, at))
	if err != nil {
		return text // none of the fields can fail
	}
	return string(encoded)
}

// fields are those of the formats that are JSON.
func (l *logger) fields(bad bool, text string, at time.Time) map[string]any {
	iso := at.Format("2006-01-02T15:04:05.000Z07:00")
	lower := pick(bad, "error", "info")
	switch l.format {
	case "pino":
		return map[string]any{"level": pick(bad, 50, 30), "time": at.UnixMilli(), "pid": 1, "hostname": "host", "msg": text}
	case "bunyan":
		return map[string]any{"name": "orders", "hostname": "host", "pid": 1, "level": pick(bad, 50, 30), "msg": text,
			"time": iso, "v": 0}
	case "gelf":
		return map[string]any{"version": "1.1", "host": "host", "short_message": text,
			"timestamp": float64(at.UnixMilli()) / 1000, "level": pick(bad, 3, 6)}
	case "serilog":
		event := map[string]any{"@t": iso, "@m": text, "SourceContext": "Orders.Worker"}
		if bad {
			event["@l"] = "Error" // information has no level there
		}
		return event
	case "structlog":
		return map[string]any{"event": text, "level": lower, "timestamp": iso, "logger": "orders"}
	case "otel":
		return map[string]any{
			"timeUnixNano": fmt.Sprint(at.UnixNano()), "severityNumber": pick(bad, 17, 9),
			"severityText": pick(bad, "ERROR", "INFO"), "body": map[string]string{"stringValue": text},
		}
	}
	// zap
	return map[string]any{"level": lower, "ts": float64(at.UnixMicro()) / 1e6, "caller": "orders/worker.go:42",
		"msg": text}
}
