package faults

// What makes a fault wrong although it is well written: it contradicts itself, hits what does not exist, or could have no effect.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Setting is what a scenario has that faults can refer to.
type Setting struct {
	// Steady is the length of the steady phase, in which every fault must lie; 0: not known, not checked.
	Steady time.Duration
	// Brokers and Instances are their numbers; 0: not known, not checked.
	Brokers, Instances int
	// DLQBroker is the broker of the link "dlq"; 0: there is no such link.
	DLQBroker int
	// Oracle: the subject calls the downstream.
	Oracle bool
	// Topics that kafka faults can name besides "input" and "dlq"; nil: any.
	Topics []string
}

// Defect is one thing that is wrong with a spec.
type Defect struct {
	// Path leads to the place below the spec: "/kafka/error"; "" is the fault as a whole.
	Path    string
	Message string
	// Got and Known, where set, are a word that is not known and the words that are, for a suggestion.
	Got   string
	Known []string
}

// Validate returns everything that is wrong with s in the setting. Defects are reported at the key that has to change.
func (s Spec) Validate(setting Setting) []Defect {
	kinds := s.Kinds()
	if len(kinds) != 1 {
		message := "a fault needs exactly one kind: network, kafka, broker, subject or downstream"
		if len(kinds) > 1 {
			message = fmt.Sprintf("this fault has several kinds (%s): write one fault for each", strings.Join(kinds, ", "))
		}
		return append(s.outside(setting), Defect{Message: message})
	}
	var defects []Defect
	switch {
	case s.Network != nil:
		defects = s.Network.validate(setting)
	case s.Kafka != nil:
		defects = s.Kafka.validate(setting)
	case s.Broker != nil:
		defects = s.Broker.validate(setting)
	case s.Subject != nil:
		defects = s.Subject.validate(setting)
	case s.Downstream != nil:
		defects = s.Downstream.validate(setting)
	}
	for i := range defects {
		defects[i].Path = "/" + kinds[0] + defects[i].Path
	}
	return slices.Concat(s.length(), s.outside(setting), defects)
}

// length checks For: an instant has none, everything else needs one.
func (s Spec) length() []Defect {
	instant := s.Broker != nil && s.Broker.Restart || s.Subject != nil && s.Subject.Restart
	ends := s.Subject != nil && (s.Subject.Signal == "TERM" || s.Subject.Signal == "KILL")
	switch {
	case instant && s.For > 0:
		return []Defect{{Path: "/for", Message: "a restart is an instant: leave out for"}}
	case ends && s.For > 0 && s.Subject.RestartAfter > 0:
		return []Defect{{Path: "/for", Message: "for and restart_after both say when the instance comes back: keep one"}}
	case !instant && !ends && s.For == 0:
		return []Defect{{Message: "this fault needs a duration: add for, such as for: 2s"}}
	}
	return nil
}

func (s Spec) outside(setting Setting) []Defect {
	if setting.Steady == 0 {
		return nil
	}
	length := s.Length(setting.Instances)
	if s.At.D() >= setting.Steady {
		return []Defect{{Path: "/at", Message: fmt.Sprintf(
			"the fault lies outside the run: it starts at %s, the steady phase lasts %s", s.At, setting.Steady)}}
	}
	if end := s.At.D() + length; end > setting.Steady {
		path := "/at"
		if s.For > 0 {
			path = "/for"
		}
		return []Defect{{Path: path, Message: fmt.Sprintf(
			"the fault lasts beyond the run: it ends at %s, the steady phase lasts %s", end, setting.Steady)}}
	}
	return nil
}

func (n Network) validate(setting Setting) []Defect {
	defects := n.link(setting)
	set := names(map[string]bool{"latency": n.Latency > 0, "bandwidth": n.Bandwidth > 0, "timeout": n.Timeout, "down": n.Down, "reset": n.Reset})
	defects = append(defects, exactlyOne(set, "latency, bandwidth, timeout, down and reset")...)
	if n.Jitter > 0 && n.Latency == 0 {
		defects = append(defects, Defect{Path: "/jitter", Message: "jitter goes with latency: add latency"})
	}
	return defects
}

func (n Network) link(setting Setting) []Defect {
	known := []string{"brokers", "downstream"}
	if setting.DLQBroker > 0 {
		known = append(known, "dlq")
	}
	for broker := range setting.Brokers {
		known = append(known, fmt.Sprintf("broker %d", broker+1))
	}
	var number int
	_, err := fmt.Sscanf(n.Link, "broker %d", &number)
	isBroker := err == nil && n.Link == fmt.Sprintf("broker %d", number)
	at := func(message string) []Defect {
		return []Defect{{Path: "/link", Message: message, Got: n.Link, Known: known}}
	}
	switch {
	case n.Link == "":
		return nil // reported as missing by the schema
	case n.Link == "dlq" && setting.DLQBroker == 0:
		return []Defect{{Path: "/link", Message: `there is no link "dlq": it needs topics.dlq.broker, the broker that holds the DLQ topic alone`}}
	case n.Link == "downstream" && !setting.Oracle:
		return []Defect{{Path: "/link", Message: noOracle}}
	case isBroker && number < 1:
		return at("brokers are numbered from 1")
	case isBroker && setting.Brokers > 0 && number > setting.Brokers:
		return []Defect{{Path: "/link", Message: fmt.Sprintf("there is no broker %d: the cluster has %s", number, counted(setting.Brokers, "broker"))}}
	case !isBroker && !slices.Contains([]string{"brokers", "downstream", "dlq"}, n.Link):
		return at(fmt.Sprintf(`there is no link %q: write "broker N", brokers, dlq or downstream`, n.Link))
	}
	return nil
}

const noOracle = "the subject does not call the downstream (observe: wire), so this fault could have no effect"

func (k Kafka) validate(setting Setting) []Defect {
	set := names(map[string]bool{"error": k.Error != "", "delay_response": k.DelayResponse > 0, "drop_response": k.DropResponse})
	defects := exactlyOne(set, "error, delay_response and drop_response")
	if k.Error != "" && !slices.Contains(ErrorNames(), k.Error) {
		defects = append(defects, Defect{Path: "/error", Message: fmt.Sprintf("%q is no Kafka error", k.Error), Got: k.Error, Known: ErrorNames()})
	}
	if k.Probability <= 0 {
		defects = append(defects, Defect{Path: "/probability", Message: "at 0% this fault could have no effect"})
	}
	defects = append(defects, k.topic(setting)...)
	return append(defects, instance(k.Instance, setting)...)
}

func (k Kafka) topic(setting Setting) []Defect {
	switch {
	case k.API == "OffsetCommit" && k.Topic == "dlq":
		return []Defect{{Path: "/topic", Message: "nobody commits offsets of the DLQ topic, so this fault could have no effect: use topic: input, or leave topic out"}}
	case k.API == "Produce" && k.Topic == "input":
		return []Defect{{Path: "/topic", Message: "the subject does not produce to the input topic, so this fault could have no effect: use topic: dlq"}}
	case k.Topic == "" || k.Topic == "input" || k.Topic == "dlq" || setting.Topics == nil:
		return nil
	}
	known := append([]string{"input", "dlq"}, setting.Topics...)
	if slices.Contains(known, k.Topic) {
		return nil
	}
	return []Defect{{Path: "/topic", Message: fmt.Sprintf("there is no topic %q: write %s", k.Topic, strings.Join(known, " or ")), Got: k.Topic, Known: known}}
}

func (b Broker) validate(setting Setting) []Defect {
	defects := exactlyOne(names(map[string]bool{"stop": b.Stop, "restart": b.Restart}), "stop and restart")
	if b.Broker > setting.Brokers && setting.Brokers > 0 {
		defects = append(defects, Defect{Path: "/broker", Message: fmt.Sprintf(
			"there is no broker %d: the cluster has %s", b.Broker, counted(setting.Brokers, "broker"))})
	}
	return defects
}

func (s Subject) validate(setting Setting) []Defect {
	defects := exactlyOne(names(map[string]bool{"signal": s.Signal != "", "restart": s.Restart}), "signal and restart")
	defects = append(defects, exactlyOne(names(map[string]bool{"instance": s.Instance != nil, "all": s.All}), "instance and all")...)
	if s.Every > 0 && !s.All {
		defects = append(defects, Defect{Path: "/every", Message: "every goes with all: true"})
	}
	if s.RestartAfter > 0 && s.Signal != "TERM" && s.Signal != "KILL" {
		defects = append(defects, Defect{Path: "/restart_after", Message: "restart_after goes with signal: TERM or KILL, which end the instance"})
	}
	return append(defects, instance(s.Instance, setting)...)
}

func (d Downstream) validate(setting Setting) []Defect {
	if !setting.Oracle {
		return []Defect{{Message: noOracle}}
	}
	return exactlyOne(names(map[string]bool{"outage": d.Outage}), "outage")
}

func instance(number *int, setting Setting) []Defect {
	if number == nil || setting.Instances == 0 || *number < setting.Instances {
		return nil
	}
	return []Defect{{Path: "/instance", Message: fmt.Sprintf(
		"there is no instance %d: the subject has %s, numbered from 0", *number, counted(setting.Instances, "instance"))}}
}

func exactlyOne(set []string, all string) []Defect {
	switch len(set) {
	case 0:
		return []Defect{{Message: "this fault does nothing: set one of " + all}}
	case 1:
		return nil
	}
	return []Defect{{Path: "/" + set[1], Message: fmt.Sprintf("%s exclude each other: keep one, and write a fault of its own for the other", strings.Join(set, " and "))}}
}

// names returns the names that are set, sorted.
func names(of map[string]bool) []string {
	var set []string
	for name, is := range of {
		if is {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	return set
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ErrorNames returns the names of Kafka's error codes that a fault can answer with, by code.
func ErrorNames() []string {
	var list []string
	// Codes are dense; the first unknown one after the known ends them. 0 is no error.
	for code := int16(-1); code < 400; code++ {
		if err := kerr.TypedErrorForCode(code); err != nil && err.Code == code {
			list = append(list, err.Message)
		}
	}
	return list
}
