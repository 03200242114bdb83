package learn

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// stated has a record for each list of statements; those with an even number are to succeed.
func stated(lists ...[]string) *seen {
	s := newSeen()
	for i, list := range lists {
		r := s.record(int32(i))
		r.offset, r.planned = int64(i), history.OutcomeSuccess
		if i%2 == 1 {
			r.planned = history.OutcomePermanent
		}
		for _, text := range list {
			r.tries = append(r.tries, try{text: text})
		}
	}
	return s
}

// A service that writes failed records to a table of the same database makes no second attempt with that.
func TestNotesOfFailuresAreNoAttempts(t *testing.T) {
	t.Parallel()
	const order, update = "INSERT INTO shop.orders (id, total) VALUES ($1, $2)", "update orders set state = $1 where id = $2"
	const letter = "INSERT INTO shop.dead_letters (id) VALUES ($1)"
	for name, one := range map[string]struct {
		lists         [][]string
		attempt, note string
	}{
		"a note":                 {[][]string{{order}, {order, letter}}, `INSERT\s+INTO\s+shop\.orders\b`, "INSERT INTO shop.dead_letters"},
		"after retries":          {[][]string{{update}, {update, update, letter}}, `update\s+orders\b`, "INSERT INTO shop.dead_letters"},
		"none":                   {[][]string{{order}, {order, order}}, "", ""},
		"one of successes, too":  {[][]string{{order, letter}, {order, letter}}, "", ""},
		"before the attempt":     {[][]string{{order}, {letter, order}}, "", ""},
		"no attempt succeeds":    {[][]string{nil, {order, letter}}, "", ""},
		"what can't be told":     {[][]string{{"select f($1)"}, {"select f($1)", letter}}, "", ""},
		"two kinds that succeed": {[][]string{{order}, {order, letter}, {update}}, "", ""},
	} {
		attempt, notes := stated(one.lists...).statements()
		if attempt != one.attempt || strings.Join(notes, ", ") != one.note {
			t.Errorf("%s: attempts are %q, notes %q", name, attempt, notes)
		}
	}
	text := "name: it\nkind: process\ncommand: [it]\ndownstreams: [{postgres: {}}]\n"
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte(text)))(t)
	k := &look{Config: &Config{File: "subject.yaml"}, text: []byte(text), subject: subject, rewrites: true,
		found: map[string]string{}}
	must.Do(t, k.putDownstreams(stated([]string{order}, []string{order, letter}), nil, &destinations{}))
	if got := k.subject.Postgres().Statements; got != `INSERT\s+INTO\s+shop\.orders\b` {
		t.Errorf("statements are %q\n%s", got, k.text)
	}
}

// A topic that is read beside the inputs must be there in the next run, too.
func TestFurtherTopicsThatAreRead(t *testing.T) {
	t.Parallel()
	text := "name: it\nkind: process\ncommand: [it]\ninput: {topic: ledger}\n" +
		"contract: {retry_topics: [ledger-retry], retry: topics, dlq: {topic: ledger.dlq}}\n"
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte(text)))(t)
	k := &look{Config: &Config{File: "subject.yaml"}, text: []byte(text), subject: subject, found: map[string]string{}}
	header := history.Header{Topics: []history.Topic{{Name: "ledger", Role: history.RoleInput}}}
	sight := run.Sighting{Read: []string{"ledger", "orders", "ledger-retry", "ledger.dlq"}}
	k.read(sight, header)
	if err := k.putOthers([]string{"results"}); err != nil || !slices.Equal(k.subject.Topics, []string{"results", "orders"}) {
		t.Errorf("%v: further topics are %v\n%s", err, k.subject.Topics, k.text)
	}
}

// What a database did not see in the first look, it does not see in the next run either.
func TestADatabaseThatSawNothing(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ downstreams, want string }{
		{"[{postgres: {}}]", "the database saw no transaction"}, {"[{http: {}}, {postgres: {}}]", ""},
	} {
		text := "name: it\nkind: process\ncommand: [it]\ndownstreams: " + one.downstreams + "\n"
		subject, err := scenarios.ParseSubject("subject.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		k := &look{Config: &Config{File: "subject.yaml"}, subject: subject}
		s := stated(nil, nil)
		s.header.Consumers, s.commits = []history.Consumer{{Group: "g"}}, 2
		err = k.unstored(s)
		if (err != nil) != (one.want != "") || err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", one.downstreams, err)
		}
		s = stated([]string{"insert"})
		s.header.Consumers, s.commits, s.batch = []history.Consumer{{Group: "g"}}, 1, "INSERT INTO pairs"
		err = k.unstored(s)
		if (err != nil) != (one.want != "") || err != nil && !strings.Contains(err.Error(), "share a value") {
			t.Errorf("%s, several records at once: %v", one.downstreams, err)
		}
	}
}

// Records that are given up may be in a table whose rows are no attempts.
func TestWhatIsGivenUpMayBeInATable(t *testing.T) {
	t.Parallel()
	for downstream, want := range map[string]string{
		"postgres: {}": "and are lost", "postgres: {statements: orders}": "and are lost unless another table has them",
	} {
		subject := must.Get(scenarios.ParseSubject("subject.yaml",
			[]byte("name: it\nkind: process\ncommand: [it]\ndownstreams: [{"+downstream+"}]\n")))(t)
		s := stated(nil, []string{"insert"})
		s.records[1].tries[0].outcome, s.records[1].tries[0].end = history.OutcomePermanent, 1
		s.committed[place{}] = 2
		l := &learned{watching: only(s), subject: subject}
		if l.classes(); len(l.odd) != 1 || !strings.HasSuffix(l.odd[0], want) {
			t.Errorf("%s: %q, want %q", downstream, l.odd, want)
		}
	}
}
