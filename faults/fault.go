package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Fault is a fault of one kind, as a scenario writes it under the kind's key: a pointer to the settings of the kind,
// whose package holds everything that is known of it.
type Fault interface {
	// Validate returns what is wrong with the settings in a scenario. Paths lie below the kind's key.
	Validate(Setting) []Defect
	// Traits describe the fault. Those of settings that ask for no action are zero.
	Traits() Traits
	// Entries explain all faults of the kind; the receiver may be nil.
	Entries() []Entry
}

// Traits are what plan, schedule and reports know of a fault, whatever its kind.
type Traits struct {
	// What says in words what is injected ("Produce to dlq answered NOT_ENOUGH_REPLICAS"), Target names what is hit
	// ("broker 1", "dlq", "instance 1", "database"), Name is the name of a fault that was given none ("produce-error").
	What, Target, Name string
	// API is the request that a fault of Kafka's protocol acts on, see history.PlannedFault.API.
	API string
	// Instant: the fault has no duration, not even until it is lifted. EndsItself says why it takes no For: it is an
	// instant, or its settings say how long it lasts; "" if it takes one. Lasting: it takes For and does without.
	Instant    bool
	EndsItself string
	Lasting    bool
	// Lasts is how long it lasts at least, by its settings. A round of all instances takes Every from one to the next.
	Lasts, Every time.Duration
	// Instance is the instance whose events the fault waits for, Worker the worker of the dead-letter store; nil: any.
	Instance, Worker *int
	// Blocks is where no dead letter can be acknowledged while the fault is in force: the number of a broker,
	// EveryBroker or DLQBroker; 0 if dead letters may get through. Violations are proven with it, so where it is not
	// certain it is 0.
	Blocks int
	// FailsAttempts: no attempt succeeds while it is in force.
	FailsAttempts bool
	// Patient: the fault does something only when it meets a request, a connection or a process, and stays in force
	// until it has. The others do at once what they do, or report it only when they are lifted.
	Patient bool
}

// The values of Traits.Blocks besides the numbers of brokers. DLQBroker is the one that holds the DLQ topic alone.
const (
	EveryBroker = -1
	DLQBroker   = -2
)

// Entry explains one fault of the catalogue.
type Entry struct {
	// Name is the kind and the key that makes it: "network.latency".
	Name string
	// Summary says in one sentence what breaks.
	Summary string
	// Does is what the subject gets to see; Made is how it is done.
	Does, Made string
	// Shows is what a correct consumer does, and which bugs usually show.
	Shows string
	// Effects are the counts it reports, as they stand in the verdict. What belongs to the workload reports nothing:
	// the records themselves are the proof.
	Effects []string
	// Keys are the keys of the scenario that belong to it besides at, when, after, for and name.
	Keys []string
	// Example is an entry of a scenario's list of faults, in YAML; of what belongs to the workload it is a key of the
	// workload.
	Example string
}

// Kind is the key of the kind in a fault.
func (e Entry) Kind() string { return e.Name[:strings.Index(e.Name, ".")] }

// Key is the key of the kind's settings that makes the fault.
func (e Entry) Key() string { return e.Name[strings.Index(e.Name, ".")+1:] }

// Action is one fault of a kind: everything that is known of it. S are the kind's settings, D is what the kind's
// injector needs to make it.
type Action[S, D any] struct {
	// Entry explains it. Its name is the kind and the key of the settings that asks for the action.
	Entry
	// Asked reports whether the settings ask for it.
	Asked func(*S) bool
	// What says in words what is injected.
	What func(*S) string
	// Instant is what the fault is called if it has no duration ("a restart"), "" if it has one.
	Instant string
	// Blocks: it keeps dead letters from being acknowledged, where and while it is in force.
	Blocks bool
	// Do is how the injector makes it.
	Do D
}

// Traits returns those that follow from the action alone.
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

// Chosen returns the action that the settings ask for, the first of several; found is false if there is none.
func Chosen[S, D any](actions []Action[S, D], settings *S) (chosen Action[S, D], found bool) {
	for _, one := range actions {
		if one.Asked(settings) {
			return one, true
		}
	}
	return chosen, false
}

// CheckActions checks that the settings ask for one action. It returns the keys of those they ask for, sorted.
func CheckActions[S, D any](actions []Action[S, D], settings *S) (asked []string, defects []Defect) {
	var all []string
	for _, one := range actions {
		all = append(all, one.Key())
		if one.Asked(settings) {
			asked = append(asked, one.Key())
		}
	}
	slices.Sort(asked)
	return asked, ExactlyOne(asked, all)
}

// ExactlyOne checks that one of all the keys is set; set is in alphabetical order.
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

// Dashed writes words, words_like_these and WordsLikeThese as words-like-these, as names of faults are.
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
