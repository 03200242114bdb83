package outward

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Kind is what an event is about.
type Kind string

// These are the kinds of events.
const (
	KindStart     Kind = "start"
	KindInjection Kind = "injection"
	KindHeal      Kind = "heal"
	KindNotice    Kind = "notice"
	KindEnd       Kind = "end"
)

// Event is something that happened in a drill.
type Event struct {
	Kind Kind `json:"event"`
	// At is when it happened. Since is when what has ended now began: the fault that is healed, or the load.
	At    time.Time  `json:"at"`
	Since *time.Time `json:"since,omitempty"`
	// Text says it in one line for people.
	Text     string `json:"text"`
	Scenario string `json:"scenario,omitempty"`
	// Fault is the fault that it is about, Who the person.
	Fault string `json:"fault,omitempty"`
	Who   string `json:"who,omitempty"`
	// Result is there at the end.
	Result *drill.Result `json:"result,omitempty"`
	// late means that it was held back until the drill was over.
	late bool
}

// seen remembers the events that were told.
type seen struct {
	started  bool
	injected int
	healed   map[string]bool
	notices  int
	over     bool
}

// fresh returns the events since the last state. now is the time of the state.
func (s *seen) fresh(state drill.State, now time.Time, discreet bool) []Event {
	if s.healed == nil {
		s.healed = map[string]bool{}
	}
	over := state.Stage == drill.StageOver
	began := now.Add(-state.At)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	var out []Event
	if !s.started && state.Stage != drill.StageSetUp && state.Stage != drill.StageWarm && !over {
		s.started = true
		out = append(out, Event{Kind: KindStart, At: at(0), Text: "A drill" + of(state, discreet) + " has begun."})
	}
	if !discreet || over {
		out = append(out, s.faults(state, at, discreet)...)
	}
	if over && !s.over {
		s.over = true
		out = append(out, ended(state, now, began))
	}
	for i := range out {
		if !discreet || over {
			out[i].Scenario = state.Scenario
		}
	}
	return out
}

// faults returns the events about faults and those who noticed them.
func (s *seen) faults(state drill.State, at func(time.Duration) time.Time, late bool) (out []Event) {
	for i, fault := range state.Faults {
		if i >= s.injected {
			s.injected = i + 1
			out = append(out, Event{Kind: KindInjection, At: at(fault.Injected), Fault: fault.Name, Who: name(fault.By),
				late: late, Text: fmt.Sprintf("Injected: %s (%s)%s.", fault.Name, fault.What, by(fault.By))})
		}
		if fault.Healed != nil && !s.healed[fault.ID] {
			s.healed[fault.ID] = true
			since := at(fault.Injected)
			out = append(out, Event{Kind: KindHeal, At: at(*fault.Healed), Since: &since, Fault: fault.Name,
				Who: name(fault.HealedBy), late: late,
				Text: fmt.Sprintf("Healed: %s (%s) after %s, %s%s.", fault.Name, fault.What,
					brief(*fault.Healed-fault.Injected), fault.Lifted, by(fault.HealedBy))})
		}
	}
	for _, entry := range state.Log {
		if entry.Action == drill.ActionNotice && entry.Number > s.notices {
			s.notices = entry.Number
			out = append(out, Event{Kind: KindNotice, At: at(entry.At), Who: name(entry.Who), late: late,
				Text: strings.TrimSuffix("Noticed"+by(entry.Who)+": "+entry.Text, ": ")})
		}
	}
	return out
}

// ended is the event of the end, with the figures.
func ended(state drill.State, now, began time.Time) Event {
	out := Event{Kind: KindEnd, At: now, Since: &began, Result: state.Result}
	words := "The drill" + of(state, false) + " is over"
	if state.Ending != "" {
		words += " (" + state.Ending + ")"
	}
	if result := state.Result; result != nil {
		f := result.Figures
		verdict := cmp.Or(string(result.Verdict), "none")
		words += fmt.Sprintf(": verdict %s; %d of %s noticed, %d healed by hand", verdict, f.Noticed,
			units.Plural(int64(f.Faults), "fault", "faults"), f.Healed)
		if f.Noticed > 0 {
			words += "; " + brief(f.ToNotice.Median) + " to notice"
		}
		if f.Healed > 0 {
			words += "; " + brief(f.ToHeal.Median) + " to heal"
		}
		if result.Dir != "" {
			words += "; debrief: " + result.Dir + "/" + drill.FileMarkdown
		}
	}
	out.Text = words + "."
	return out
}

// of names the scenario, whose name often reveals the faults.
func of(state drill.State, discreet bool) string {
	if discreet || state.Scenario == "" {
		return ""
	}
	return " of " + state.Scenario
}

func name(who *drill.Actor) string {
	if who == nil {
		return ""
	}
	return who.Title()
}

func by(who *drill.Actor) string {
	if who == nil {
		return ""
	}
	return " by " + name(who)
}

// brief formats a duration to a tenth of a second.
func brief(d time.Duration) string { return units.Text(d.Round(100 * time.Millisecond)) }
