package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is what faults can refer to in a scenario.
type Setting struct {
	// Steady is the length of the steady phase, in which every fault must lie; 0 if unknown, and then not checked.
	Steady time.Duration
	// Brokers and Instances are their numbers. MaxInstances includes the instances that faults add. 0 means unknown,
	// and then not checked.
	Brokers, Instances, MaxInstances int
	// DLQBroker is the broker of the link "dlq", 0 if there is no such link.
	DLQBroker int
	// Stub: the subject calls the downstream stub.
	Stub bool
	// Output: its attempts are writes to an output topic, which pass no link of their own.
	Output bool
	// Downstreams are what the subject calls, if its file says so; the first decides.
	Downstreams []DownstreamSetting
	// Topics are the topics that kafka faults can name besides "input", "retry" and "dlq"; nil means any.
	Topics []string
	// NoRetryTopics: the subject has no retry topics.
	NoRetryTopics bool
	// NoDeadLetters: the subject itself writes no dead letters.
	NoDeadLetters bool
	// Letters is the downstream that takes the dead letters in the place of a topic; "" if there is none.
	Letters string
	// Partitions are the partition counts of the topics by role ("input", "retry", "dlq"). A missing role is unknown,
	// and then not checked.
	Partitions map[string]int
	// Nodes are the names of a graph's nodes; nil if the subject is not a graph.
	Nodes []string
	// StoreProcesses are the numbers of routers and workers ("router", "worker") of the dead-letter store; nil if
	// there is no store. StoreLink: its database is reached over the link "store".
	StoreProcesses map[string]int
	StoreLink      bool
	// StoreFixed is the reason why the store's database cannot be stopped, with a remedy; "" if it can.
	StoreFixed string
	// StoreProbe: the store's workers call a health probe.
	StoreProbe bool
	// Registry: the subject's records have a schema, which it finds over the link "registry".
	Registry bool
	// SkipsUnread: records that the subject can't read are committed unprocessed, as its contract says.
	SkipsUnread bool
	// HaltsUnread: the subject halts at records that it can't read, as its contract says.
	HaltsUnread bool
	// Reference describes the reference consumer; nil for any other subject.
	Reference *ReferenceSetting
}

// DownstreamSetting is a downstream that faults can name. Topic: it is an output topic, without a link of its own.
type DownstreamSetting struct {
	Name  string
	Topic bool
}

// ReferenceSetting has the settings that decide which requests the reference consumer makes and which events can
// occur.
type ReferenceSetting struct {
	// GroupProtocol is "classic", "consumer" or "share".
	GroupProtocol string
	// Transactions: it writes dead letters and commits in transactions.
	Transactions bool
	// Static: its members are static (KIP-345).
	Static bool
	// MaxAttempts is the number of executions of a record.
	MaxAttempts int
}

// Defect is one defect of a fault's settings.
type Defect struct {
	// Path is the place of the defect: "/kafka/error" below the fault, "/error" below its kind; "" is the whole
	// fault.
	Path    string
	Message string
	// Got and Known, if set, are an unknown word and the known words, for a suggestion.
	Got   string
	Known []string
}

// At returns one defect at the path.
func At(path, format string, args ...any) []Defect {
	return []Defect{{Path: path, Message: fmt.Sprintf(format, args...)}}
}

// AtIf returns one defect at the path if something is wrong, else none.
func AtIf(wrong bool, path, format string, args ...any) []Defect {
	if !wrong {
		return nil
	}
	return At(path, format, args...)
}

// Messages shared by several kinds of faults, for a subject that does not do what the faults would hit.
const (
	NoLetters = "the subject writes no dead letters (dlq_enabled: false or dlq_written_by: broker; in a contract " +
		"dlq: {enabled: false} or {written_by: broker})"
	NoRegistry = "the subject asks no schema registry: that needs a subject whose records have a schema " +
		"(input: {format: avro, schema: …})"
	OutputOnly   = "this downstream is an output topic (kafka)"
	NoDownstream = "the subject does not call the downstream (observe: wire), so this fault could have no effect"
)

// LettersElsewhere returns the message that the dead letters go to a downstream.
func (s Setting) LettersElsewhere() string {
	return "the subject's dead letters go to the downstream " + s.Letters + ", not to a topic"
}

// NoBroker returns the message that there is no broker with that number.
func (s Setting) NoBroker(number int) string {
	return fmt.Sprintf("there is no broker %d: the cluster has %s", number, Counted(s.Brokers, "broker"))
}

// CheckInstance checks the number of one of count instances. A nil number is valid, and a count of 0 is unknown.
func CheckInstance(number *int, count int) []Defect {
	if number == nil || count == 0 || *number < count {
		return nil
	}
	return At("/instance", "%s", noInstance(*number, count))
}

func noInstance(number, count int) string {
	return fmt.Sprintf("there is no instance %d: the subject has %s, numbered from 0", number, Counted(count, "instance"))
}

// CheckDownstream checks the name of a downstream at the path of a fault's settings, and returns what is known of the
// downstream. "" stands for the one that decides.
func (s Setting) CheckDownstream(path, name string) (DownstreamSetting, []Defect) {
	deciding := DownstreamSetting{Topic: s.Output}
	if name == "" {
		return deciding, nil
	}
	var known []string
	for _, one := range s.Downstreams {
		if one.Name == name {
			return one, nil
		}
		known = append(known, one.Name)
	}
	message := fmt.Sprintf("there is no downstream %s: name one of downstreams in subject.yaml (%s)", name,
		strings.Join(known, ", "))
	if known == nil {
		message = fmt.Sprintf("there is no downstream %s: the subject has one, without a name, so leave the name out", name)
	}
	return deciding, []Defect{{Path: path, Message: message, Got: name, Known: known}}
}

// CheckNode checks the name of a graph's node. needed: in a graph, a node must be given.
func (s Setting) CheckNode(name string, needed bool) []Defect {
	at := func(message string) []Defect {
		return []Defect{{Path: "/node", Message: message, Got: name, Known: s.Nodes}}
	}
	switch {
	case name != "" && s.Nodes == nil:
		return at("the subject is no graph, so it has no nodes: leave out node")
	case name == "" && s.Nodes != nil && needed:
		return at("say which node's instance is meant: add node")
	case name != "" && !slices.Contains(s.Nodes, name):
		return at("there is no node " + name)
	}
	return nil
}

// AtNode returns the part of a description that names the node of a graph, "" if there is none.
func AtNode(name string) string {
	if name == "" {
		return ""
	}
	return " at node " + name
}

// CheckProcess checks the name of a process of the dead-letter store.
func (s Setting) CheckProcess(name string) []Defect {
	kind, number, err := ReadProcess(name)
	if err == nil && number >= s.StoreProcesses[kind] {
		err = fmt.Errorf("there is no %s: the store has %s, numbered from 0", name, Counted(s.StoreProcesses[kind], kind))
		if s.StoreProcesses == nil {
			err = fmt.Errorf("the run has no dead-letter store, so there is no %s: add store", name)
		}
	}
	if err != nil {
		return At("/process", "%s", err)
	}
	return nil
}

// ReadProcess reads the name of a process of the dead-letter store, "worker N" or "router N".
func ReadProcess(name string) (kind string, number int, err error) {
	found := processForm.FindStringSubmatch(name)
	if found == nil {
		return "", 0, fmt.Errorf("%q is no process of the dead-letter store: write worker N or router N, N from 0", name)
	}
	number, err = strconv.Atoi(found[2])
	return found[1], number, err
}

// WorkerOf returns the number in "worker N", or nil for any other name.
func WorkerOf(name string) *int {
	if kind, number, err := ReadProcess(name); err == nil && kind == "worker" {
		return &number
	}
	return nil
}

var processForm = regexp.MustCompile(`^(worker|router) (\d{1,2})$`)

// Counted returns a number with its noun: "1 broker", "2 brokers".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
