package faults

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dlqbench/dlqbench/history"
)

// Fault is a fault of one kind, as a scenario writes it under the kind's key. It is a pointer to the settings of the
// kind, and the kind's package holds everything known about it.
type Fault interface {
	// Validate returns the defects of the settings in a scenario. Paths are relative to the kind's key.
	Validate(Setting) []Defect
	// Traits describe the fault. They are zero if the settings ask for no action.
	Traits() Traits
	// Entries explain all faults of the kind. The receiver may be nil.
	Entries() []Entry
}

// Traits are what plan, schedule and reports know about a fault, whatever its kind.
type Traits struct {
	// What describes what is injected ("Produce to dlq answered NOT_ENOUGH_REPLICAS"), Target names the component
	// that is hit ("broker 1", "dlq", "instance 1", "database"), and Name is the default name of a fault
	// ("produce-error").
	What, Target, Name string
	// API is the request that a fault of Kafka's protocol affects; see history.PlannedFault.API.
	API string
	// Idle gives the reasons for which the fault may have no effect; see history.PlannedFault.Idle.
	Idle history.Idle
	// Instant: the fault has no duration, not even until it is lifted. EndsItself is the reason why it takes no For
	// (it is an instant, or its settings determine its duration), or "" if it takes one. Lasting: For is optional.
	Instant    bool
	EndsItself string
	Lasting    bool
	// Lasts is the minimum duration by its settings. In a round of all instances, Every is the time from one instance
	// to the next.
	Lasts, Every time.Duration
	// Instance is the instance whose events the fault waits for, Worker the worker of the dead-letter store; nil
	// means any.
	Instance, Worker *int
	// Blocks identifies where no dead letter can be acknowledged while the fault is in force: the number of a broker,
	// EveryBroker, DLQBroker, or Here for the downstream that is hit; 0 if dead letters may get through. Violations are
	// proven with it, so it is 0 unless this is certain.
	Blocks int
	// FailsAttempts: no attempt succeeds while the fault is in force.
	FailsAttempts bool
	// HidesSchemas: while the fault is in force, the subject may take good records for ones that it can't read.
	HidesSchemas bool
	// Patient: the fault has an effect only when it meets a request, a connection or a process, and stays in force
	// until it has met one. Other faults act immediately, or report their effects only when they are lifted.
	Patient bool
}

// The values of Traits.Blocks besides the numbers of brokers. DLQBroker is the broker that alone holds the DLQ topic.
const (
	EveryBroker = -1
	DLQBroker   = -2
	Here        = -3
)

// Entry explains one fault of the catalogue.
type Entry struct {
	// Name is the kind and the key that selects the fault: "network.latency".
	Name string
	// Summary describes the fault in one sentence.
	Summary string
	// Does is the fault as the subject experiences it; Made is how it is injected.
	Does, Made string
	// Shows describes what a correct consumer does and which bugs the fault usually reveals.
	Shows string
	// Effects are the counts that it reports, as they stand in the verdict. Entries of the workload report none:
	// their evidence is the records themselves.
	Effects []string
	// Keys are the keys of the scenario that belong to it, besides at, when, after, for and name.
	Keys []string
	// Example is an entry of a scenario's list of faults, in YAML. For an entry of the workload it is a key of the
	// workload.
	Example string
}

// Kind returns the key of the kind in a fault.
func (e Entry) Kind() string { return e.Name[:strings.Index(e.Name, ".")] }

// Key returns the key of the kind's settings that selects the fault.
func (e Entry) Key() string { return e.Name[strings.Index(e.Name, ".")+1:] }

// Action is one fault of a kind, with everything known about it. S is the type of the kind's settings, D the type of
// what the kind's injector needs to inject it.
type Action[S, D any] struct {
	// Entry explains the fault. Its name is the kind and the key of the settings that asks for the action.
	Entry
	// What describes what is injected.
	What func(*S) string
	// Instant is a noun for a fault without duration ("a restart"), "" if it has a duration.
	Instant string
	// Blocks: the fault prevents dead letters from being acknowledged at its target while it is in force.
	Blocks bool
	// Do defines how the injector injects it.
	Do D
}

// asked reports whether the settings ask for the action: whether the field with its key is set.
func (a Action[S, D]) asked(settings *S) bool {
	for field, value := range reflect.ValueOf(settings).Elem().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == a.Key() {
			return !value.IsZero()
		}
	}
	return false
}

// Traits returns the traits that follow from the action alone.
func (a Action[S, D]) Traits(settings *S) Traits {
	traits := Traits{What: a.What(settings), Instant: a.Instant != ""}
	if traits.Instant {
		traits.EndsItself = a.Instant + " is an instant: leave out for"
	}
	return traits
}

// Entries returns the entries of the actions.
func Entries[S, D any](actions []Action[S, D]) []Entry {
	var all []Entry
	for _, one := range actions {
		all = append(all, one.Entry)
	}
	return all
}

// Chosen returns the action that the settings ask for, or the first of several. found is false if there is none.
func Chosen[S, D any](actions []Action[S, D], settings *S) (chosen Action[S, D], found bool) {
	for _, one := range actions {
		if one.asked(settings) {
			return one, true
		}
	}
	return chosen, false
}

// CheckActions checks that the settings ask for exactly one action. It returns the keys of the requested actions,
// sorted.
func CheckActions[S, D any](actions []Action[S, D], settings *S) (asked []string, defects []Defect) {
	var all []string
	for _, one := range actions {
		all = append(all, one.Key())
		if one.asked(settings) {
			asked = append(asked, one.Key())
		}
	}
	slices.Sort(asked)
	return asked, ExactlyOne(asked, all)
}

// ExactlyOne checks that exactly one of the keys in all is set. set is in alphabetical order.
func ExactlyOne(set, all []string) []Defect {
	switch last := len(all) - 1; len(set) {
	case 0:
		return []Defect{{Message: fmt.Sprintf("this fault does nothing: set one of %s and %s",
			strings.Join(all[:last], ", "), all[last])}}
	case 1:
		return nil
	}
	return []Defect{{Path: "/" + set[1], Message: fmt.Sprintf("%s exclude each other: keep one, and write a fault of "+
		"its own for the other", strings.Join(set, " and "))}}
}

// Settings returns the settings of a fault that is to be injected, and the one action that they ask for.
func Settings[S, D any](active Active, actions []Action[S, D]) (settings *S, chosen Action[S, D], err error) {
	settings, is := any(active.Fault).(*S)
	if !is || settings == nil {
		return nil, chosen, fmt.Errorf("the fault is of another kind: %T in place of %T", active.Fault, settings)
	}
	if _, defects := CheckActions(actions, settings); defects != nil {
		return nil, chosen, errors.New(defects[0].Message)
	}
	chosen, _ = Chosen(actions, settings)
	return settings, chosen, nil
}

// Dashed converts words, words_like_these and WordsLikeThese to words-like-these, the form of fault names.
func Dashed(text string) string {
	var name strings.Builder
	for i, r := range text {
		switch {
		case r == ' ' || r == '_':
			r = '-'
		case unicode.IsUpper(r) && i > 0 && name.Len() > 0 && !strings.HasSuffix(name.String(), "-"):
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}
