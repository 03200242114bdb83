package assertions

// The lines of a subject's log that belong to a record's trace: those that name the record by its id, its place or its
// key, and errors that name no record at all. A line that names only other records is left out.

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// lineReader determines which records a line of a log names.
type lineReader struct {
	ids    *history.IDs
	topics []history.Topic
	places *regexp.Regexp
}

// namedPlace is a place as a line names it: topic and partition are none if the line does not state them.
type namedPlace struct {
	topic     int16
	partition int64
	offset    int64
}

var (
	namedKey = regexp.MustCompile(`\bkey-(\d{6,})`)
	// ofPosition: the offsets in such a line are often one past the record.
	ofPosition = regexp.MustCompile(`(?i)commit|position|next`)
)

// newLineReader returns a reader of lines that may name the topics of the run. It recognizes places in the notations of
// people and client libraries: t-0@7, t[0]@7, t/0/7, t:0:7, t [0] at offset 7, partition=0 offset=7, or
// "partition":0,"offset":"7".
func newLineReader(header *history.Header, ids *history.IDs) *lineReader {
	names := []string{`[^\s\S]`} // matches nothing, for a run without topics
	for i := range header.Topics {
		names = append(names, regexp.QuoteMeta(header.Topics[i].Name))
	}
	// The longest name first: one topic's name is often a prefix of another's.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	const (
		is        = `\\?["']?\s*(?:=>|->|[=:#]|\bis\b|\bof\b)?\s*\\?["'(\[]?`
		partition = `["']?(?:[-/:]|\s?\[{1,2})(\d+)\b`
		offset    = `(?:\]{0,2}\s?@\s?|[-/:])(\d+)\b`
	)
	return &lineReader{ids: ids, topics: header.Topics, places: regexp.MustCompile(
		`(?:^|[^\w.-])(` + strings.Join(names, "|") + `)(?:` + partition + `(?:` + offset + `)?|[^\w.-]|$)` +
			`|(?i:(?:partition|\bpart)` + is + `(\d+))|(?i:offset` + is + `(\d+))`)}
}

// placesIn returns the places that a line names. A partition belongs to the offsets that follow it, or to preceding
// offsets without a partition.
func (l *lineReader) placesIn(text string) []namedPlace {
	var all []namedPlace
	at := namedPlace{none, none, none}
	for _, found := range l.places.FindAllStringSubmatch(text, -1) {
		topic, offset := l.topic(found[1]), number(found[3]+found[5])
		if topic >= 0 {
			at = namedPlace{topic: topic, partition: none}
		}
		if partition := number(found[2] + found[4]); partition >= 0 {
			at.partition = partition
		}
		waiting := false
		for i := range all {
			if one := &all[i]; one.partition < 0 && offset < 0 {
				one.partition, waiting = at.partition, true
				if one.topic < 0 {
					one.topic = at.topic
				}
			}
		}
		if waiting {
			at.partition = none
		}
		if offset >= 0 {
			all = append(all, namedPlace{at.topic, at.partition, offset})
		}
	}
	return all
}

func (l *lineReader) topic(name string) int16 {
	return int16(slices.IndexFunc(l.topics, func(one history.Topic) bool { return name != "" && one.Name == name }))
}

// number returns the value of the digits, or none if there are no digits.
func number(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return none
	}
	return n
}

// means reports whether a line names the place; next also accepts the offset after it.
func (p *namedPlace) means(one place, next bool) bool {
	return (p.topic < 0 || p.topic == one.topic) && (p.partition < 0 || p.partition == int64(one.partition)) &&
		(p.offset == one.offset || next && p.offset == one.offset+1)
}

// isAt reports whether the trace's record is or was at a place that a line names. For a dead letter, the line must name
// the topic.
func (s *trace) isAt(named *namedPlace, next bool) bool {
	return slices.ContainsFunc(s.at, func(one toldPlace) bool { return named.means(one.place, next) }) ||
		named.topic >= 0 && slices.ContainsFunc(s.letters, func(one place) bool { return named.means(one, false) })
}

// mentions says which records a line of a log names.
type mentions int

const (
	namesNone mentions = iota
	namesOwn
	namesOthers // and not the trace's
)

// named determines which records an event names, if it is a line of a log. An id decides, otherwise the places,
// otherwise the keys, because several records share a key.
func (n *narrator) named(s *trace, e *history.Event) mentions {
	if e.Kind != history.KindSubjectError || s.record < 0 || s.tellsOf(e) {
		return namesOwn
	}
	either := func(own bool) mentions {
		if own {
			return namesOwn
		}
		return namesOthers
	}
	if number, found := n.lines.ids.Find([]byte(e.Text)); found {
		return either(number == s.record || strings.Contains(e.Text, n.lines.ids.Token(s.record)))
	}
	if places := n.lines.placesIn(e.Text); len(places) > 0 {
		next := ofPosition.MatchString(e.Text)
		return either(slices.ContainsFunc(places, func(named namedPlace) bool { return s.isAt(&named, next) }))
	}
	if keys := namedKey.FindAllStringSubmatch(e.Text, -1); len(keys) > 0 {
		return either(slices.ContainsFunc(keys, func(found []string) bool { return number(found[1]) == s.key }))
	}
	return namesNone
}
