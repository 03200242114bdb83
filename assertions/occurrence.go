package assertions

// The place and time of an anomaly, for anomalies without a trace and for readers who need its start.

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// earliest is the first occurrence of an anomaly, with the data for its trace.
type earliest struct {
	Occurrence
	kept
}

// place notes the place and time of a sighting.
func (r *report) place(anomaly string, s *sighting, weight int) {
	one := Occurrence{Record: s.record, Partition: s.partition, Offset: s.offset, At: s.moment(), Missing: s.missing}
	if s.topic >= 0 && int(s.topic) < len(r.w.header.Topics) {
		one.Topic = r.w.header.Topics[s.topic].Name
	}
	r.places[anomaly] = amongEarliest(r.places[anomaly], one)
	one.Command = r.w.showCommand(s)
	if first, known := r.first[anomaly]; one.At >= 0 && (!known || one.before(&first.Occurrence)) {
		r.first[anomaly] = earliest{one, kept{*s, weight, s.say()}}
	}
	if s.margin > r.widest[anomaly].margin {
		r.widest[anomaly] = earliest{one, kept{*s, weight, s.say()}}
	}
}

// amongEarliest adds an occurrence to the earliest MaxRecords, which are in the order of time. So those of a cause are
// known up to a time, and Roots can tell whether an effect is later than that.
func amongEarliest(list []Occurrence, one Occurrence) []Occurrence {
	at, _ := slices.BinarySearchFunc(list, &one, func(other Occurrence, one *Occurrence) int {
		if one.before(&other) {
			return 1
		}
		return -1
	})
	if at >= MaxRecords {
		return list
	}
	return slices.Insert(list[:min(len(list), MaxRecords-1)], at, one)
}

// withFirst returns the first occurrence of an anomaly, or nil if it is unknown, and makes sure that its trace is
// built, and that of the occurrence with the largest margin: they replace the longest traces if there is no room.
func (r *report) withFirst(anomaly string) *Occurrence {
	first, known := r.first[anomaly]
	wanted := []kept{}
	if known {
		wanted = append(wanted, first.kept)
	}
	if widest := r.widest[anomaly]; widest.margin > 0 && (!known || !widest.is(&first.kept)) {
		wanted = append(wanted, widest.kept)
	}
	wanted = slices.DeleteFunc(wanted, func(k kept) bool {
		return slices.ContainsFunc(r.kept[anomaly], func(other kept) bool { return k.is(&other) })
	})
	r.kept[anomaly] = append(r.kept[anomaly][:min(len(r.kept[anomaly]), MaxCounterexamples-len(wanted))], wanted...)
	if !known {
		return nil
	}
	first.Phase = r.w.phaseAt(first.At)
	if first.Missing == MissingDrained || first.Missing == MissingReplayed {
		first.Phase = r.w.phaseAt(first.At - 1) // the phase that it ends, not the next
	}
	return &first.Occurrence
}

// is reports whether two sightings are of the same occurrence.
func (k *kept) is(other *kept) bool {
	return k.record == other.record && k.partition == other.partition && k.offset == other.offset &&
		k.sighting.moment() == other.sighting.moment()
}

// before orders occurrences by time, and those with equal times by place.
func (o *Occurrence) before(other *Occurrence) bool {
	return cmp.Or(cmp.Compare(o.At, other.At), cmp.Compare(o.Partition, other.Partition),
		cmp.Compare(o.Offset, other.Offset), cmp.Compare(o.Record, other.Record)) < 0
}

// moment is the time of the violation. A commit beyond unfinished records violates at once. For other anomalies, the
// last event completes the contradiction. An event that never came violates from when it is certain not to come. An
// anomaly of the whole run has no moment.
func (s *sighting) moment() time.Duration {
	if s.missing != "" {
		return s.gone
	}
	var last time.Duration = none
	for _, mark := range s.marks {
		if mark.kind == history.KindCommitRequest || mark.kind == history.KindCommitResponse {
			return mark.at
		}
		last = max(last, mark.at)
	}
	if last >= 0 || s.to == endless {
		return last
	}
	return s.to
}

// phaseAt returns the name of the phase at a time, or "" before the first.
func (w *state) phaseAt(at time.Duration) string {
	name := ""
	for _, one := range w.phases {
		if one.at > at {
			break
		}
		name = one.name
	}
	return name
}

// keys holds the keys of the records that a verdict names, as far as they are known yet.
type keys map[int32]string

// keysOf returns the records whose keys are needed, and the time by which they were certainly sent.
func keysOf(v *Verdict) (wanted keys, until time.Duration) {
	wanted = keys{}
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			for i := range a.Records {
				wanted[a.Records[i].Record] = ""
				until = max(until, a.Records[i].At)
			}
			for i := range a.Counterexamples {
				wanted[a.Counterexamples[i].Record] = ""
			}
			if a.First != nil {
				wanted[a.First.Record] = ""
				until = max(until, a.First.At)
			}
		}
	}
	delete(wanted, none)
	return wanted, until
}

// hear learns a key from a record that the workload sent.
func (k keys) hear(e *history.Event, header *history.Header) {
	if _, wanted := k[e.Record]; wanted && e.Kind == history.KindSend && e.N >= 0 {
		k[e.Record] = strings.ToValidUTF8(header.Key(e.N), "\uFFFD")
	}
}

// name adds the ids and the keys of its records to a verdict.
func (k keys) name(v *Verdict, ids *history.IDs) {
	for i := range v.Invariants {
		for n := range v.Invariants[i].Anomalies {
			a := &v.Invariants[i].Anomalies[n]
			for m := range a.Records {
				k.nameOne(&a.Records[m], ids)
			}
			if a.First != nil {
				k.nameOne(a.First, ids)
			}
			for m := range a.Counterexamples {
				a.Counterexamples[m].Key = k[a.Counterexamples[m].Record]
			}
		}
	}
}

func (k keys) nameOne(o *Occurrence, ids *history.IDs) {
	if o.Record >= 0 {
		o.ID, o.Key = ids.Token(o.Record), k[o.Record]
	}
}
