package drill

// This file decides what each role may see.

import (
	"slices"
	"strings"
)

// State returns what the role may see now. It shares no mutable data with the session.
func (s *Session) State(role Role) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := role == RoleInjector || s.stage == StageOver
	state := State{
		Version: s.version, Role: role, Stage: s.stage, At: s.now(), Until: s.until, May: s.mayNow(role), Live: s.live,
		Instances: s.options.Scenario.InstanceCount() + spare, Faults: s.seen(all), Log: s.entriesFor(all), Ending: s.why,
		Result: s.result, Participants: s.participants(role, all),
	}
	if role == RoleInjector {
		state.Unbreakable = s.forbidden(ActionBreak, role)
	}
	if all {
		state.Scenario, state.Description = s.options.Scenario.Name, s.options.Scenario.Description
		return state
	}
	if s.live != nil {
		// Runs and scenarios are often named after their faults.
		live := s.live.WithoutFaults()
		live.Partitions = slices.Clone(live.Partitions)
		for i := range live.Partitions {
			live.Partitions[i].Topic = strings.TrimPrefix(live.Partitions[i].Topic, live.RunID+".")
		}
		live.Scenario, live.RunID, live.Events = "", "", nil
		for i := range live.Instances {
			live.Instances[i].LastError = "" // often contains the answer to the failed request
		}
		state.Live = &live
	}
	return state
}

// mayNow lists the role's permitted actions at this time. The caller holds s.mu.
func (s *Session) mayNow(role Role) []string {
	may := []string{}
	for _, action := range []string{
		ActionBreak, ActionHeal, ActionHealAll, ActionKill, ActionPause, ActionResume, ActionRestart, ActionScale,
		ActionReplay, ActionNotice, ActionNote, ActionStop,
	} {
		if s.forbidden(action, role) == "" && s.untimely(action) == "" {
			may = append(may, action)
		}
	}
	return may
}

// participants lists the participants that the role may see. The caller holds s.mu.
func (s *Session) participants(role Role, all bool) []Participant {
	people := []Participant{}
	for _, one := range s.people {
		if all || one.Role == role {
			people = append(people, one)
		}
	}
	return people
}

// seen lists the visible faults: all, or those that a responder injected. The caller holds s.mu.
func (s *Session) seen(all bool) []Fault {
	seen := []Fault{}
	for _, f := range s.faults {
		if all || f.ownOf(RoleResponder) {
			seen = append(seen, f.Fault)
		}
	}
	return seen
}

// entriesFor returns the end of the log, without hidden entries unless all is set. The caller holds s.mu.
func (s *Session) entriesFor(all bool) []Entry {
	entries := []Entry{}
	for i := len(s.log) - 1; i >= 0 && len(entries) < maxLog; i-- {
		one := s.log[i]
		switch {
		case !all && one.hidden:
			continue
		case !all && one.plain != "":
			one.Text = one.plain
		}
		entries = append(entries, one.Entry)
	}
	slices.Reverse(entries)
	return entries
}
