package faults

// Faults that follow an event of the run in place of the clock: what is waited for, and in which words.

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// TriggerEvent is the sort of event that a fault waits for.
type TriggerEvent string

// The events. All but TriggerLag are events in the strict sense: what happened before the fault began to wait (its At)
// does not count. TriggerLag is a state: it also holds when it held already.
const (
	// TriggerFirstRetry: an attempt begins that is not its record's first.
	TriggerFirstRetry TriggerEvent = "first-retry"
	// TriggerFirstDeadLetter: the broker has accepted a write to the DLQ topic, and the instance has not read that
	// answer yet.
	TriggerFirstDeadLetter TriggerEvent = "first-dead-letter"
	// TriggerBackoff: an attempt has ended with an outcome that the contract calls retryable, and the contract has
	// another one in store.
	TriggerBackoff TriggerEvent = "backoff"
	// TriggerLag: more than Trigger.Lag records were sent and are not yet covered by a commit.
	TriggerLag TriggerEvent = "lag"
	// TriggerAssigned: the instance is given a partition. One that it already has when the fault begins to wait is no
	// event, and neither is one that it keeps over a rebalance. (Under an eager protocol it keeps none: every rebalance
	// gives it all of its partitions anew.)
	TriggerAssigned TriggerEvent = "assigned"
	// TriggerStoreLocked: a worker of the dead-letter store was seen to have an entry locked.
	TriggerStoreLocked TriggerEvent = "store-locked"
	// TriggerStoreRepublished: the broker has accepted what a worker writes back, and the worker has not read that
	// answer yet.
	TriggerStoreRepublished TriggerEvent = "store-republished"
)

// Trigger is an event as a scenario names it (when).
type Trigger struct {
	Event TriggerEvent
	// Lag is the number that TriggerLag must exceed.
	Lag int64
	// Instance limits the trigger to what this instance does; history.None: any of them. TriggerLag, which is the whole
	// group's, has none.
	Instance int
}

// Triggers tells when an event of the run happens.
type Triggers interface {
	// Await returns true as soon as the event happens, false when ctx ends first. Only what happens after the call
	// counts, but for TriggerLag.
	Await(ctx context.Context, trigger Trigger) bool
}

var (
	lagForm      = regexp.MustCompile(`^lag\s*>\s*(\d{1,9})$`)
	assignedForm = regexp.MustCompile(`^instance\s+(\d{1,4})\s+assigned$`)
)

// triggerForms lists what can be written, for error messages.
const triggerForms = "first-retry, first-dead-letter, backoff, store-locked, store-republished, \"lag > N\" or " +
	"\"instance N assigned\""

// ParseTrigger reads the words of when: first-retry, first-dead-letter, backoff, store-locked, store-republished,
// "lag > N" (N up to 999999999), "instance N assigned" (N from 0). Anything else is an error that lists the forms.
func ParseTrigger(text string) (Trigger, error) {
	trigger, text := Trigger{Instance: history.None}, strings.TrimSpace(text)
	switch event := TriggerEvent(text); event {
	case TriggerFirstRetry, TriggerFirstDeadLetter, TriggerBackoff, TriggerStoreLocked, TriggerStoreRepublished:
		trigger.Event = event
		return trigger, nil
	}
	if found := lagForm.FindStringSubmatch(text); found != nil {
		lag, err := strconv.ParseInt(found[1], 10, 64)
		trigger.Event, trigger.Lag = TriggerLag, lag
		return trigger, err
	}
	if found := assignedForm.FindStringSubmatch(text); found != nil {
		instance, err := strconv.Atoi(found[1])
		trigger.Event, trigger.Instance = TriggerAssigned, instance
		return trigger, err
	}
	return Trigger{}, fmt.Errorf("%q is nothing that a fault can wait for: write %s", text, triggerForms)
}

// Of returns the trigger as a fault with these traits waits for it. A fault that hits one instance (or one worker of
// the store) waits for what that one does, so that a TERM hits the instance that is in backoff and no other.
func (t Trigger) Of(traits Traits) Trigger {
	switch {
	case t.Instance != history.None || t.Event == TriggerLag:
	case t.ofStore():
		if traits.Worker != nil {
			t.Instance = int(history.Worker(*traits.Worker))
		}
	case traits.Instance != nil:
		t.Instance = *traits.Instance
	}
	return t
}

// ofStore reports whether it is something that a worker of the dead-letter store does.
func (t Trigger) ofStore() bool {
	return t.Event == TriggerStoreLocked || t.Event == TriggerStoreRepublished
}

// Check returns what is wrong with waiting for the event in a scenario: it must be one that can come.
func (t Trigger) Check(setting Setting) []Defect {
	retries := t.Event == TriggerFirstRetry || t.Event == TriggerBackoff
	reference := setting.Reference
	var message string
	switch {
	case retries && !setting.Oracle:
		message = "the subject does not call the downstream (observe: wire), so its attempts are not seen and this event " +
			"never comes"
	case retries && reference != nil && reference.MaxAttempts == 1:
		message = "with max_retries: 1 nothing is tried again, so this event never comes"
	case t.Event == TriggerFirstDeadLetter && setting.NoDeadLetters:
		message = NoLetters + ", so this event never comes"
	case t.ofStore() && setting.StoreProcesses["worker"] == 0:
		message = "the run has no dead-letter store with workers, so this event never comes: add store"
	case t.Event == TriggerAssigned && setting.MaxInstances > 0 && t.Instance >= setting.MaxInstances:
		message = noInstance(t.Instance, setting.MaxInstances)
	default:
		return nil
	}
	return []Defect{{Path: "/when", Message: message}}
}
