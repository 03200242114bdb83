package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writeSubjects writes a subject file for each mode; what it promises follows from the settings.
func writeSubjects(folder string) error {
	for _, m := range modes() {
		s := standard()
		m.change(&s)
		if err := os.WriteFile(filepath.Join(folder, m.name+".yaml"), []byte(subject(m, s)), 0o644); err != nil {
			return fmt.Errorf("writing the subject file of %s: %w", m.name, err)
		}
	}
	return nil
}

func subject(m mode, s settings) string {
	return fmt.Sprintf(`# %s. Written by go run . -subjects subjects
name: stranger-%s
kind: process
dir: ..
build: ["go", "build", "-o", "bin/consumer", "."]
command: ["bin/consumer"]
env:
  MODE: %s
  INSTANCE: "{{.Instance}}"
  KAFKA_BROKERS: "{{.BootstrapServers}}"
  KAFKA_GROUP: "{{.GroupID}}"
  KAFKA_TOPIC: "{{.InputTopic}}"
  KAFKA_DLQ_TOPIC: "{{.DLQTopic}}"
  DOWNSTREAM_URL: "{{.OracleURL}}"
%s%scontract:
%s  attempts: {max: %d, counter: memory}
%s%s%s  retry: in-place
%s  dlq:
    topic: "{{.DLQTopic}}"
    on_failure: halt
%s  commits: after-outcome
  stop: {grace: %s}
%s%s%s`, strings.ToUpper(m.what[:1])+m.what[1:], m.name, m.name, healthPort(s), topics(s),
		groupProtocol(s), s.retries.attempts,
		backoff(s), classes(s), ordering(s), retryAfter(s), envelope(s), grace(s), skips(s), poison(s), health(s))
}

func backoff(s settings) string {
	if s.retries.attempts == 1 {
		return ""
	}
	jitter := ""
	if s.retries.jitter > 0 {
		jitter = fmt.Sprintf("jitter: %s, ", s.retries.jitter)
	}
	late := time.Second
	if s.pause || s.fetchMin > 0 { // a record that is fetched again is as late as the fetch
		late += max(time.Second, s.fetchWait)
	}
	return fmt.Sprintf("  backoff: {initial: %s, multiplier: 2, cap: %s, %slate: %s}\n", s.retries.first, s.retries.cap,
		jitter, late)
}

func classes(s settings) string {
	logical := "terminal"
	if s.retries.logicalIsFailure {
		logical = "dead-letter"
	}
	return fmt.Sprintf(
		"  classes: {retryable: [503, 429, timeout, reset], permanent: [400], logical: [422]}\n  logical: %s\n", logical)
}

func ordering(s settings) string {
	order := map[lanes]string{byPartition: "partition", byKey: "key", allAtOnce: "none", oneByOne: "partition"}[s.lanes]
	if order != "none" && s.letters.batched {
		order += "\n  order_of: attempts"
	}
	return fmt.Sprintf("  ordering: %s\n", order)
}

func retryAfter(s settings) string {
	if s.retries.ignoreAfter {
		return ""
	}
	return "  retry_after: honoured\n"
}

func envelope(s settings) string {
	text := "    envelope: plain\n"
	if s.letters.own {
		text = "    envelope: {topic: failed-topic, partition: failed-partition, offset: failed-offset, attempts: " +
			"failed-attempts, reason: failed-because}\n"
	}
	if s.log == healthOnly {
		text += "    surfaced_within: 5s\n"
	}
	for name, changed := range map[string]bool{"key": s.letters.rekeyed, "value": s.letters.wrapped,
		"headers": s.letters.bare} {
		if changed {
			text += fmt.Sprintf("    keeps_%s: false\n", name)
		}
	}
	return text
}

func groupProtocol(s settings) string {
	if s.next {
		return "  group_protocol: consumer\n"
	}
	return ""
}

func grace(s settings) time.Duration {
	if s.finish {
		return finishWithin + 7*time.Second
	}
	return 10 * time.Second
}

func skips(s settings) string {
	if s.retries.skipTombstones {
		return "  skips: [tombstone]\n"
	}
	return ""
}

func poison(s settings) string {
	if s.unreadable != "" {
		return "  poison: halt\n"
	}
	return ""
}

func topics(s settings) string {
	if !s.elsewhere {
		return ""
	}
	return `  KAFKA_SECOND_TOPIC: "{{.InputTopic}}.second"
  KAFKA_RESULT_TOPIC: "{{.InputTopic}}.results"
topics: ["{{.InputTopic}}.second", "{{.InputTopic}}.results"]
`
}

func healthPort(s settings) string {
	if s.log != healthOnly {
		return ""
	}
	return "  HEALTH_PORT: \"{{.Port}}\"\n"
}

func health(s settings) string {
	if s.log != healthOnly {
		return ""
	}
	return "  health: \"http://127.0.0.1:{{.Port}}/\"\n"
}
