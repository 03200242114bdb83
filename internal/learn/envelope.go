package learn

// What the dead letters show: their dialect, the headers that were added, and whether the record is still in them.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

// most is the share of the cases that must agree for a habit to be learned from them.
const most = 0.9

// dialect returns the dialect that most dead letters are in, "" if there is none, or no dead letter; and the fields
// that each of them lacks. A field that is never there is no damage: the consumer writes headers of its own that are
// named like the dialect's.
func (s *seen) dialect() (name string, lacking []string) {
	count, lack := map[string]int{}, map[string]map[string]int{}
	for _, one := range s.deadLetters {
		name, opener := deadletter.Detect(one.found)
		if count[name]++; lack[name] == nil {
			lack[name] = map[string]int{}
		}
		_, missing := opener.Open(one.found)
		for _, field := range missing {
			lack[name][field]++
		}
	}
	for name, n := range count {
		if name == deadletter.RawName || float64(n) < most*float64(len(s.deadLetters)) {
			continue
		}
		for field, times := range lack[name] {
			if times == n {
				lacking = append(lacking, field)
			}
		}
		slices.Sort(lacking)
		return name, lacking
	}
	return "", nil
}

// added returns the names of the headers that most dead letters have and no record had, sorted.
func (s *seen) added() []string {
	count := map[string]int{}
	for _, one := range s.deadLetters {
		names := map[string]bool{}
		for _, header := range one.found.Headers {
			names[header.Key] = true
		}
		for name := range names {
			count[name]++
		}
	}
	var names []string
	own := s.headers()
	for name, n := range count {
		if !own[name] && float64(n) >= most*float64(len(s.deadLetters)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// field is a field of an envelope made from headers of the consumer's own.
type field struct{ name, header string }

// className is a value that names the class of an error: java.io.IOException, pkg.Timeout, ValueError.
var className = regexp.MustCompile(`^[\pL_$][\pL\pN_$]*([.:]+[\pL_$][\pL\pN_$]*)+$|^[\pL\pN_$]*(Error|Exception)$`)

// fields finds out what the added headers hold, and the members of values that are not those of the records; nil unless
// one of them names the record's topic, without which a dead letter can't go back, or has its value.
func (s *seen) fields() []field {
	held := s.valuePlace()
	names := append(s.added(), s.members(held)...)
	var found []field
	take := func(name string, fits func(deadLetter, string) bool) {
		for i, header := range names {
			if s.all(header, fits) {
				found = append(found, field{name, header})
				names = slices.Delete(slices.Clone(names), i, i+1)
				return
			}
		}
	}
	take("topic", func(l deadLetter, value string) bool {
		return value == s.header.Topics[s.records[l.record].at.topic].Name
	})
	if len(found) == 0 && held == nil {
		return nil
	}
	take("offset", func(l deadLetter, value string) bool { return number(value) == s.records[l.record].offset })
	take("partition", func(l deadLetter, value string) bool {
		return number(value) == int64(s.records[l.record].at.partition)
	})
	take("attempts", func(l deadLetter, value string) bool {
		return number(value) == int64(len(s.records[l.record].tries))
	})
	about := regexp.MustCompile(`(?i)class|type|fqcn|exception|error`) // other dotted names are those of services
	if i := slices.IndexFunc(names, func(header string) bool {
		return about.MatchString(lastName(header)) &&
			s.all(header, func(_ deadLetter, value string) bool { return className.MatchString(value) })
	}); i >= 0 {
		found = append(found, field{"class", names[i]})
		names = slices.Delete(slices.Clone(names), i, i+1)
	}
	// Of several, the most specific one counts: beside a message, "exception" often begins a stack trace's name.
	names = slices.DeleteFunc(names, func(header string) bool { return s.all(header, tellsLittle) })
	for _, of := range []*regexp.Regexp{
		regexp.MustCompile(`(?i)message|reason`), regexp.MustCompile(`(?i)cause|error`), regexp.MustCompile(`(?i)exception`),
	} {
		if i := slices.IndexFunc(names, func(name string) bool { return of.MatchString(lastName(name)) }); i >= 0 {
			found = append(found, field{"reason", names[i]})
			break
		}
	}
	if held != nil {
		found = append(found, *held)
	}
	return found
}

// path matches a path to a member of a value, as an envelope can have it.
var path = regexp.MustCompile(`^\$(\.[^.\[\]'"*,=]+)+$`)

// lastName is the name of a header, or that of the member to which a path leads.
func lastName(place string) string {
	if path.MatchString(place) {
		return place[strings.LastIndex(place, "."):]
	}
	return place
}

// valuePlace finds the member of the dead letters' values in which most have the record's value; nil if there is none,
// or if their values are those of the records.
func (s *seen) valuePlace() *field {
	candidates := map[string]bool{}
	for _, one := range s.deadLetters {
		if original := s.records[one.record].original; original == nil || same(one.found.Value, original.Value) {
			continue
		}
		var content map[string]any
		if json.Unmarshal(one.found.Value, &content) == nil {
			membersOf("$", content, candidates)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(candidates)) {
		for _, name := range []string{"value", "value_base64"} {
			of, good, opener := 0, 0, openerOf(name, place)
			for _, one := range s.legible() {
				original := s.records[one.record].original
				if original == nil || opener == nil {
					continue
				}
				of++
				if held := opener.Prepare(one.found).Value; len(original.Value) > 0 &&
					bytes.Equal(workload.Canonical(held), workload.Canonical(original.Value)) {
					good++
				}
			}
			if good > 0 && float64(good) >= most*float64(of) {
				return &field{name, place}
			}
		}
	}
	return nil
}

// legible returns the dead letters of records that can be read, or all if there are none: a value that is not text may
// have no place in JSON.
func (s *seen) legible() []deadLetter {
	legible := slices.DeleteFunc(slices.Clone(s.deadLetters), func(one deadLetter) bool {
		return s.records[one.record].flags.Has(history.Garbage)
	})
	if len(legible) == 0 {
		return s.deadLetters
	}
	return legible
}

// membersOf collects the paths to the members of an object, at any depth.
func membersOf(at string, content map[string]any, all map[string]bool) {
	for name, member := range content {
		place := at + "." + name
		if !path.MatchString(place) || len(all) >= mostMembers {
			continue
		}
		all[place] = true
		if inner, is := member.(map[string]any); is {
			membersOf(place, inner, all)
		}
	}
}

// mostMembers bounds the members that are looked at.
const mostMembers = 1000

func openerOf(name, place string) deadletter.Opener {
	envelope, err := deadletter.OwnHeadersName(map[string]string{name: place})
	if err != nil {
		return nil
	}
	opener, err := deadletter.Named(envelope)
	if err != nil {
		return nil
	}
	return opener
}

// members returns the paths to the texts and numbers that most dead letters have in their values, and their records do
// not have there; without those inside the record's value, which is held.
func (s *seen) members(held *field) []string {
	count := map[string]int{}
	for _, one := range s.deadLetters {
		original := s.records[one.record].original
		if original == nil || same(one.found.Value, original.Value) {
			continue
		}
		before := leavesOf(original.Value)
		for place := range leavesOf(one.found.Value) {
			if _, own := before[place]; !own && path.MatchString(place) {
				count[place]++
			}
		}
	}
	var places []string
	for place, n := range count {
		inside := held != nil && (place == held.header || strings.HasPrefix(place, held.header+"."))
		if !inside && float64(n) >= most*float64(len(s.deadLetters)) {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
}

// leavesOf returns the texts and numbers in a value by their paths.
func leavesOf(value []byte) map[string]string {
	all := map[string]string{}
	leaves, err := samples.Leaves(value)
	if err != nil {
		return nil
	}
	for _, leaf := range leaves {
		all[leaf.At] = leaf.Text
	}
	return all
}

// tellsLittle reports whether a value is a number or a truth value, which is no reason: of a code, a count or a flag.
func tellsLittle(_ deadLetter, value string) bool {
	_, truth := strconv.ParseBool(value)
	_, figure := strconv.ParseFloat(value, 64)
	return truth == nil || figure == nil
}

// all reports whether the header's value fits in most dead letters whose record is known.
func (s *seen) all(header string, fits func(deadLetter, string) bool) bool {
	n, good := 0, 0
	for _, one := range s.deadLetters {
		if r := &s.records[one.record]; r.offset < 0 || len(r.tries) == 0 {
			continue
		}
		n++
		if value, has := valueOf(one.found, header); has && fits(one, value) {
			good++
		}
	}
	return n > 0 && float64(good) >= most*float64(n)
}

// valueOf returns what stands in a header, or at a path in the value.
func valueOf(record *kgo.Record, name string) (string, bool) {
	if path.MatchString(name) {
		text, has := leavesOf(record.Value)[name]
		return text, has
	}
	for _, header := range record.Headers {
		if header.Key == name {
			return string(header.Value), true
		}
	}
	return "", false
}

// number returns the number in a header: decimal, or 4 or 8 bytes, the highest first; -1 if there is none.
func number(value string) int64 {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n
	}
	switch len(value) {
	case 4:
		return int64(binary.BigEndian.Uint32([]byte(value)))
	case 8:
		return int64(binary.BigEndian.Uint64([]byte(value)))
	}
	return -1
}

// kept counts the dead letters that still have their record's key, value and headers, of those whose record is known.
// bytes counts those whose record can't be read and that do not have its value: what a consumer changes only there,
// such as by taking each value for text, is not a habit to promise.
type kept struct{ key, value, headers, bytes, of int }

func (s *seen) kept() kept {
	var count kept
	inside := s.valuePlace()
	for _, one := range s.deadLetters {
		original := s.records[one.record].original
		if original == nil {
			continue
		}
		count.of++
		_, opener := deadletter.Detect(one.found)
		held := opener.Prepare(one.found)
		if same(held.Key, original.Key) || same(one.found.Key, original.Key) {
			count.key++
		}
		switch {
		case inside != nil || same(held.Value, original.Value) || same(one.found.Value, original.Value):
			count.value++
		case s.records[one.record].flags.Has(history.Garbage):
			count.bytes++
		}
		if hasAll(one.found, original) || hasAll(held, original) {
			count.headers++
		}
	}
	if count.value > 0 && count.value+count.bytes == count.of {
		count.value = count.of // the judge tells of the others
	}
	return count
}

// same reports whether two keys or values are alike; null is not empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func hasAll(deadLetter, original *kgo.Record) bool {
	for _, header := range original.Headers {
		if !slices.ContainsFunc(deadLetter.Headers, func(h kgo.RecordHeader) bool {
			return h.Key == header.Key && bytes.Equal(h.Value, header.Value)
		}) {
			return false
		}
	}
	return true
}

// deadLetters is about the dead-letter topic.
func (l *learned) deadLetters() {
	c, failed := l.subject.Contract.DLQ, 0
	for _, r := range l.seen.of(history.OutcomeExhausted, history.OutcomePermanent) {
		if len(r.tries) > 0 && l.seen.finished(r) {
			failed++
		}
	}
	var parts []string
	if c.Topic != "{{.DLQTopic}}" && c.Topic != "" {
		parts = append(parts, "topic: "+quoted(c.Topic))
	}
	if c.WrittenBy != "" && c.WrittenBy != scenarios.WrittenByConsumer {
		parts = append(parts, "written_by: "+c.WrittenBy)
	}
	if c.Partition == scenarios.PartitionSame {
		parts = append(parts, "partition: "+c.Partition)
	}
	if c.SurfacedWithin > 0 {
		parts = append(parts, "surfaced_within: "+c.SurfacedWithin.String())
	}
	if l.seen.anonymous() {
		l.ask("dlq", flow(append(parts, "on_failure: halt")), "%d records that failed for good were committed. No dead "+
			"letter has the id of a record.", failed)
		l.wonder("no promise about dead letters can be judged: none of %d in %s has the id of its record, in its key, its "+
			"value or a header", l.seen.lettersUnnamed, c.Topic)
		return
	}
	if len(l.seen.deadLetters) == 0 {
		if failed == 0 && c.Enabled && l.seen.lettersUnnamed > 0 {
			l.promise("dlq", flow(append(parts, "on_failure: "+c.OnFailure)), "%s without the id of a record.",
				units.Plural(int64(l.seen.lettersUnnamed), "dead letter", "dead letters"))
			return
		}
		if failed == 0 && c.Enabled {
			l.ask("dlq", flow(append(parts, "on_failure: halt")), "No dead letter was written.")
			return
		}
		if c.Enabled && l.seen.lettersUnnamed > 0 {
			l.promise("dlq", flow(append(parts, "on_failure: "+c.OnFailure)), "%s without the id of a record, and none of %d "+
				"records that failed for good. If only records that can't be read belong there: {enabled: false}.",
				units.Plural(int64(l.seen.lettersUnnamed), "dead letter", "dead letters"), failed)
			l.wonder("it writes dead letters to %s, but none of %d records that failed for good and were committed", c.Topic,
				failed)
			return
		}
		l.promise("dlq", "{enabled: false}",
			"No dead letter in the topic, and %d records that failed for good were committed.", failed)
		if c.Enabled {
			l.wonder("it writes no dead letters to %s: %d records that failed for good were committed. If it has another "+
				"dead-letter topic, name it in dlq.topic and learn again", c.Topic, failed)
		}
		return
	}
	dialect, of := l.envelope()
	if dialect != "" {
		parts = append(parts, "envelope: "+dialect)
	}
	count := l.seen.kept()
	for _, one := range []struct {
		name string
		kept int
	}{{"key", count.key}, {"value", count.value}, {"headers", count.headers}} {
		if one.kept < count.of {
			parts = append(parts, "keeps_"+one.name+": false")
			l.wonder("%d of %d dead letters don't have the %s of their record any more", count.of-one.kept, count.of, one.name)
		}
	}
	parts = append(parts, "on_failure: "+c.OnFailure)
	l.promise("dlq", flow(parts), "%s; %s %s", units.Plural(int64(len(l.seen.deadLetters)), "dead letter",
		"dead letters"), of, l.found["contract.dlq.topic"])
}

// like tells of a dialect that has most of the headers.
func like(dialect string, lacking []string) string {
	if dialect == "" {
		return ""
	}
	return fmt.Sprintf(" They are named like those of %s, but %s is never there.", dialect, strings.Join(lacking, ", "))
}

// envelope returns the envelope of the dead letters as the contract has it, and what it was recognised by.
func (l *learned) envelope() (value, because string) {
	name, lacking := l.seen.dialect()
	added, fields := l.seen.added(), l.seen.fields()
	if name != "" && (lacking == nil || fields == nil) {
		return name, "their headers are those of " + name + "."
	}
	if fields != nil {
		var parts []string
		for _, one := range fields {
			parts = append(parts, one.name+": "+quoted(one.header))
		}
		of := "the headers they add"
		if members := l.seen.members(l.seen.valuePlace()); len(members) > 0 {
			of, added = "what they add", append(added, members...)
		}
		return "{" + strings.Join(parts, ", ") + "}", "recognised among " + of + ": " + strings.Join(added, ", ") + "." +
			like(name, lacking)
	}
	if len(added) == 0 {
		return "", "they add no headers."
	}
	return "", "the headers they add name no topic: " + strings.Join(added, ", ") + "."
}
