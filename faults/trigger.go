package faults

// This file defines faults that follow an event of the run in place of the clock: the events and their words.

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// TriggerEvent is the type of event that a fault waits for.
type TriggerEvent string

// The events. All but TriggerLag are events in the strict sense: anything before the time at which the fault starts
// to wait (its At) does not count. TriggerLag is a state: it also counts if it already held at that time.
const (
	// TriggerFirstRetry: an attempt starts that is not its record's first.
	TriggerFirstRetry TriggerEvent = "first-retry"
	// TriggerFirstDeadLetter: the broker has accepted a write to the DLQ topic, and the instance has not read that
	// answer yet.
	TriggerFirstDeadLetter TriggerEvent = "first-dead-letter"
	// TriggerBackoff: an attempt has ended with an outcome that the contract calls retryable, and the contract allows
	// another attempt.
	TriggerBackoff TriggerEvent = "backoff"
	// TriggerLag: more than Trigger.Lag records were sent and are not yet covered by a commit.
	TriggerLag TriggerEvent = "lag"
	// TriggerAssigned: a partition is assigned to the instance. A partition that it already has when the fault starts
	// to wait does not count, and neither does one that it keeps through a rebalance. (Under an eager protocol it
	// keeps none: every rebalance assigns all of its partitions anew.)
	TriggerAssigned TriggerEvent = "assigned"
	// TriggerStoreLocked: a worker of the dead-letter store was seen to have an entry locked.
	TriggerStoreLocked TriggerEvent = "store-locked"
	// TriggerStoreRepublished: the broker has accepted a worker's republish, and the worker has not read that
	// response yet.
	TriggerStoreRepublished TriggerEvent = "store-republished"
)

// Trigger is an event as a scenario names it (when).
type Trigger struct {
	Event TriggerEvent
	// Lag is the number that TriggerLag must exceed.
	Lag int64
	// Instance restricts the trigger to this instance; history.None means any. TriggerLag concerns the whole group
	// and has no instance.
	Instance int
}

// Triggers reports when an event of the run occurs.
type Triggers interface {
	// Await returns true as soon as the event occurs, or false if ctx ends first. Only events after the call count,
	// except for TriggerLag.
	Await(ctx context.Context, trigger Trigger) bool
}

var (
	lagForm      = regexp.MustCompile(`^lag\s*>\s*(\d{1,9})$`)
	assignedForm = regexp.MustCompile(`^instance\s+(\d{1,4})\s+assigned$`)
)

// triggerForms lists the valid forms, for error messages.
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

// Of returns the trigger for a fault with these traits. A fault that hits one instance (or one worker of the store)
// waits for an event of that instance, so that a TERM hits the instance that is in backoff and no other.
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

// ofStore reports whether the event is an action of a worker of the dead-letter store.
func (t Trigger) ofStore() bool {
	return t.Event == TriggerStoreLocked || t.Event == TriggerStoreRepublished
}

// Check returns the defects of waiting for the event in a scenario: the event must be one that can occur.
func (t Trigger) Check(setting Setting) []Defect {
	retries := t.Event == TriggerFirstRetry || t.Event == TriggerBackoff
	reference := setting.Reference
	var message string
	switch {
	case retries && !setting.Stub:
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
