package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// Effects makes a correct history of a consumer that leaves an effect in a sink with each success.
func Effects(c Choices) *History {
	h := Consumer(c)
	h.addEffects(history.Effects{Once: chance(c, 2), Atomic: chance(c, 2)}, succeeds)
	return h
}

func succeeds(e *history.Event) bool {
	return e.Kind == history.KindAttemptEnd && e.Outcome == history.OutcomeSuccess && !e.Flags.Has(history.ClientGone)
}

// addEffects adds the promise, and a reading of the sink at the end, which has the effects of some events.
func (h *History) addEffects(promised history.Effects, makes func(*history.Event) bool) {
	h.Header.Contract().Effects = &promised
	seal := slices.IndexFunc(h.Events, func(e history.Event) bool {
		return e.Kind == history.KindPhase && e.Text == history.PhaseSeal
	})
	if seal < 0 {
		return
	}
	at := h.Events[seal].Time
	found := []history.Event{history.New(history.KindEffectsRead, at)}
	for number := range int32(h.Header.Records) {
		count, produced := int32(0), int32(0)
		for i := range h.Events {
			e := &h.Events[i]
			if e.Record == number && makes(e) {
				count++
			}
			if e.Record == number && e.Kind == history.KindSend {
				produced++
			}
		}
		switch {
		case promised.Once:
			count = min(count, 1)
		case promised.PerCopy:
			count = min(count, produced)
		}
		if count > 0 {
			e := history.New(history.KindEffect, at)
			e.Record, e.N = number, count
			found = append(found, e)
		}
	}
	h.Events = slices.Insert(h.Events, seal, found...)
}

// EffectsCorruptions lists the corruptions of a history with effects.
func EffectsCorruptions() []Corruption {
	effects := func(anomaly string) Promise { return Promise{"effects", anomaly} }
	return []Corruption{
		{Name: "the sink lacks the effect of a success", Promise: effects("effect-missing"), apply: effectMissing},
		{Name: "the sink has the effect of a success twice", Promise: effects("effect-doubled"), apply: effectDoubled},
		{Name: "the sink has an effect of a record that failed", Promise: effects("effect-partial"), apply: effectPartial},
	}
}

// effectOf returns the index of the event about a record's effects, or none.
func (v *view) effectOf(f *facts) int {
	return slices.IndexFunc(v.Events, func(e history.Event) bool {
		return e.Kind == history.KindEffect && e.Record == f.number
	})
}

// succeededOnce reports whether nothing happened to the record but one success, which was committed.
func (v *view) succeededOnce(f *facts) bool {
	if !v.tried(f) || v.Events[f.send].Flags != 0 || len(f.replays) > 0 || v.effectOf(f) < 0 {
		return false
	}
	last := f.attempts[len(f.attempts)-1].answer
	_, committed := v.covering(f)
	return committed && last != none && v.Events[last].Outcome == history.OutcomeSuccess &&
		len(f.outcomes(v)) == len(f.attempts)
}

// outcomes are the answers to the record's attempts that its client got.
func (f *facts) outcomes(v *view) (all []history.Outcome) {
	for _, one := range f.attempts {
		if one.answer == none {
			continue
		}
		if e := &v.Events[one.answer]; e.Outcome != history.OutcomeTimeout && e.Outcome != history.OutcomeReset &&
			!e.Flags.Has(history.ClientGone) {
			all = append(all, e.Outcome)
		}
	}
	return all
}

func effectMissing(v *view) (int32, bool) {
	f := v.chosen(v.succeededOnce)
	if f != nil {
		v.remove(v.effectOf(f))
	}
	return about(f)
}

func effectDoubled(v *view) (int32, bool) {
	f := v.chosen(v.succeededOnce)
	if f != nil {
		v.Events[v.effectOf(f)].N = 2
	}
	return about(f)
}

func effectPartial(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		outcomes := f.outcomes(v)
		return v.quiet(f) && v.Header.Contract().Effects.Atomic && v.Events[f.send].Flags == 0 && len(f.replays) == 0 &&
			len(outcomes) > 0 && len(outcomes) == len(f.attempts) && !slices.Contains(outcomes, history.OutcomeSuccess)
	})
	if f == nil {
		return none, false
	}
	at := slices.IndexFunc(v.Events, func(e history.Event) bool { return e.Kind == history.KindEffectsRead })
	e := history.New(history.KindEffect, v.Events[at].Time)
	e.Record, e.N = f.number, 1
	v.Events = slices.Insert(v.Events, at+1, e)
	return about(f)
}
