package drill

// This file has the actions of people on the system.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// doing is the person who injects a fault, and the word for the action.
type doing struct {
	who    Actor
	action string
}

// String implements fmt.Stringer: how the run's history names the person.
func (d doing) String() string { return d.who.Title() }

// Break injects a fault, written as in a scenario but without at, when and after, and returns it when it is in force.
// Without for, the fault stays in force until it is lifted, at the latest until the load ends.
func (s *Session) Break(ctx context.Context, who Actor, spec map[string]any) (Fault, error) {
	if _, err := s.may(ActionBreak, &who); err != nil {
		return Fault{}, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return Fault{}, fmt.Errorf("%w: reading the fault: %w", ErrRefused, err)
	}
	parsed, err := scenarios.DecodeFault(text)
	if err != nil {
		return Fault{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return s.inject(ctx, who, ActionBreak, parsed)
}

// inject injects a fault for someone.
func (s *Session) inject(ctx context.Context, who Actor, action string, spec catalogue.Spec) (Fault, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	planned, err := s.breaks.Break(ctx, spec, doing{who, action})
	if err != nil {
		return Fault{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.at(planned.Index); f != nil {
		return f.Fault, nil
	}
	return Fault{}, fmt.Errorf("fault %s was injected, but no notification arrived", planned.Name)
}

// Heal lifts one fault and returns when it is lifted.
func (s *Session) Heal(ctx context.Context, who Actor, id string) error {
	if _, err := s.may(ActionHeal, &who); err != nil {
		return err
	}
	number, err := strconv.Atoi(id)
	s.mu.Lock()
	f := s.at(number - 1)
	s.mu.Unlock()
	if err != nil || f == nil {
		return fmt.Errorf("%w: there is no fault %q", ErrRefused, trimmed(id, maxName))
	}
	return s.heal(ctx, who, f)
}

func (s *Session) heal(ctx context.Context, who Actor, f *fault) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	s.mu.Lock()
	mine := !f.Over() && !f.leaves && f.HealedBy == nil
	if mine {
		f.HealedBy = &who
	}
	s.mu.Unlock()
	if err := s.breaks.Heal(ctx, f.index); err != nil {
		s.mu.Lock()
		if mine && !f.Over() {
			f.HealedBy = nil // somebody else, or the end of the load, lifts it
		}
		s.mu.Unlock()
		return fmt.Errorf("healing %s: %w", f.Name, err)
	}
	return nil
}

// healed is the log's text after everything was healed, as far as everybody may know it.
const healed = "everything is healed"

// HealAll lifts all faults in force, concurrently, and returns when they are lifted. It is allowed at any time of the
// drill, even when no fault is in force.
func (s *Session) HealAll(ctx context.Context, who Actor) error {
	if _, err := s.may(ActionHealAll, &who); err != nil {
		return err
	}
	s.mu.Lock()
	var open []*fault
	for _, f := range s.faults {
		if !f.Over() {
			open = append(open, f)
		}
	}
	s.say(line{Entry: Entry{Who: &who, Action: ActionHealAll, Text: "heals everything"}})
	s.mu.Unlock()
	errs := make([]error, len(open))
	var group sync.WaitGroup
	for i, f := range open {
		group.Go(func() {
			// A fault that has ended by itself in the meantime counts as lifted.
			if err := s.heal(ctx, who, f); !errors.Is(err, ErrRefused) {
				errs[i] = err
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(open))
	for i, f := range open {
		names[i] = f.Name
	}
	done := line{Entry: Entry{Action: ActionHealAll, Text: "everything is healed: no fault was in force"}, plain: healed}
	if len(open) > 0 {
		done.Text = healed + ": " + strings.Join(names, ", ")
	}
	s.say(done)
	return nil
}

// Kill ends an instance with SIGKILL. It stays away until Restart, or until the fault is lifted.
func (s *Session) Kill(ctx context.Context, who Actor, instance int) error {
	return s.process(ctx, who, ActionKill, instance, subject.Subject{Instance: &instance, Signal: "KILL"})
}

// Pause stops an instance until Resume.
func (s *Session) Pause(ctx context.Context, who Actor, instance int) error {
	return s.process(ctx, who, ActionPause, instance, subject.Subject{Instance: &instance, Signal: "STOP"})
}

// Resume continues a paused instance: it lifts all faults that paused it.
func (s *Session) Resume(ctx context.Context, who Actor, instance int) error {
	if _, err := s.may(ActionResume, &who); err != nil {
		return err
	}
	open := s.hitting(instance, "STOP")
	if len(open) == 0 {
		return fmt.Errorf("%w: instance %d is not paused", ErrRefused, instance)
	}
	return s.healEach(ctx, who, open)
}

// Restart brings back an instance that SIGKILL or SIGTERM has ended. It restarts a running one with SIGTERM and a new
// process.
func (s *Session) Restart(ctx context.Context, who Actor, instance int) error {
	if _, err := s.may(ActionRestart, &who); err != nil {
		return err
	}
	if open := s.hitting(instance, "KILL", "TERM"); len(open) > 0 {
		return s.healEach(ctx, who, open)
	}
	return s.process(ctx, who, ActionRestart, instance, subject.Subject{Instance: &instance, Restart: true})
}

// process applies a process fault to an existing instance.
func (s *Session) process(ctx context.Context, who Actor, action string, instance int, spec subject.Subject) error {
	if _, err := s.may(action, &who); err != nil {
		return err
	}
	count := s.options.Scenario.InstanceCount()
	switch {
	case instance < 0 || instance >= count:
		return fmt.Errorf("%w: instance %d: there are %d, numbered from 0", ErrRefused, instance, count)
	case !s.breaks.Alive(instance):
		return fmt.Errorf("%w: instance %d does not run", ErrRefused, instance)
	case action == ActionPause && len(s.hitting(instance, "STOP")) > 0:
		return fmt.Errorf("%w: instance %d is paused already", ErrRefused, instance)
	}
	if graph := s.options.Scenario.Graph; graph != nil {
		node := 0
		for instance >= graph.First(node+1) {
			node++
		}
		number := instance - graph.First(node)
		spec.Node, spec.Instance = graph.Nodes[node].Name, &number
	}
	_, err := s.inject(ctx, who, action, catalogue.Spec{Subject: &spec})
	return err
}

// Scale sets the number of instances. It first undoes earlier scaling, and then starts further instances or ends the
// last ones.
func (s *Session) Scale(ctx context.Context, who Actor, instances int) error {
	if _, err := s.may(ActionScale, &who); err != nil {
		return err
	}
	count := s.options.Scenario.InstanceCount()
	if instances < 1 || instances > count+spare {
		return fmt.Errorf("%w: %d instances: a drill of this scenario can have 1 to %d", ErrRefused, instances, count+spare)
	}
	if partitions := s.options.Scenario.Topics.Input.Partitions; instances > max(count, partitions) && !s.shares() {
		return fmt.Errorf("%w: %d instances: the input has %d partitions, so the others would have nothing to do", ErrRefused,
			instances, partitions)
	}
	up := func(f *fault) int { return f.spec.Subject.ScaleUp - f.spec.Subject.ScaleDown }
	scaled := s.inForce(func(f *fault) bool { return f.spec.Subject != nil && up(f) != 0 })
	now := count
	for _, f := range scaled {
		now += up(f)
	}
	slices.Reverse(scaled) // undo the newest first
	for _, f := range scaled {
		if change := up(f); instances != now && cmp.Compare(instances, now) == -cmp.Compare(change, 0) {
			if err := s.heal(ctx, who, f); err != nil {
				return err
			}
			now -= change
		}
	}
	switch {
	case instances == now:
		return nil
	case instances > now:
		_, err := s.inject(ctx, who, ActionScale, catalogue.Spec{Subject: &subject.Subject{ScaleUp: instances - now}})
		return err
	}
	_, err := s.inject(ctx, who, ActionScale, catalogue.Spec{Subject: &subject.Subject{ScaleDown: now - instances}})
	return err
}

// shares reports whether the consumer is a share group, in which any number of instances can receive records.
func (s *Session) shares() bool {
	reference := s.options.Scenario.Subject.Reference
	return reference != nil && reference.GroupProtocol == "share"
}

// Replay replays the dead letters whose planned cause is gone.
func (s *Session) Replay(ctx context.Context, who Actor) error {
	if _, err := s.may(ActionReplay, &who); err != nil {
		return err
	}
	if s.options.Scenario.Replay == nil {
		return fmt.Errorf("%w: in this scenario no dead letter's cause is ever gone: give it a replay section, such as "+
			"replay: {healed: 100%%}", ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	letters, err := s.breaks.Replay(ctx)
	if errors.Is(err, ErrRefused) && who.Role == RoleResponder {
		// A reason would reveal whether a fault is in force to the person who should notice it.
		return fmt.Errorf("%w: no dead letter can go back now; what is left goes back at the end of the drill", ErrRefused)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(line{Entry: Entry{Who: &who, Action: ActionReplay, Text: fmt.Sprintf("put %d dead letters back", letters)}})
	return nil
}

// hitting lists the faults in force that hit an instance with one of the signals.
func (s *Session) hitting(instance int, signals ...string) []*fault {
	return s.inForce(func(f *fault) bool {
		of, is := f.planned.(*subject.Subject)
		return is && slices.Contains(signals, of.Signal) &&
			(of.All || of.Instance != nil && *of.Instance == instance || of.Instance == nil && instance == 0)
	})
}

// inForce lists the matching faults in force, the oldest first.
func (s *Session) inForce(matches func(*fault) bool) []*fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []*fault
	for _, f := range s.faults {
		if !f.Over() && matches(f) {
			open = append(open, f)
		}
	}
	return open
}

func (s *Session) healEach(ctx context.Context, who Actor, open []*fault) error {
	var errs []error
	for _, f := range open {
		errs = append(errs, s.heal(ctx, who, f))
	}
	return errors.Join(errs...)
}

// at returns the fault with the index, or nil. The caller holds s.mu.
func (s *Session) at(index int) *fault {
	if index < 0 || index >= len(s.faults) {
		return nil
	}
	return s.faults[index]
}
