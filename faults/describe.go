package faults

// What a fault is called, in the words of a scenario: for the plan, the live display and the report.

import (
	"fmt"
	"strings"
	"time"
)

// The kinds of faults: each has one injector, and one key in Spec.
const (
	KindNetwork    = "network"
	KindKafka      = "kafka"
	KindBroker     = "broker"
	KindSubject    = "subject"
	KindDownstream = "downstream"
)

// Kinds returns the kinds that s sets, in the order of Spec; a valid spec has exactly one.
func (s Spec) Kinds() []string {
	var kinds []string
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{KindNetwork, s.Network != nil}, {KindKafka, s.Kafka != nil}, {KindBroker, s.Broker != nil},
		{KindSubject, s.Subject != nil}, {KindDownstream, s.Downstream != nil},
	} {
		if kind.set {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// Kind returns the fault's kind, "" when s has none.
func (s Spec) Kind() string {
	if kinds := s.Kinds(); len(kinds) > 0 {
		return kinds[0]
	}
	return ""
}

// Describe says in words what is broken ("Produce to dlq answered NOT_ENOUGH_REPLICAS") and names what is hit: "broker 1", "brokers",
// "dlq", "input", "downstream", "instance 1", "every instance".
func (s Spec) Describe() (what, target string) {
	switch {
	case s.Network != nil:
		return s.Network.what(), s.Network.Link
	case s.Kafka != nil:
		return s.Kafka.what(), s.Kafka.target()
	case s.Broker != nil:
		target = fmt.Sprintf("broker %d", s.Broker.Broker)
		if s.Broker.Restart {
			return target + " restarted", target
		}
		return target + " stopped", target
	case s.Subject != nil:
		return s.Subject.what(), s.Subject.target()
	case s.Downstream != nil:
		return "every attempt answered 503", "downstream"
	}
	return "", ""
}

// StopsDeadLetters reports whether no dead letter can be acknowledged to any instance while the fault is in force.
func (s Spec) StopsDeadLetters() bool {
	switch {
	case s.Network != nil:
		return s.Network.Link == "dlq" && (s.Network.Down || s.Network.Timeout || s.Network.Reset)
	case s.Kafka != nil:
		everyone := s.Kafka.Instance == nil && s.Kafka.Probability >= 1
		return everyone && s.Kafka.API == "Produce" && s.Kafka.Topic != "input" && (s.Kafka.Error != "" || s.Kafka.DropResponse)
	}
	return false
}

// Length returns how long the fault lasts in a run with that many instances: For, or what its own settings add up to
// (a restart after a while, a round of restarts).
func (s Spec) Length(instances int) time.Duration {
	length := s.For.D()
	if s.Subject == nil {
		return length
	}
	length = max(length, s.Subject.RestartAfter.D())
	if s.Subject.All && instances > 1 {
		length += s.Subject.Every.D() * time.Duration(instances-1)
	}
	return length
}

func (n Network) what() string {
	switch {
	case n.Latency > 0 && n.Jitter > 0:
		return fmt.Sprintf("%s delayed by %s plus up to %s", n.Link, n.Latency, n.Jitter)
	case n.Latency > 0:
		return fmt.Sprintf("%s delayed by %s", n.Link, n.Latency)
	case n.Bandwidth > 0:
		return fmt.Sprintf("%s limited to %s/s", n.Link, n.Bandwidth)
	case n.Timeout:
		return n.Link + " silent: data swallowed, connections open"
	case n.Down:
		return n.Link + " down: connections closed and refused"
	}
	return n.Link + " resets its connections"
}

func (k Kafka) what() string {
	var text strings.Builder
	text.WriteString(k.API)
	if k.Topic != "" {
		text.WriteString(" to " + k.Topic)
	}
	if k.Instance != nil {
		fmt.Fprintf(&text, " by instance %d", *k.Instance)
	}
	switch {
	case k.Error != "":
		text.WriteString(" answered " + k.Error)
	case k.DelayResponse > 0:
		fmt.Fprintf(&text, " answered %s late", k.DelayResponse)
	case k.DropResponse:
		text.WriteString(" carried out, the answer lost")
	}
	if k.Probability > 0 && k.Probability < 1 {
		fmt.Fprintf(&text, " (%s of the requests)", k.Probability)
	}
	return text.String()
}

func (k Kafka) target() string {
	switch {
	case k.Topic != "":
		return k.Topic
	case k.Instance != nil:
		return fmt.Sprintf("instance %d", *k.Instance)
	}
	return "every instance"
}

func (s Subject) target() string {
	if s.Instance != nil {
		return fmt.Sprintf("instance %d", *s.Instance)
	}
	return "every instance"
}

func (s Subject) what() string {
	text := s.target() + " restarted"
	if s.Signal != "" {
		text = s.Signal + " to " + s.target()
	}
	if s.All && s.Every > 0 {
		text += fmt.Sprintf(", one every %s", s.Every)
	}
	if s.RestartAfter > 0 {
		text += fmt.Sprintf(", started again after %s", s.RestartAfter)
	}
	return text
}
