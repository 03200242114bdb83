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

// Trigger is a parsed Spec.When.
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

// ParseTrigger reads the words of Spec.When: first-retry, first-dead-letter, backoff, store-locked, store-republished,
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

// Trigger returns what the fault waits for; waits is false when it follows the clock. A fault that hits one instance
// (subject or kafka, with instance: N) waits for what that instance does, so that a TERM hits the instance that is in
// backoff and no other.
func (s Spec) Trigger() (trigger Trigger, waits bool, err error) {
	if s.When == "" {
		return Trigger{}, false, nil
	}
	trigger, err = ParseTrigger(s.When)
	if err != nil || trigger.Instance != history.None || trigger.Event == TriggerLag {
		return trigger, true, err
	}
	ofStore := trigger.Event == TriggerStoreLocked || trigger.Event == TriggerStoreRepublished
	if process := s.process(); process != "" {
		kind, number, err := readProcess(process)
		if ofStore && kind == "worker" {
			trigger.Instance = int(history.Worker(number))
		}
		return trigger, true, err
	}
	switch {
	case ofStore:
	case s.Subject != nil && s.Subject.Instance != nil:
		trigger.Instance = *s.Subject.Instance
	case s.Kafka != nil && s.Kafka.Instance != nil:
		trigger.Instance = *s.Kafka.Instance
	}
	return trigger, true, nil
}

// process is the process of the dead-letter store that the fault hits, "" if none.
func (s Spec) process() string {
	switch {
	case s.Subject != nil:
		return s.Subject.Process
	case s.Store != nil:
		return s.Store.Process
	}
	return ""
}
