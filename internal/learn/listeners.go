package learn

// Whose retry topics they are, in a program with several listeners: a contract is about one.

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

// listeners are the groups that a program joins.
type listeners struct {
	// of is the name of the group that the contract is about.
	of     string
	groups []run.JoinedGroup
	// copies are the topics with copies of the input's records, nil if none were sent yet.
	copies map[string]bool
}

// others returns the retry topics of other listeners. Surest is who subscribes to a topic. Frameworks read retry topics
// with groups of their own, so else it counts whether copies of the input's records are in it, and which listener's
// name a group that reads it begins with.
func (l listeners) others(retries []string) (theirs []string) {
	beside, shared := l.beside()
	if len(beside) == 0 {
		return nil
	}
	for _, topic := range retries {
		var readers []string
		for _, g := range l.groups {
			if slices.Contains(g.Topics, topic) {
				readers = append(readers, g.Name)
			}
		}
		reads := func(name string) bool { return slices.Contains(readers, name) }
		nearest := l.nearest(readers, beside)
		switch {
		case reads(l.of):
		case slices.ContainsFunc(beside, reads):
			theirs = append(theirs, topic)
		case l.copies[topic] && !shared: // only this listener gets the input's records
		case nearest != "" && nearest != l.of, nearest == "" && len(l.copies) > 0 && !l.copies[topic]:
			theirs = append(theirs, topic)
		}
	}
	return theirs
}

// beside returns the names of the other groups that read inputs, and whether one of them reads the same input.
func (l listeners) beside() (names []string, shared bool) {
	inputs := map[string][]string{}
	for _, g := range l.groups {
		inputs[g.Name], _ = sortedOut(g.Topics, history.Header{})
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		input := func(topic string) bool { return !retryName.MatchString(topic) }
		if name == l.of || !slices.ContainsFunc(inputs[name], input) {
			continue
		}
		names = append(names, name)
		shared = shared || slices.ContainsFunc(inputs[name], func(topic string) bool {
			return slices.Contains(inputs[l.of], topic)
		})
	}
	return names, shared
}

// nearest returns the listener whose name is the longest with which all of the readers' names begin, "" if none is.
func (l listeners) nearest(readers, beside []string) (name string) {
	for _, one := range append([]string{l.of}, beside...) {
		other := func(reader string) bool { return !strings.HasPrefix(reader, one) }
		if len(one) > len(name) && len(readers) > 0 && !slices.ContainsFunc(readers, other) {
			name = one
		}
	}
	return name
}

// copied puts the retry topics right after records were sent: copies of them show whose a topic is. again: it writes to
// further ones, whose names continue those that it reads. A consumer that reads them by a pattern finds a new topic
// only when its client asks for all topics again (metadata.max.age.ms, 5 min), so it has to be watched with them.
func (k *look) copied(s *seen, sight run.Sighting, header history.Header) (again bool, err error) {
	_, retries := sortedOut(sight.Read, header)
	if k.retries != nil {
		retries = append(retries, k.retries...)
		k.text, k.retries = k.before, nil
		if k.subject, err = scenarios.ParseSubject(k.File, k.text); err != nil {
			return false, err
		}
	}
	copies := map[string]bool{}
	for topic := range s.copies {
		copies[topic] = true
	}
	further := continued(retries, sight.Others)
	retries = append(retries, further...)
	for _, topic := range retries {
		copies[topic] = copies[topic] || hasCopies(sight.Others[topic])
	}
	maps.DeleteFunc(copies, func(_ string, has bool) bool { return !has })
	before := k.text
	err = k.putRetries(retries, listeners{of: k.ownGroup(header), groups: sight.Groups, copies: copies})
	if again = len(further) > 0 && k.further < mostFurther && !bytes.Equal(k.text, before); again {
		k.retries, k.before, k.further = retries, before, k.further+1
	}
	return again, err
}

// mostFurther is how often a consumer is watched again for retry topics that continue others. One whose topics have a
// time in their names has new ones each time.
const mostFurther = 10

// continued returns the topics with copies of records whose names are those of retry topics with another last number.
func continued(retries []string, written map[string][]run.OtherRecord) (further []string) {
	for _, topic := range slices.Sorted(maps.Keys(written)) {
		stem := stemOf(topic)
		sameStem := func(retry string) bool { return stem != "" && stemOf(retry) == stem }
		if hasCopies(written[topic]) && !slices.Contains(retries, topic) && slices.ContainsFunc(retries, sameStem) {
			further = append(further, topic)
		}
	}
	return further
}

// hasCopies reports whether one of the records is about a record of the input.
func hasCopies(records []run.OtherRecord) bool {
	return slices.ContainsFunc(records, func(r run.OtherRecord) bool { return r.Record != history.None })
}

// stemOf is the name without its last number, "" if it has none.
func stemOf(name string) string {
	all := digits.FindAllStringIndex(name, -1)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	return name[:last[0]] + "#" + name[last[1]:]
}
