package learn

// From what was seen to the lines of a contract.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Line is one entry of a contract.
type Line struct {
	// Key is its key in subject.yaml, Value what stands behind it; "" for a comment alone.
	Key, Value string
	// Seen says what it was learned from.
	Seen string
	// Open: it is a question, not a promise, and is written behind a comment sign.
	Open bool
}

// learned is a contract in the making.
type learned struct {
	watching
	subject *scenarios.SubjectFile
	lines   []Line
	// path and text are the subject file.
	path string
	text []byte
	// odd are the surprising things that were seen, in sentences.
	odd []string
	// client says how calls are repeated within an attempt.
	client repeats
	// found is what a first look found keys of the contract from, by their paths.
	found map[string]string
}

// propose writes down what was seen, also with records that can't be read. Ordering is left to the judge; see
// strengthen.
func propose(w watching, subject *scenarios.SubjectFile, found map[string]string) *learned {
	l := &learned{watching: w, subject: subject, found: found}
	l.names()
	if subject.Observe != scenarios.ObserveWire {
		l.client = l.repeats()
		l.attempts()
		l.backoff()
		l.classes()
		l.retryAfter()
	}
	l.deadLetters()
	l.poison()
	l.commits()
	l.stop()
	return l
}

func (l *learned) promise(key, value, seen string, about ...any) {
	l.lines = append(l.lines, Line{Key: key, Value: value, Seen: fmt.Sprintf(seen, about...)})
}

func (l *learned) ask(key, value, seen string, about ...any) {
	l.lines = append(l.lines, Line{Key: key, Value: value, Seen: fmt.Sprintf(seen, about...), Open: true})
}

// remark adds a comment without a promise.
func (l *learned) remark(seen string, about ...any) {
	l.lines = append(l.lines, Line{Seen: fmt.Sprintf(seen, about...)})
}

func (l *learned) wonder(text string, about ...any) {
	l.odd = append(l.odd, fmt.Sprintf(text, about...))
}

// names keeps what the file says and watching can't tell.
func (l *learned) names() {
	c := l.subject.Contract
	keep := func(key, value string, unless ...string) {
		if value != "" && !slices.Contains(unless, value) {
			l.promise(key, quoted(value), "%s", cmp.Or(l.found["contract."+key], "Kept from the file."))
		}
	}
	keep("group", c.Group, "{{.GroupID}}")
	keep("group_type", c.GroupType)
	keep("group_protocol", c.GroupProtocol)
	keep("retry", c.Retry, string(history.RetryInPlace))
	if len(c.RetryTopics) > 0 {
		l.promise("retry_topics", list(c.RetryTopics), "%s", cmp.Or(l.found["contract.retry_topics"], "Kept from the file."))
	}
	keep("health", c.Health)
	keep("on_exhausted", c.OnExhausted)
	keep("on_error", c.OnError)
	keep("on_unhealthy", c.OnUnhealthy)
	keep("offset_metadata", c.OffsetMetadata)
	if c.Isolation > 0 {
		keep("isolation", c.Isolation.String())
	}
	l.membership()
	if c.Effects != nil {
		l.promise("effects", effects(c.Effects), "%s", cmp.Or(l.found["contract.effects"], "Kept from the file."))
	}
	if t := l.seen.transactional; c.Transactions || t.deadLetters > 0 && t.offsets > 0 {
		l.promise("transactions", "true", "Dead letters and offsets were written in transactions.")
	}
}

// membership tells what its members ask for when they join their group, which promises nothing.
func (l *learned) membership() {
	for _, one := range l.seen.discovery.Seen().Groups {
		if one.Name == l.seen.header.Group() && one.Session > 0 {
			l.remark("Its members ask for a session timeout of %s. After a crash, its partitions wait for so long.",
				units.Text(one.Session))
		}
	}
}

// effects is the promise as the file has it.
func effects(promised *scenarios.EffectsSpec) string {
	var parts []string
	if promised.Topic != "" {
		parts = append(parts, "topic: "+quoted(promised.Topic))
	}
	if promised.SQL != "" {
		parts = append(parts, "sql: "+quoted(promised.SQL))
	}
	if promised.Repeats != "" {
		parts = append(parts, "repeats: "+promised.Repeats)
	}
	if promised.Atomic {
		parts = append(parts, "atomic: true")
	}
	return flow(parts)
}

// flow is a mapping as YAML has it: in one line if it fits in, else in one line for each entry.
func flow(parts []string) string {
	if one := "{" + strings.Join(parts, ", ") + "}"; len(one) <= valueWidth {
		return one
	}
	return "\n    " + strings.Join(parts, "\n    ")
}

// valueWidth is the longest value in one line, in bytes.
const valueWidth = 100

// quoted is a text as YAML takes it.
func quoted(text string) string {
	if strings.ContainsAny(text, "{}[],:#\"'&*!|>%@` ") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	return text
}

// mode returns the most frequent number, and how often it occurs.
func mode(all []int) (number, times int) {
	count := map[int]int{}
	for _, n := range all {
		if count[n]++; count[n] > times || count[n] == times && n > number {
			number, times = n, count[n]
		}
	}
	return number, times
}

// attempts counts the attempts of records that failed each time and came to an end. One without an attempt did not
// fail.
func (l *learned) attempts() {
	var counts []int
	open, again := 0, 0
	for _, r := range l.seen.of(history.OutcomeExhausted) {
		if r.deadLetters == 0 && !l.seen.finished(r) {
			open++
			again = max(again, len(r.tries))
			continue
		}
		if len(r.tries) > 0 {
			counts = append(counts, len(r.tries))
		}
	}
	counter := history.CounterMemory
	switch promised := l.subject.Contract; {
	case promised.Retry == string(history.RetryTopics):
		counter = history.CounterHeader
	case promised.Retry == string(history.RetryRedelivery) && promised.GroupType == string(history.GroupShare):
		counter = history.CounterDelivery
	}
	number, times := mode(counts)
	value := fmt.Sprintf("{max: %d, counter: %s}", number, counter)
	switch {
	case len(counts) == 0 && open == 0:
	case len(counts) == 0 && again > 1 && counter == history.CounterMemory && l.subject.Contract.OnExhausted == "":
		l.ask("attempts", "{max: unlimited, counter: memory}", "%s failed each time and came to no end, one after %d "+
			"attempts. Is a record tried until it succeeds?", units.Plural(int64(open), "record", "records"), again)
	case len(counts) == 0:
		l.wonder("%d records failed each time and came to no end: no attempt is promised to be the last", open)
	case l.client.sure:
		l.repeated(counter)
	case float64(times) < most*float64(len(counts)):
		l.ask("attempts", value, "Not the same for all: from %d to %d attempts of records that failed each time.",
			slices.Min(counts), slices.Max(counts))
	default:
		maybe := ""
		if l.client.calls > 0 {
			maybe = l.client.promised(counter)
		}
		l.promise("attempts", value, "%s in %d of %d records that failed each time.%s",
			units.Plural(int64(number), "attempt", "attempts"), times, len(counts), maybe)
	}
}

// gaps returns the waits after the first failed attempt, after the second, and so on, of records that were answered
// with plain failures.
func (s *seen) gaps() [][]time.Duration {
	var all [][]time.Duration
	for _, r := range s.of(history.OutcomeExhausted, history.OutcomeTransient) {
		for k := 1; k < len(r.tries); k++ {
			before := r.tries[k-1]
			if before.outcome != history.OutcomeTransient || !s.follows(r.tries, k) {
				break
			}
			for len(all) < k {
				all = append(all, nil)
			}
			all[k-1] = append(all[k-1], r.tries[k].begin-before.end)
		}
	}
	return all
}

func (l *learned) backoff() {
	gaps := l.waits()
	if len(gaps) == 0 {
		return
	}
	b, ok := fit(gaps)
	if !ok {
		if len(gaps[0]) >= leastGaps {
			l.wonder("it tries again at once: the shortest of %d first waits was %s", len(gaps[0]),
				units.Text(slices.Min(gaps[0])))
		}
		return
	}
	parts := []string{"initial: " + written(b.initial)}
	if b.multiplier > 1 {
		parts = append(parts, fmt.Sprintf("multiplier: %g", b.multiplier))
	}
	if b.cap > 0 {
		parts = append(parts, "cap: "+written(b.cap))
	}
	if own := l.subject.Contract.Backoff; own.Initial > 0 {
		for _, kept := range []struct {
			key   string
			value units.Duration
		}{{"jitter", own.Jitter}, {"late", own.Late}} {
			if kept.value > 0 {
				parts = append(parts, kept.key+": "+kept.value.String())
			}
		}
	}
	var ranges []string
	for k, of := range gaps {
		if len(of) > 0 && k < 5 {
			ranges = append(ranges, fmt.Sprintf("%s to %s (%d)", units.Text(slices.Min(of)), units.Text(slices.Max(of)),
				len(of)))
		}
	}
	seen := fmt.Sprintf("Waits after the first attempt, the second, …: %s.", strings.Join(ranges, ", "))
	switch least, wide := leastOf(gaps); {
	case least < atOnce:
		l.ask("backoff", flow(parts), "%s They are spread so widely that the shortest may be no wait at all.", seen)
	case wide:
		l.promise("backoff", flow([]string{"initial: " + written(least)}), "%s They are spread so widely that only "+
			"this one is certain. Write those of your consumer instead, perhaps %s.", seen, flow(parts))
	default:
		l.promise("backoff", flow(parts), "%s%s", seen, l.jitter(gaps[0]))
	}
}

// jitter asks about the spread of the first waits, if nothing is promised of it and there is much.
func (l *learned) jitter(of []time.Duration) string {
	spread := spreadOf(of)
	if l.subject.Contract.Backoff.Jitter > 0 || float64(spread) < jitters*float64(slices.Min(of)) {
		return ""
	}
	return fmt.Sprintf(" Most first waits are spread over %s: by jitter, or by a busy machine. If it is jitter, promise "+
		"it: jitter: %s.", units.Text(spread), written(roundUp(spread)))
}

// written is a duration as YAML has it.
func written(d time.Duration) string { return units.Duration(d).String() }

// fate is what became of records after an answer.
type fate struct{ retried, deadLettered, finished, open int }

func (f fate) of() int { return f.retried + f.deadLettered + f.finished + f.open }

// after counts what came after the first answer of this outcome. It leaves out records that nothing came of because
// their process ended by itself.
func (s *seen) after(outcome history.Outcome) fate {
	var f fate
	for i := range s.records {
		r := &s.records[i]
		at := slices.IndexFunc(r.tries, func(t try) bool { return t.outcome == outcome })
		switch {
		case at < 0 || r.offset < 0:
		case at+1 < len(r.tries):
			f.retried++
		case r.deadLetters > 0:
			f.deadLettered++
		case s.finished(r):
			f.finished++
		case !s.crashedAfter(r.tries[at]):
			f.open++
		}
	}
	return f
}

// crashedAfter reports whether the process that made this try ended by itself later.
func (s *seen) crashedAfter(t try) bool {
	return slices.ContainsFunc(s.crashes, func(c crash) bool { return c.instance == t.by.instance && c.at >= t.begin })
}

// failures are the outcomes that stand for answers, in the order in which they are written.
func failures() []history.Outcome {
	return []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
		history.OutcomeReset, history.OutcomePermanent, history.OutcomeLogical}
}

// classes tells retryable answers from final ones.
func (l *learned) classes() {
	var retryable, permanent, logical, seen, unseen []string
	for _, outcome := range failures() {
		name, f := l.subject.AnswerTo(outcome), l.seen.after(outcome)
		switch {
		case name == "": // its downstream can't answer so
		case f.of() == 0:
			unseen = append(unseen, name)
		case float64(f.retried) >= most*float64(f.of()):
			retryable = append(retryable, name)
		case outcome == history.OutcomeLogical:
			logical = append(logical, name)
			l.business(f)
		default:
			permanent = append(permanent, name)
			if f.finished > f.deadLettered && !l.seen.anonymous() {
				unless := ""
				if database := l.subject.Postgres(); database != nil && database.Statements != "" {
					unless = " unless another table has them"
				}
				l.wonder("of %d records answered %s, %d were neither tried again nor dead-lettered, and are lost%s", f.of(), name,
					f.finished, unless)
			}
		}
		if f.of() > 0 {
			seen = append(seen, fmt.Sprintf("%s retried %d of %d", name, f.retried, f.of()))
		}
	}
	if len(seen) == 0 {
		return
	}
	text := strings.Join(seen, ", ") + "."
	if len(unseen) > 0 {
		text += " Not seen: " + strings.Join(unseen, ", ") + "."
	}
	var parts []string
	for _, list := range []struct {
		name string
		of   []string
	}{{"retryable", retryable}, {"permanent", permanent}, {"logical", logical}} {
		parts = append(parts, list.name+": ["+strings.Join(list.of, ", ")+"]")
	}
	l.promise("classes", flow(parts), "%s", text)
}

// business is about failures that are results of their own.
func (l *learned) business(f fate) {
	value, n := scenarios.LogicalTerminal, f.finished
	if f.deadLettered > f.finished {
		value, n = scenarios.LogicalDeadLetter, f.deadLettered
	}
	if float64(n) < most*float64(f.of()) {
		l.ask("logical", value, "Business failures: %d dead-lettered, %d finished without.", f.deadLettered, f.finished)
		return
	}
	l.promise("logical", value, "%d of %d business failures.", n, f.of())
}

// retryAfter finds out whether the time in a 429's Retry-After is waited for. That can be told only if it is longer
// than the usual wait.
func (l *learned) retryAfter() {
	usual, honoured, early := time.Duration(0), 0, 0
	if gaps := l.waits(); len(gaps) > 0 && len(gaps[0]) > 0 {
		usual = slices.Max(gaps[0])
	}
	for i := range l.seen.records {
		tries := l.seen.records[i].tries
		for k := 1; k < len(tries); k++ {
			before := tries[k-1]
			if before.outcome != history.OutcomeRateLimited || before.after <= usual || !l.seen.follows(tries, k) {
				continue
			}
			if tries[k].begin-before.end >= before.after {
				honoured++
			} else {
				early++
			}
		}
	}
	switch {
	case honoured > 0 && early == 0:
		l.promise("retry_after", scenarios.RetryAfterHonoured, "Waited for in %d of %d cases.", honoured, honoured)
	case early > 0:
		l.promise("retry_after", scenarios.RetryAfterIgnored, "Tried again earlier in %d of %d cases.", early,
			honoured+early)
	}
}

func (l *learned) commits() {
	value := "after-outcome"
	if l.seen.pause > 30*time.Second {
		value = "{after: outcome, interval: " + written(roundUp(l.seen.pause)) + "}"
	}
	l.promise("commits", value, "%d commits; with records in hand, none came later than %s after the one before.",
		l.seen.commits, units.Text(l.seen.pause))
}

const (
	// usualGrace is the default of stop.grace.
	usualGrace = 10 * time.Second
	// longGrace is how long a consumer may take to end while it is watched.
	longGrace = units.Duration(30 * time.Second)
)

func (l *learned) stop() {
	if len(l.seen.stops) == 0 {
		return
	}
	longest, killed, codes := time.Duration(0), 0, map[string]bool{}
	for _, one := range l.seen.stops {
		if one.code < 0 && one.text == "KILL" { // by dlqbench, which waited no longer
			killed++
		} else {
			longest = max(longest, one.took)
		}
		codes[ending(one.code, one.text)] = true
	}
	grace := max(usualGrace, roundUp(longest))
	all := slices.Sorted(maps.Keys(codes))
	parts := []string{"grace: " + written(grace)}
	if own := l.subject.Contract.Stop.Codes; len(own) > 0 {
		parts = append(parts, "codes: "+strings.ReplaceAll(fmt.Sprint(own), " ", ", "))
	}
	if killed == len(l.seen.stops) {
		l.promise("stop", flow(parts), "It never ended after TERM, and was killed. This is the usual time.")
		return
	}
	l.promise("stop", flow(parts), "%s after TERM, after %s at most, with %s.",
		units.Plural(int64(len(l.seen.stops)), "end", "ends"), units.Text(longest), strings.Join(all, ", "))
}

// ending is how a process ended, in words.
func ending(code int, signal string) string {
	if code < 0 {
		return "signal " + signal
	}
	return fmt.Sprintf("code %d", code)
}

// poison is about values that can't be read, and records without a value.
func (l *learned) poison() {
	l.unreadable()
	skipped, fell, all := 0, 0, l.nulls.marked(history.Tombstone)
	for _, r := range all {
		switch {
		case r.deadLetters > 0 || len(r.tries) > 0:
		case l.nulls.fellAt(r):
			fell++
		case l.nulls.finished(r):
			skipped++
		}
	}
	if l.nulls.haltsAtNull() && !l.unread.haltsAtUnreadable() {
		l.wonder("it halts at a record without a value, and what is behind it waits: %s", l.nulls.stopping())
	}
	if fell > 0 {
		l.wonder("%d of %d records without a value were committed, and nothing behind them was tried then: %s", fell,
			len(all), l.nulls.stopping())
	}
	if len(all) > 0 && skipped == len(all) && l.subject.Observe != scenarios.ObserveWire && !l.nulls.nullsUnnamed() {
		l.promise("skips", "["+scenarios.SkipTombstone+"]", "%d of %d records without a value were committed unprocessed.",
			skipped, skipped)
	}
}

// unreadable is about values that can't be read.
func (l *learned) unreadable() {
	deadLettered, skipped, tried, halted, fell, all := 0, 0, 0, 0, 0, l.unread.reached(history.Garbage)
	places := map[place]bool{}
	for _, r := range all {
		switch {
		case r.deadLetters > 0:
			deadLettered++
		case len(r.tries) > 0:
			tried++
		case l.unread.fellAt(r):
			fell++
		case l.unread.finished(r):
			skipped++
		case l.unread.halted(r):
			halted++
			places[r.at] = true
		}
	}
	switch n := len(all); {
	case n == 0:
	case deadLettered == n:
		l.promise("poison", string(history.PoisonDeadLetter), "%d of %d unreadable records were dead-lettered.", n, n)
	case skipped == n && l.unread.called():
		l.wonder("a call that is answered 404 ends a record that has no id, without a dead letter: %d of %d", n, n)
	case skipped > 0 && l.unread.unnamed():
		l.ask("poison", string(history.PoisonDeadLetter), "%d of %d unreadable records were committed. Whether they were "+
			"dead-lettered is not known: there are %s without an id, which may be about them.", skipped, n,
			l.unread.unnamedText())
	case skipped == n && l.subject.Observe == scenarios.ObserveWire:
		l.promise("poison", string(history.PoisonSkip), "%d of %d unreadable records were committed without a dead letter.",
			n, n)
		l.wonder("%d of %d records with an unreadable value were committed without a dead letter", n, n)
	case skipped == n:
		l.promise("poison", string(history.PoisonSkip), "%d of %d unreadable records were committed unprocessed.", n, n)
		l.wonder("it commits records that it can't read, without an attempt or a dead letter: %d of %d", n, n)
	case l.unread.haltsAtUnreadable():
		l.promise("poison", string(history.PoisonHalt), "In %d of %d partitions with an unreadable record that it was "+
			"handed, nothing was committed past that record, and %s.", len(places), len(places), l.unread.stopping())
		l.wonder("it halts at a record that it can't read, and what is behind it waits: in %s",
			units.Plural(int64(len(places)), "partition", "partitions"))
	default:
		l.ask("poison", string(history.PoisonDeadLetter),
			"Of %d unreadable records, %d were dead-lettered, %d called the downstream, %d were committed unprocessed, at %d "+
				"it halted, and %d were committed with nothing tried behind them then.", n, deadLettered, tried, skipped, halted,
			fell)
	}
}

// stopping tells how the consumer halted.
func (s *seen) stopping() string {
	switch ends := s.crashes; {
	case len(ends) > 0:
		return fmt.Sprintf("its processes ended by themselves (%s, with %s)",
			units.Plural(int64(len(ends)), "time", "times"), ending(ends[0].code, ends[0].text))
	case s.left > 0:
		return fmt.Sprintf("it left its group (%s)", units.Plural(int64(s.left), "time", "times"))
	}
	return "its processes stayed up, and in their group"
}
