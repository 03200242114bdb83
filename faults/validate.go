package faults

// What makes a fault wrong although it is well written: it contradicts itself, hits what does not exist, or could have
// no effect. (Requests of Kafka are in validate_kafka.go.)

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Setting is what a scenario has that faults can refer to.
type Setting struct {
	// Steady is the length of the steady phase, in which every fault must lie; 0: not known, not checked.
	Steady time.Duration
	// Brokers and Instances are their numbers; MaxInstances counts those that faults add, too. 0: not known, not
	// checked.
	Brokers, Instances, MaxInstances int
	// DLQBroker is the broker of the link "dlq"; 0: there is no such link.
	DLQBroker int
	// Oracle: the subject calls the downstream.
	Oracle bool
	// Topics that kafka faults can name besides "input", "retry" and "dlq"; nil: any.
	Topics []string
	// NoRetryTopics: the subject has none.
	NoRetryTopics bool
	// NoDeadLetters: the subject itself writes none.
	NoDeadLetters bool
	// Partitions of the topics by role ("input", "retry", "dlq"); what is missing is not known, and not checked.
	Partitions map[string]int
	// Nodes are the names of a graph's nodes; nil: the subject is no graph.
	Nodes []string
	// StoreProcesses are the numbers of routers and workers ("router", "worker") of the dead-letter store; nil: there
	// is none. StoreLink: its database is reached over the link "store".
	StoreProcesses map[string]int
	StoreLink      bool
	// StoreFixed says why the store's database can't be stopped, what to do about it included; "" if it can.
	StoreFixed string
	// StoreProbe: its workers ask a health probe.
	StoreProbe bool
	// Reference is what is known of the reference consumer; nil for any other subject.
	Reference *ReferenceSetting
}

// ReferenceSetting is what decides which requests the reference consumer makes, and which events can come.
type ReferenceSetting struct {
	// GroupProtocol is classic, consumer or share.
	GroupProtocol string
	// Transactions: it dead-letters and commits in transactions.
	Transactions bool
	// Static: its members are static (KIP-345).
	Static bool
	// MaxAttempts is the number of executions of a record.
	MaxAttempts int
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
// Whether At was written at all can't be seen here: a fault needs At or When.
func (s Spec) Validate(setting Setting) []Defect {
	kinds := s.Kinds()
	if len(kinds) != 1 {
		message := "a fault needs exactly one kind: network, kafka, broker, subject, downstream or store"
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
	case s.Store != nil:
		defects = s.Store.validate(setting)
	}
	for i := range defects {
		defects[i].Path = "/" + kinds[0] + defects[i].Path
	}
	return slices.Concat(s.trigger(setting), s.length(), s.outside(setting), defects)
}

// trigger checks the event that the fault waits for: it must be one, and one that can come.
func (s Spec) trigger(setting Setting) []Defect {
	if s.When == "" {
		if s.After > 0 {
			return []Defect{{Path: "/after", Message: "after counts from the event of when, and there is none: add when, such " +
				"as when: first-retry, or use at"}}
		}
		return nil
	}
	at := func(format string, args ...any) []Defect {
		return []Defect{{Path: "/when", Message: fmt.Sprintf(format, args...)}}
	}
	trigger, _, err := s.Trigger()
	retries := trigger.Event == TriggerFirstRetry || trigger.Event == TriggerBackoff
	reference := setting.Reference
	switch {
	case err != nil:
		return []Defect{{Path: "/when", Message: err.Error(), Got: s.When, Known: []string{
			string(TriggerFirstRetry), string(TriggerFirstDeadLetter), string(TriggerBackoff), "lag > 1000",
			"instance 0 assigned"}}}
	case retries && !setting.Oracle:
		return at(
			"the subject does not call the downstream (observe: wire), so its attempts are not seen and this event never comes")
	case retries && reference != nil && reference.MaxAttempts == 1:
		return at("with max_retries: 1 nothing is tried again, so this event never comes")
	case trigger.Event == TriggerFirstDeadLetter && setting.NoDeadLetters:
		return at("%s, so this event never comes", noLetters)
	case (trigger.Event == TriggerStoreLocked || trigger.Event == TriggerStoreRepublished) &&
		setting.StoreProcesses["worker"] == 0:
		return at("the run has no dead-letter store with workers, so this event never comes: add store")
	case trigger.Event == TriggerAssigned && setting.MaxInstances > 0 && trigger.Instance >= setting.MaxInstances:
		return at("there is no instance %d: the subject has %s, numbered from 0", trigger.Instance,
			counted(setting.MaxInstances, "instance"))
	}
	return nil
}

// length checks For: an instant has none, everything else needs one.
func (s Spec) length() []Defect {
	instant := s.Broker != nil && (s.Broker.Restart || s.Broker.MoveCoordinator) ||
		s.Subject != nil && s.Subject.Restart ||
		s.Store != nil && (s.Store.Restart || s.Store.RepeatLetters > 0)
	ends := s.Subject != nil && (s.Subject.Signal == "TERM" || s.Subject.Signal == "KILL")
	either := ends || s.Broker != nil && s.Broker.MoveLeaders
	switch {
	case instant && s.For > 0:
		what := "a restart"
		if s.Broker != nil && s.Broker.MoveCoordinator {
			what = "this move"
		}
		if s.Store != nil && s.Store.RepeatLetters > 0 {
			what = "writing letters again"
		}
		return []Defect{{Path: "/for", Message: what + " is an instant: leave out for"}}
	case ends && s.For > 0 && s.Subject.RestartAfter > 0:
		return []Defect{{Path: "/for", Message: "for and restart_after both say when the instance comes back: keep one"}}
	case !instant && !either && s.For == 0:
		return []Defect{{Message: "this fault needs a duration: add for, such as for: 2s"}}
	}
	return nil
}

// outside checks that the fault lies within the run. With When nobody knows where it will lie, only from when on it is
// waited for.
func (s Spec) outside(setting Setting) []Defect {
	if setting.Steady == 0 {
		return nil
	}
	if s.At.D() >= setting.Steady {
		return []Defect{{Path: "/at", Message: fmt.Sprintf(
			"the fault lies outside the run: it starts at %s, the steady phase lasts %s", s.At, setting.Steady)}}
	}
	if end := s.At.D() + s.Length(setting.Instances); s.When == "" && end > setting.Steady {
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
	directed := n.Latency > 0 || n.Bandwidth > 0 || n.Timeout || n.Slicer != nil || n.LimitData > 0
	set := names(map[string]bool{
		"latency": n.Latency > 0, "bandwidth": n.Bandwidth > 0, "timeout": n.Timeout, "slow_close": n.SlowClose > 0,
		"slicer": n.Slicer != nil, "limit_data": n.LimitData > 0, "half_open": n.HalfOpen, "down": n.Down, "reset": n.Reset,
	})
	defects = append(defects,
		exactlyOne(set, "latency, bandwidth, timeout, slow_close, slicer, limit_data, half_open, down and reset")...)
	if n.Jitter > 0 && n.Latency == 0 {
		defects = append(defects, Defect{Path: "/jitter", Message: "jitter goes with latency: add latency"})
	}
	if n.Direction != "" && !directed && len(set) > 0 {
		defects = append(defects, Defect{Path: "/direction", Message: fmt.Sprintf(
			"direction goes with latency, bandwidth, timeout, slicer and limit_data: %s concerns whole connections", set[0])})
	}
	if n.Toxicity <= 0 {
		defects = append(defects, Defect{Path: "/toxicity", Message: "at 0% this fault could have no effect"})
	}
	if n.Slicer != nil && n.Slicer.Size <= 0 {
		defects = append(defects, Defect{Path: "/slicer/size", Message: "a piece needs at least one byte, such as size: 64B"})
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
	for _, node := range setting.Nodes {
		known = append(known, DownstreamOf(node))
	}
	if setting.StoreLink {
		known = append(known, LinkStore)
	}
	number, isBroker := n.broker()
	at := func(message string) []Defect {
		return []Defect{{Path: "/link", Message: message, Got: n.Link, Known: known}}
	}
	switch {
	case n.Link == "":
		return nil // reported as missing by the schema
	case n.Link == "dlq" && setting.DLQBroker == 0:
		return []Defect{{Path: "/link", Message: "there is no link \"dlq\": it needs topics.dlq.broker, the broker that " +
			"holds the DLQ topic alone"}}
	case n.Link == "dlq" && setting.NoDeadLetters:
		return []Defect{{Path: "/link", Message: noLetters + ", so nothing goes over the link \"dlq\""}}
	case n.Link == "downstream" && !setting.Oracle:
		return []Defect{{Path: "/link", Message: noOracle}}
	case isBroker && number < 1:
		return at("brokers are numbered from 1")
	case isBroker && setting.Brokers > 0 && number > setting.Brokers:
		return []Defect{{Path: "/link", Message: noBroker(number, setting)}}
	case !isBroker && !slices.Contains([]string{"brokers", "downstream", "dlq"}, n.Link) &&
		!slices.Contains(known, n.Link):
		return at(fmt.Sprintf(`there is no link %q: write "broker N", brokers, dlq or downstream`, n.Link))
	}
	return nil
}

const noLetters = "the subject writes no dead letters (dlq_enabled: false or dlq_written_by: broker; in a contract " +
	"dlq: {enabled: false} or {written_by: broker})"

// DownstreamOf is the link of a node's modules.
func DownstreamOf(node string) string { return "downstream of " + node }

// node checks the name of a graph's node; needed: in a graph there must be one.
func node(name string, setting Setting, needed bool) []Defect {
	at := func(message string) []Defect {
		return []Defect{{Path: "/node", Message: message, Got: name, Known: setting.Nodes}}
	}
	switch {
	case name != "" && setting.Nodes == nil:
		return at("the subject is no graph, so it has no nodes: leave out node")
	case name == "" && setting.Nodes != nil && needed:
		return at("say which node's instance is meant: add node")
	case name != "" && !slices.Contains(setting.Nodes, name):
		return at("there is no node " + name)
	}
	return nil
}

// broker returns the number in a link "broker N".
func (n Network) broker() (number int, is bool) {
	_, err := fmt.Sscanf(n.Link, "broker %d", &number)
	return number, err == nil && n.Link == fmt.Sprintf("broker %d", number)
}

const noOracle = "the subject does not call the downstream (observe: wire), so this fault could have no effect"

func noBroker(number int, setting Setting) string {
	return fmt.Sprintf("there is no broker %d: the cluster has %s", number, counted(setting.Brokers, "broker"))
}

func (b Broker) validate(setting Setting) []Defect {
	set := names(map[string]bool{
		"stop": b.Stop, "kill": b.Kill, "pause": b.Pause, "restart": b.Restart, "move_leaders": b.MoveLeaders,
		"move_coordinator": b.MoveCoordinator,
	})
	defects := exactlyOne(set, "stop, kill, pause, restart, move_leaders and move_coordinator")
	switch {
	case b.MoveCoordinator && b.Broker > 0:
		defects = append(defects, Defect{Path: "/broker", Message: "move_coordinator finds the coordinator of the " +
			"subject's group by itself: leave out broker"})
	case !b.MoveCoordinator && b.Broker == 0 && len(set) > 0:
		defects = append(defects, Defect{Message: set[0] + " needs the number of a broker: add broker, such as broker: 1"})
	case setting.Brokers > 0 && b.Broker > setting.Brokers:
		defects = append(defects, Defect{Path: "/broker", Message: noBroker(b.Broker, setting)})
	}
	if setting.Brokers == 0 {
		return defects
	}
	return append(defects, b.move(setting)...)
}

// move checks that what is to move has somewhere to go.
func (b Broker) move(setting Setting) []Defect {
	shared := setting.Brokers
	if setting.DLQBroker > 0 {
		shared--
	}
	key := map[bool]string{true: "/move_coordinator", false: "/move_leaders"}[b.MoveCoordinator]
	switch {
	case !b.MoveLeaders && !b.MoveCoordinator:
		return nil
	case b.MoveLeaders && b.Broker > 0 && b.Broker == setting.DLQBroker:
		return []Defect{{Path: "/broker", Message: fmt.Sprintf("broker %d holds the DLQ topic alone (topics.dlq.broker), "+
			"so no other can lead its partitions", b.Broker)}}
	case shared < 2 && setting.DLQBroker > 0:
		return []Defect{{Path: key, Message: "there is nowhere to move to: beside the DLQ topic's own broker the cluster " +
			"has one; set cluster.brokers to 3 or more"}}
	case shared < 2:
		return []Defect{{Path: key, Message: "there is nowhere to move to: the cluster has 1 broker; set cluster.brokers " +
			"to 2 or more"}}
	}
	return nil
}

func (s Subject) validate(setting Setting) []Defect {
	set := names(map[string]bool{"signal": s.Signal != "", "restart": s.Restart, "scale_up": s.ScaleUp > 0,
		"scale_down": s.ScaleDown > 0})
	defects := exactlyOne(set, "signal, restart, scale_up and scale_down")
	if s.ScaleUp > 0 || s.ScaleDown > 0 {
		defects = append(defects, s.scale(setting)...)
	} else {
		defects = append(defects,
			exactlyOne(names(map[string]bool{"instance": s.Instance != nil, "all": s.All, "process": s.Process != ""}),
				"instance, all and process")...)
	}
	defects = append(defects, s.ofStore(setting)...)
	if s.Every > 0 && !s.All {
		defects = append(defects, Defect{Path: "/every", Message: "every goes with all: true"})
	}
	if s.RestartAfter > 0 && s.Signal != "TERM" && s.Signal != "KILL" {
		defects = append(defects,
			Defect{Path: "/restart_after", Message: "restart_after goes with signal: TERM or KILL, which end the instance"})
	}
	defects = append(defects, node(s.Node, setting, s.Instance != nil)...)
	return append(defects, instance(s.Instance, setting.Instances)...)
}

// ofStore checks the name of a process of the dead-letter store.
func (s Subject) ofStore(setting Setting) []Defect {
	if s.Process == "" {
		return nil
	}
	return storeProcess(s.Process, setting)
}

// storeProcess checks the name of a process of the dead-letter store.
func storeProcess(name string, setting Setting) []Defect {
	kind, number, err := readProcess(name)
	if err == nil && number >= setting.StoreProcesses[kind] {
		err = fmt.Errorf("there is no %s: the store has %s, numbered from 0", name,
			counted(setting.StoreProcesses[kind], kind))
		if setting.StoreProcesses == nil {
			err = fmt.Errorf("the run has no dead-letter store, so there is no %s: add store", name)
		}
	}
	if err != nil {
		return []Defect{{Path: "/process", Message: err.Error()}}
	}
	return nil
}

// StoreProcess reads Process: "worker" or "router", and its number.
func (s Subject) StoreProcess() (kind string, number int, err error) { return readProcess(s.Process) }

func readProcess(name string) (kind string, number int, err error) {
	found := processForm.FindStringSubmatch(name)
	if found == nil {
		return "", 0, fmt.Errorf("%q is no process of the dead-letter store: write worker N or router N, N from 0", name)
	}
	number, err = strconv.Atoi(found[2])
	return found[1], number, err
}

var processForm = regexp.MustCompile(`^(worker|router) (\d{1,2})$`)

func (s Subject) scale(setting Setting) []Defect {
	var defects []Defect
	if s.Instance != nil {
		defects = append(defects,
			Defect{Path: "/instance", Message: "scaling starts new instances or ends the last ones: leave out instance"})
	}
	if s.All {
		defects = append(defects,
			Defect{Path: "/all", Message: "scaling starts new instances or ends the last ones: leave out all"})
	}
	if setting.Instances > 0 && s.ScaleDown > setting.Instances {
		defects = append(defects, Defect{Path: "/scale_down", Message: fmt.Sprintf("%d instances can't be ended: the "+
			"subject has %d", s.ScaleDown, setting.Instances)})
	}
	if reference := setting.Reference; reference != nil && reference.Static && reference.GroupProtocol == "consumer" {
		defects = append(defects, Defect{Message: "a static member that leaves keeps its partitions until its session " +
			"times out, and with group_protocol: consumer the broker lets that take 45s: the run would wait for nothing else; " +
			"leave out static_membership"})
	}
	return defects
}

func (d Downstream) validate(setting Setting) []Defect {
	if !setting.Oracle {
		return []Defect{{Message: noOracle}}
	}
	defects := exactlyOne(names(map[string]bool{
		"outage": d.Outage, "slow": d.Slow > 0, "hang": d.Hang, "rate_limit": d.RateLimit != nil, "errors": d.Errors != nil,
		"error_text": d.ErrorText != "",
	}), "outage, slow, hang, rate_limit, errors and error_text")
	defects = append(defects, node(d.Node, setting, false)...)
	if limit := d.RateLimit; limit != nil {
		if limit.Rate <= 0 {
			defects = append(defects, Defect{Path: "/rate_limit/rate", Message: "at this rate no attempt passes: write " +
				"outage: true if none shall, or more than 0/s"})
		}
		// HTTP's Retry-After counts seconds (RFC 9110, 10.2.3).
		if limit.RetryAfter.D()%time.Second != 0 {
			defects = append(defects,
				Defect{Path: "/rate_limit/retry_after", Message: "Retry-After is told in whole seconds: write 1s or more"})
		}
	}
	if d.Errors != nil {
		defects = append(defects, d.Errors.validate()...)
	}
	return defects
}

func (e Errors) validate() []Defect {
	// Shares are written with a few decimals and added as floats: what is over by less than that is not over.
	const rounding = 1e-9
	sum := e.Transient + e.Permanent + e.Logical + e.Timeout + e.Reset
	switch {
	case sum <= 0:
		return []Defect{{Path: "/errors", Message: "all shares are 0%, so this fault could have no effect: give at least " +
			"one, such as transient: 20%"}}
	case sum > 1+rounding:
		return []Defect{{Path: "/errors",
			Message: fmt.Sprintf("the shares add up to %s: together they can be 100%% at most", sum)}}
	}
	return nil
}

func instance(number *int, count int) []Defect {
	if number == nil || count == 0 || *number < count {
		return nil
	}
	return []Defect{{Path: "/instance", Message: fmt.Sprintf(
		"there is no instance %d: the subject has %s, numbered from 0", *number, counted(count, "instance"))}}
}

func exactlyOne(set []string, all string) []Defect {
	switch len(set) {
	case 0:
		return []Defect{{Message: "this fault does nothing: set one of " + all}}
	case 1:
		return nil
	}
	return []Defect{{Path: "/" + set[1], Message: fmt.Sprintf("%s exclude each other: keep one, and write a fault of "+
		"its own for the other", strings.Join(set, " and "))}}
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
