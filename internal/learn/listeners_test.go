package learn

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"

	"github.com/dlqbench/dlqbench/history"
)

// A program with two listeners reads the retry topics of both.
func TestWhoseRetryTopicsTheyAre(t *testing.T) {
	t.Parallel()
	orders := run.JoinedGroup{Name: "shop", Topics: []string{"orders"}}
	refunds := run.JoinedGroup{Name: "shop-backoffice", Topics: []string{"refunds"}}
	retries := []string{"orders-retry", "refunds-retry"}
	reader := func(name string, topics ...string) run.JoinedGroup {
		return run.JoinedGroup{Name: name, Topics: topics}
	}
	for name, one := range map[string]struct {
		groups []run.JoinedGroup
		copies map[string]bool
		want   []string
	}{
		"one listener": {[]run.JoinedGroup{orders, reader("r", retries...)}, map[string]bool{"orders-retry": true}, nil},
		"each reads its own": {[]run.JoinedGroup{reader("shop", "orders", "orders-retry"),
			reader("shop-backoffice", "refunds", "refunds-retry")}, nil, retries[1:]},
		"groups named after the listeners": {[]run.JoinedGroup{orders, refunds, reader("shop-retry", "orders-retry"),
			reader("shop-backoffice-retry", "refunds-retry")}, nil, retries[1:]},
		"one group for all retries, before records": {[]run.JoinedGroup{orders, refunds, reader("again", retries...)}, nil, nil},
		"one group for all retries": {[]run.JoinedGroup{orders, refunds, reader("again", retries...)},
			map[string]bool{"orders-retry": true}, retries[1:]},
		"no record was retried": {[]run.JoinedGroup{orders, refunds, reader("again", retries...)}, map[string]bool{}, nil},
		"a level that no record reached": {[]run.JoinedGroup{reader("shop", "orders", "orders-retry", "refunds-retry"),
			refunds}, map[string]bool{"orders-retry": true}, nil},
		"a name like the other's, with copies": {[]run.JoinedGroup{orders, refunds,
			reader("shop-backoffice-retry", "orders-retry")}, map[string]bool{"orders-retry": true}, retries[1:]},
		"both read the same input, and get copies": {[]run.JoinedGroup{orders, reader("audit", "orders"),
			reader("shop-retry", "orders-retry"), reader("audit-retry", "refunds-retry")},
			map[string]bool{"orders-retry": true, "refunds-retry": true}, retries[1:]},
		"a pattern shows no topics": {[]run.JoinedGroup{{Name: "shop"}, {Name: "shop-backoffice"}}, nil, nil},
	} {
		if have := (listeners{of: "shop", groups: one.groups, copies: one.copies}).others(retries); !slices.Equal(have,
			one.want) {
			t.Errorf("%s: %v are of others, want %v", name, have, one.want)
		}
	}
}

// A record that comes to the input again was written by the consumer. Its headers are not those of the original.
func TestRecordsThatComeToTheInputAgain(t *testing.T) {
	t.Parallel()
	k := &look{Config: &Config{File: "subject.yaml"}, found: map[string]string{},
		text: []byte("name: it\nkind: process\ncommand: [it]\n")}
	k.subject = must.Get(scenarios.ParseSubject(k.File, k.text))(t)
	s, input := newSeen(), history.Topic{Name: "orders", Role: history.RoleInput}
	at := func(partition int32, second int64, header string) *kgo.Record {
		return &kgo.Record{Topic: "orders", Partition: partition, Timestamp: time.Unix(second, 0),
			Headers: []kgo.RecordHeader{{Key: header}}}
	}
	for range 2 { // a second audit finds the same
		s.audited(input, at(2, 1, "own"), history.Event{Record: 0})
	}
	must.Do(t, k.putBack(s))
	if have := k.subject.Contract.RetryTopics; len(have) > 0 {
		t.Errorf("retry topics %v without a retry", have)
	}
	s.audited(input, at(1, 5, "count"), history.Event{Record: 1})
	s.audited(input, at(3, 2, "own"), history.Event{Record: 1})
	must.Do(t, k.putBack(s))
	if c := k.subject.Contract; !slices.Equal(c.RetryTopics, []string{"{{.InputTopic}}"}) || c.Retry != "topics" {
		t.Errorf("retry topics %v, retry %q:\n%s", c.RetryTopics, c.Retry, k.text)
	}
	if names := s.headers(); len(names) != 1 || !names["own"] {
		t.Errorf("the originals have the headers %v", names)
	}
}

// lookAtShop is the first look at a consumer of the group shop.
func lookAtShop(t *testing.T) *look {
	k := &look{Config: &Config{File: "subject.yaml"}, found: map[string]string{},
		text: []byte("name: it\nkind: process\ncommand: [it]\ncontract: {group: shop}\n")}
	k.subject = must.Get(scenarios.ParseSubject(k.File, k.text))(t)
	return k
}

// What was guessed before records were sent is put right by their copies, and the other topics stay in the file. Without
// any copies, the guess stays.
func TestRetryTopicsByTheirCopies(t *testing.T) {
	t.Parallel()
	retries := []string{"orders-retry", "refunds-retry"}
	for copies, want := range [][]string{retries, retries[:1]} {
		k := lookAtShop(t)
		sight := run.Sighting{Groups: []run.JoinedGroup{{Name: "shop", Topics: []string{"orders"}},
			{Name: "backoffice", Topics: []string{"refunds"}}, {Name: "again", Topics: retries}}}
		header := history.Header{Topics: []history.Topic{{Name: "orders", Role: history.RoleInput}}}
		must.Do(t, k.putRetries(slices.Clone(retries), listeners{of: "shop", groups: sight.Groups}))
		s := newSeen()
		for _, topic := range retries {
			header.Topics = append(header.Topics, history.Topic{Name: topic, Role: history.RoleRetry})
		}
		s.record(0)
		for range copies {
			s.audited(header.Topics[1], nil, history.Event{Record: 0})
		}
		s.audited(header.Topics[2], nil, history.Event{Record: history.None})
		if again := must.Get(k.copied(s, sight, header))(t); again {
			t.Error("it is watched again, though both topics were known")
		}
		others := retries[len(want):]
		if have := k.subject.Contract.RetryTopics; !slices.Equal(have, want) || !slices.Equal(k.left, others) {
			t.Errorf("%d copies: retry topics %v, left %v:\n%s", copies, have, k.left, k.text)
		}
		if err := k.putOthers(nil); err != nil || !slices.Equal(k.subject.Topics, others) {
			t.Errorf("%d copies: %v, further topics %v", copies, err, k.subject.Topics)
		}
	}
}

// A consumer with a topic for each retry, which it reads by a pattern, is watched until no further one is written to.
func TestRetryTopicsThatContinueOthers(t *testing.T) {
	t.Parallel()
	k := lookAtShop(t)
	record := []run.OtherRecord{{Record: 3}}
	none := []run.OtherRecord{{Record: history.None}}
	header := history.Header{Topics: []history.Topic{{Name: "in", Role: history.RoleInput}}}
	name := func(n int) string { return fmt.Sprintf("in.retry.%d", n) }
	for n := range 4 {
		sight := run.Sighting{Read: []string{"in"}, Others: map[string][]run.OtherRecord{
			"in.dlt": record, "in.retry.9": none, "in.audit.7": record}}
		if n == 0 {
			sight.Read = append(sight.Read, name(1))
		}
		for i := len(header.Topics); n > 0 && i <= min(n+1, 4); i++ {
			header.Topics = append(header.Topics, history.Topic{Name: name(i), Role: history.RoleRetry})
		}
		// The retry topics of the other listener would be those without copies.
		sight.Groups = []run.JoinedGroup{{Name: "shop", Topics: sight.Read}, {Name: "other", Topics: []string{"out"}}}
		if n < 3 {
			sight.Others[name(n+2)] = record
		}
		seen := newSeen()
		for _, topic := range header.Topics[1:] {
			seen.record(0)
			seen.audited(topic, nil, history.Event{Record: 0})
		}
		again := must.Get(k.copied(seen, sight, header))(t)
		var want []string
		for i := range min(n+2, 4) {
			want = append(want, name(i+1))
		}
		if have := k.subject.Contract.RetryTopics; again != (n < 3) || !slices.Equal(have, want) {
			t.Errorf("look %d: again %v, retry topics %v, want %v", n, again, have, want)
		}
	}
	k.text = append(k.text, "# later\n"...)
	if again := must.Get(k.copied(newSeen(), run.Sighting{}, header))(t); again ||
		!bytes.HasSuffix(k.text, []byte("# later\n")) {
		t.Errorf("again %v; the file is one from before:\n%s", again, k.text)
	}
	further := run.Sighting{Read: []string{"in", name(5)}, Others: map[string][]run.OtherRecord{name(6): record}}
	if again := must.Get(k.copied(newSeen(), further, header))(t); again || len(k.subject.Contract.RetryTopics) != 4 {
		t.Errorf("again %v, though the file names the retry topics:\n%s", again, k.text)
	}
}

func TestNamesThatContinueOthers(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		retries, written, want string
	}{
		{"in.retry.1", "in.retry.2 in.retry.10", "in.retry.10 in.retry.2"},
		{"in.retry.1 in.retry.2", "in.retry.1 in.retry.2 in.retry.3", "in.retry.3"},
		{"in.retry.1", "in.retry in.retry.x out.retry.2", ""},
		{"in.retry", "in.dlt", ""}, // neither has a number
		{"retry-1-orders", "retry-2-orders retry-2-refunds", "retry-2-orders"},
		{"v2.retry.1", "v2.retry.3 v3.retry.1 v2.9.retry", "v2.retry.3"},
		{"retry1.s", "retry.2s", ""}, // the number stands elsewhere
	} {
		written := map[string][]run.OtherRecord{}
		for _, topic := range strings.Fields(one.written) {
			written[topic] = []run.OtherRecord{{Record: history.None}, {Record: 3}}
		}
		written["in.retry.7"] = []run.OtherRecord{{Record: history.None}}
		for range 10 { // the order does not depend on the map's
			if got := strings.Join(continued(strings.Fields(one.retries), written), " "); got != one.want {
				t.Errorf("%s is continued by %q, want %q", one.retries, got, one.want)
			}
		}
	}
}

// A consumer whose retry topics have a time in their names is not watched for ever.
func TestRetryTopicsWithoutEnd(t *testing.T) {
	t.Parallel()
	k := lookAtShop(t)
	header := history.Header{Topics: []history.Topic{{Name: "in", Role: history.RoleInput}}}
	sight := run.Sighting{Read: []string{"in", "in.retry.0"}}
	for n := range 2 * mostFurther {
		sight.Others = map[string][]run.OtherRecord{fmt.Sprintf("in.retry.%d", n+1): {{Record: 3}}}
		if again := must.Get(k.copied(newSeen(), sight, header))(t); again != (n < mostFurther) {
			t.Fatalf("look %d: again %v", n, again)
		}
		sight.Read = sight.Read[:1]
	}
}
