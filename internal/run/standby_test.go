package run

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// The drain waits for a process that left its group, unless it came back or ended.
func TestLeftItsGroup(t *testing.T) {
	const second = time.Second
	event := func(kind history.Kind, at time.Duration, instance int16, n int32) history.Event {
		e := history.New(kind, at)
		e.Instance, e.N = instance, n
		return e
	}
	member := func(at time.Duration, instance int16, n int32) history.Event {
		return event(history.KindMembership, at, instance, n)
	}
	l := newLive(discard{}, &history.Header{Records: 1, Topics: []history.Topic{{Role: history.RoleInput, Partitions: 2}},
		Consumers: []history.Consumer{{Instances: 3}}})
	for _, one := range []struct {
		event history.Event
		at    time.Duration
		out   bool
	}{
		{member(second, 0, 1), 0, false}, {member(2*second, 1, 2), 0, false}, {member(3*second, 1, 1), 0, false},
		{member(4*second, 0, 0), 4 * second, true}, {member(5*second, 1, 0), 5 * second, true},
		{event(history.KindInstanceExited, 6*second, 1, 0), 4 * second, true}, {member(7*second, 0, 1), 0, false},
	} {
		l.Record(one.event)
		if at, out := l.partitions.leftAt(); at != one.at || out != one.out {
			t.Errorf("at %s: left at %s, %t; want %s, %t", one.event.Time, at, out, one.at, one.out)
		}
	}
}

// A member without a partition stands by once others have owned all of them for long enough. In a cooperative or
// KIP-848 rebalance it has none at first, because their owners have yet to give them up.
func TestStandsBy(t *testing.T) {
	const second = time.Second
	assigned := func(at time.Duration, instance int16, partition int32) history.Event {
		e := history.New(history.KindAssigned, at)
		e.Instance, e.Topic, e.Partition = instance, 0, partition
		return e
	}
	revoked := func(at time.Duration, instance int16, partition int32) history.Event {
		e := assigned(at, instance, partition)
		e.Kind = history.KindRevoked
		return e
	}
	member := func(at time.Duration, instance int16, n int32) history.Event {
		e := history.New(history.KindMembership, at)
		e.Instance, e.N = instance, n
		return e
	}
	exited := func(at time.Duration, instance int16) history.Event {
		e := history.New(history.KindInstanceExited, at)
		e.Instance = instance
		return e
	}
	both := []history.Event{member(0, 0, 1), assigned(second, 0, 0), assigned(second, 0, 1), member(2*second, 1, 1)}
	after := func(more ...history.Event) []history.Event { return append(slices.Clip(both), more...) }
	for name, one := range map[string]struct {
		events []history.Event
		at     time.Duration
		want   bool
	}{
		"others own all for long":     {both, 17 * second, true},
		"not for long enough":         {both, 16 * second, false},
		"it is no member":             {both[:3], 60 * second, false},
		"it has left":                 {after(member(3*second, 1, 0)), 60 * second, false},
		"a partition has no owner":    {after(revoked(3*second, 0, 1)), 60 * second, false},
		"it owns one itself":          {after(revoked(3*second, 0, 1), assigned(4*second, 1, 1)), 60 * second, false},
		"one changed hands meanwhile": {after(revoked(9*second, 0, 1), assigned(9*second, 2, 1)), 23 * second, false},
		"and long after that":         {after(revoked(9*second, 0, 1), assigned(9*second, 2, 1)), 25 * second, true},
		"the owner has ended":         {after(exited(3*second, 0)), 60 * second, false},
		"its process has ended":       {after(exited(3*second, 1)), 60 * second, false},
		"assigned again to its owner": {after(assigned(10*second, 0, 1)), 17 * second, true},
	} {
		t.Run(name, func(t *testing.T) {
			header := history.Header{Records: 1, Topics: []history.Topic{{Role: history.RoleInput, Partitions: 2}},
				Consumers: []history.Consumer{{Instances: 3}}}
			l := newLive(discard{}, &header)
			for _, event := range one.events {
				l.Record(event)
			}
			if got := l.partitions.standsBy(1, one.at); got != one.want {
				t.Errorf("at %v it is %v", one.at, got)
			}
		})
	}
}
