package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
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

// Defect is one thing that is wrong with a fault.
type Defect struct {
	// Path leads to the place: "/kafka/error" below the fault, "/error" below its kind; "" is the whole.
	Path    string
	Message string
	// Got and Known, where set, are a word that is not known and the words that are, for a suggestion.
	Got   string
	Known []string
}

// At returns one defect, at the path.
func At(path, format string, args ...any) []Defect {
	return []Defect{{Path: path, Message: fmt.Sprintf(format, args...)}}
}

// What several kinds of faults say of a subject that does not do what they would hit.
const (
	NoLetters = "the subject writes no dead letters (dlq_enabled: false or dlq_written_by: broker; in a contract " +
		"dlq: {enabled: false} or {written_by: broker})"
	NoOracle = "the subject does not call the downstream (observe: wire), so this fault could have no effect"
)

// NoBroker says that there is no broker of that number.
func (s Setting) NoBroker(number int) string {
	return fmt.Sprintf("there is no broker %d: the cluster has %s", number, Counted(s.Brokers, "broker"))
}

// CheckInstance checks the number of one of count instances; nil is none, and a count of 0 is not known.
func CheckInstance(number *int, count int) []Defect {
	if number == nil || count == 0 || *number < count {
		return nil
	}
	return At("/instance", "%s", noInstance(*number, count))
}

func noInstance(number, count int) string {
	return fmt.Sprintf("there is no instance %d: the subject has %s, numbered from 0", number, Counted(count, "instance"))
}

// CheckNode checks the name of a graph's node; needed: in a graph there must be one.
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

// AtNode is the part of a description that says which node of a graph is meant, "" if none.
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

// WorkerOf is the number in "worker N"; nil for everything else.
func WorkerOf(name string) *int {
	if kind, number, err := ReadProcess(name); err == nil && kind == "worker" {
		return &number
	}
	return nil
}

var processForm = regexp.MustCompile(`^(worker|router) (\d{1,2})$`)

// Counted writes a number of things: "1 broker", "2 brokers".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
