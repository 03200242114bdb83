package learn

// What a subject file does not say and a first look at the consumer shows: the names of its topics and its group, what
// it calls, and where the id of a record is in it.

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:embed look.yaml
var lookScenario []byte

// look is a first look at a consumer. What it finds is put into the text of the subject file.
type look struct {
	*Config
	report  *Report
	text    []byte
	subject *scenarios.SubjectFile
	// found is what each key was found from, by its path.
	found map[string]string
	// status is that of the answer to a call that succeeds, 0 for the usual one.
	status int
	// rewrites: what the file says of downstreams is replaced by what is seen.
	rewrites bool
	// placed: the place of the id is a guess of learning's own. guessed: it was guessed a second time.
	placed, guessed bool
	// left are topics that only other groups read: inputs, and retry topics of listeners beside the one of the contract.
	left []string
	// retries are the retry topics that were put into the file before copies of records were seen in any, and before is
	// the file without them.
	retries []string
	before  []byte
	// further counts the looks for retry topics that continue others.
	further int
	// mixed: a topic with records of both kinds holds results, because no answer that was tried changed that.
	mixed bool
}

// put adds a key to the file.
func (k *look) put(value, seen string, path ...string) error {
	return k.putAll(entry{path, value, seen})
}

// putAll adds keys that go together.
func (k *look) putAll(entries ...entry) (err error) {
	text := k.text
	for _, one := range entries {
		if text, err = put(text, one); err != nil {
			return err
		}
	}
	subject, err := scenarios.ParseSubject(k.File, text)
	if err != nil {
		return fmt.Errorf("writing down what was found: %w", err)
	}
	k.text, k.subject = text, subject
	for _, one := range entries {
		k.found[strings.Join(one.path, ".")] = one.seen
	}
	return nil
}

// says reports whether the file gives the consumer a value whose name matches, such as {{.GroupID}}. The contract names
// topics by that of the input, but gives the consumer nothing. Comments are left out: dlqbench init writes what it did
// not find into them.
func (k *look) says(name string) bool {
	given, _ := replace(k.text, "contract", "")
	return regexp.MustCompile(`(?m)^\s*(?:[^\s#].*)?\{\{[^}]*\.(?:` + name + `)\b`).Match(given)
}

// around finds out what the file does not say.
func (k *look) around(ctx context.Context) error {
	if !k.knowsInput() || !k.knowsGroup() {
		if err := k.names(ctx); err != nil {
			return err
		}
	}
	if k.rewrites = k.open(); k.knowsLetters() && !k.rewrites {
		return nil
	}
	return k.calls(ctx)
}

// knowsInput reports whether the file says what the consumer reads.
func (k *look) knowsInput() bool {
	input := k.subject.Input
	return input != nil && (input.Topic != "" || len(input.Topics) > 0) || k.says("InputTopics?")
}

// knowsGroup reports whether the file says as whom it reads.
func (k *look) knowsGroup() bool {
	return k.subject.Contract.Group != "{{.GroupID}}" || k.says("GroupID")
}

// knowsLetters reports whether the file says where dead letters go, or that there are none.
func (k *look) knowsLetters() bool {
	letters := k.subject.Contract.DLQ
	return !letters.Enabled || letters.Topic != "{{.DLQTopic}}" || k.says("DLQTopic")
}

// open reports whether the file leaves it to learn what is called: it was made for that, or says no more of any
// downstream than its kind, its name, whether it is reached by TLS, and the schema of a gRPC service.
func (k *look) open() bool {
	said := func(d scenarios.Downstream) bool {
		http, grpc, database := d.HTTP, d.GRPC, d.Postgres
		bare := http != nil && reflect.DeepEqual(*http, scenarios.HTTPDownstream{HTTP2: true, TLS: http.TLS}) ||
			grpc != nil && grpc.Schema != "" && reflect.DeepEqual(*grpc,
				scenarios.GRPCDownstream{Schema: grpc.Schema, Methods: grpc.Methods, TLS: grpc.TLS}) ||
			database != nil && reflect.DeepEqual(*database, scenarios.PostgresDownstream{})
		return !bare || d.Decides || d.Optional
	}
	return k.Made || len(k.subject.Downstreams) > 0 && !slices.ContainsFunc(k.subject.Downstreams, said)
}

// retryName matches the names of retry topics, deadName those of dead-letter topics.
var (
	retryName = regexp.MustCompile(`(?i)retry|retries`)
	deadName  = regexp.MustCompile(`(?i)dlq|dlt|dead|error|fail|reject|park|poison|invalid`)
)

// names starts the consumer, and finds out what it reads, and as whom.
func (k *look) names(ctx context.Context) error {
	options, err := k.options("look.yaml", lookScenario, least(k.subject))
	if err != nil {
		return err
	}
	options.Discovery = &run.Discovery{Likely: k.Topics}
	dir, err := k.Discover(ctx, options)
	if dir != "" {
		k.report.Runs = append(k.report.Runs, dir)
	}
	sight := options.Discovery.Seen()
	if len(sight.Read) == 0 && ctx.Err() == nil {
		return k.unread(sight.Groups, dir, err)
	}
	if err != nil {
		return err
	}
	source, err := history.Open(filepath.Join(dir, "history"))
	if err != nil {
		return err
	}
	header := source.Header()
	others := ""
	if !k.knowsInput() {
		sight, k.left, others = ofOneGroup(sight, header)
	}
	inputs, retries := sortedOut(sight.Read, header)
	if k.knowsInput() {
		inputs = nil
	}
	if err := errors.Join(k.putInputs(inputs, others), k.putGroup(header, sight)); err != nil {
		return err
	}
	return k.putRetries(retries, listeners{of: k.ownGroup(header), groups: sight.Groups})
}

// ownGroup is the name of the group that the contract is about.
func (k *look) ownGroup(header history.Header) string {
	if group := k.subject.Contract.Group; !strings.Contains(group, "{{") {
		return group
	}
	return header.Group()
}

// ofOneGroup leaves out the inputs that only other groups read: a contract is about one group, and on an input only
// what that one commits counts. With a group whose topics are not known, such as one with a pattern, all of them stay.
// left are those inputs, and others says so.
func ofOneGroup(sight run.Sighting, header history.Header) (of run.Sighting, left []string, others string) {
	inputs, _ := sortedOut(sight.Read, header)
	reads := func(g run.JoinedGroup) bool {
		return slices.ContainsFunc(g.Topics, func(topic string) bool { return slices.Contains(inputs, topic) })
	}
	groups := slices.Clone(sight.Groups)
	if groups = slices.DeleteFunc(groups, func(g run.JoinedGroup) bool { return !reads(g) }); len(groups) < 2 {
		return sight, nil, ""
	}
	one := shortest(groups)
	var said []string
	for _, g := range groups {
		for _, topic := range g.Topics {
			if slices.Contains(inputs, topic) && !slices.Contains(one.Topics, topic) && !slices.Contains(left, topic) {
				left, said = append(left, topic), append(said, fmt.Sprintf("%s with the group %s", topic, g.Name))
			}
		}
	}
	if len(left) == 0 {
		return sight, nil, ""
	}
	sight.Read = without(sight.Read, left)
	return sight, left, " It also reads " + strings.Join(said, ", ") +
		": a contract is about one group, so describe each in a file of its own."
}

// without returns the topics that are not among the others.
func without(topics, others []string) []string {
	return slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return slices.Contains(others, topic) })
}

// shortest is the group with the shortest name: names of groups for retries and dead letters are often made from it.
func shortest(groups []run.JoinedGroup) run.JoinedGroup {
	return slices.MinFunc(groups, func(a, b run.JoinedGroup) int { return cmp.Compare(len(a.Name), len(b.Name)) })
}

// unread is the error for a consumer that fetched from no topic. A run may have failed because it was not ready: one
// that reads topics by a pattern that matches none does not get further than its group.
func (k *look) unread(joined []run.JoinedGroup, dir string, failed error) error {
	advice := "is Kafka's address, {{.BootstrapServers}}, given to it under the name that it reads? If it has the " +
		"address in its code or settings, such as localhost:9092, name the port in " + k.File + ": listen: {kafka: 9092}."
	switch {
	case len(joined) > 0:
		advice = fmt.Sprintf("it joined the group %s. If it reads topics by a pattern, write input: {topic: NAME} into %s, "+
			"with a name that the pattern matches, and learn again.", joined[0].Name, k.File)
	case failed != nil:
		return failed
	}
	return fmt.Errorf("%w: the consumer fetched from no topic; %s Its log is in %s", ErrNothingSeen, advice,
		filepath.Join(dir, "logs"))
}

// sortedOut tells the inputs among the topics that it reads from the retry topics. Those that the run knows are left
// out, and so are those of dead letters, which some frameworks read only to log them. Whatever their names: one of them
// is an input.
func sortedOut(topics []string, header history.Header) (inputs, retries []string) {
	for _, topic := range topics {
		switch {
		case header.TopicIndex(topic) >= 0 || deadName.MatchString(topic):
		case retryName.MatchString(topic):
			retries = append(retries, topic)
		default:
			inputs = append(inputs, topic)
		}
	}
	known := func(topic string) bool {
		at := header.TopicIndex(topic)
		return at >= 0 && header.Topics[at].Role == history.RoleInput
	}
	if len(inputs) == 0 && !slices.ContainsFunc(topics, known) {
		return retries, nil
	}
	return inputs, retries
}

// general puts templates into the names of topics that are made from those of the run. Names that are the same in each
// run stay.
func general(sight run.Sighting, header history.Header) run.Sighting {
	names := strings.NewReplacer(header.Topics[0].Name, "{{.InputTopic}}", header.RunID, "{{.RunID}}")
	name := func(topic string) string {
		if header.TopicIndex(topic) >= 0 || !strings.Contains(topic, header.RunID) {
			return topic
		}
		return names.Replace(topic)
	}
	others := map[string][]run.OtherRecord{}
	for topic, records := range sight.Others {
		others[name(topic)] = records
	}
	sight.Others = others
	for i := range sight.Read {
		sight.Read[i] = name(sight.Read[i])
	}
	for i := range sight.Groups {
		topics := slices.Clone(sight.Groups[i].Topics)
		for j := range topics {
			topics[j] = name(topics[j])
		}
		sight.Groups[i].Topics = topics
	}
	return sight
}

// putInputs writes what it reads. others says which inputs are left out.
func (k *look) putInputs(inputs []string, others string) error {
	switch len(inputs) {
	case 0:
		return nil
	case 1:
		return k.put(quoted(inputs[0]), "It fetches from it."+others, "input", "topic")
	}
	return k.put(list(inputs), "It fetches from them."+others, "input", "topics")
}

// putRetries writes the retry topics, without those of other listeners.
func (k *look) putRetries(retries []string, all listeners) error {
	if len(k.subject.Contract.RetryTopics) > 0 {
		return nil
	}
	theirs := all.others(retries)
	k.left = append(k.left, theirs...)
	if retries = without(retries, theirs); len(retries) == 0 {
		return nil
	}
	if all.copies == nil {
		k.retries, k.before = retries, k.text
	}
	slices.SortStableFunc(retries, func(a, b string) int { return cmp.Compare(lastNumber(a), lastNumber(b)) })
	return k.putAll(
		entry{[]string{"contract", "retry_topics"}, list(retries),
			"It fetches from them. The order is a guess by their names."},
		entry{[]string{"contract", "retry"}, string(history.RetryTopics), "A guess by the names of what it reads."})
}

// putBack writes that the input is a retry topic, if records came there again.
func (k *look) putBack(s *seen) error {
	if s.again == 0 || len(k.subject.Contract.RetryTopics) > 0 {
		return nil
	}
	return k.putAll(
		entry{[]string{"contract", "retry_topics"}, list([]string{"{{.InputTopic}}"}), "It writes records there again."},
		entry{[]string{"contract", "retry"}, string(history.RetryTopics), "It writes records to the input again."})
}

// list is a list of texts as YAML has it.
func list(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, quoted(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

var digits = regexp.MustCompile(`\d+`)

// lastNumber is the last number in a name, 0 if it has none.
func lastNumber(name string) int {
	all := digits.FindAllString(name, -1)
	if len(all) == 0 {
		return 0
	}
	number, _ := strconv.Atoi(all[len(all)-1]) // one that is too long sorts last
	return number
}

// putGroup writes the group that reads the input. Frameworks read retry topics and dead letters with groups of their
// own, which a contract need not name.
func (k *look) putGroup(header history.Header, sight run.Sighting) error {
	groups := slices.Clone(sight.Groups)
	groups = slices.DeleteFunc(groups, func(g run.JoinedGroup) bool { return g.Name == header.Group() })
	if len(groups) == 0 || k.knowsGroup() {
		return nil
	}
	inputs, _ := sortedOut(sight.Read, header)
	readsInput := func(g run.JoinedGroup) bool {
		return slices.ContainsFunc(g.Topics, func(topic string) bool {
			at := header.TopicIndex(topic)
			return slices.Contains(inputs, topic) || at >= 0 && header.Topics[at].Role == history.RoleInput
		})
	}
	if slices.ContainsFunc(groups, readsInput) { // what they read is not known with a pattern
		groups = slices.DeleteFunc(groups, func(g run.JoinedGroup) bool { return !readsInput(g) })
	}
	one := shortest(groups)
	seen := "It joins this group."
	if len(groups) < len(sight.Groups) {
		seen = "It reads the input with this group."
	}
	if len(groups) > 1 {
		seen = fmt.Sprintf("It joins %d groups; that this one reads the input is a guess by the length of its name.",
			len(groups))
	}
	if one.Share {
		if err := k.put("share", "It joins a share group.", "contract", "group_type"); err != nil {
			return err
		}
	}
	return k.put(quoted(one.Name), seen, "contract", "group")
}

// calls gives the consumer a few records, and finds out what it calls and where it writes.
func (k *look) calls(ctx context.Context) error {
	s := newSeen()
	s.discovery.Answer, s.discovery.Likely = fixedAnswer, k.Topics
	source, _, err := k.run(ctx, k.report, "look.yaml", lookScenario, least(k.subject), s)
	if err != nil {
		return err
	}
	if err := s.read(source); err != nil {
		return fmt.Errorf("reading the history of %s: %w", k.report.Runs[len(k.report.Runs)-1], err)
	}
	sight := general(s.discovery.Seen(), source.Header())
	sight.Read = without(sight.Read, k.left)
	again, err := k.copied(s, sight, source.Header())
	if err := errors.Join(k.idle(s, sight), err, k.putBack(s)); err != nil {
		return err
	}
	if !again {
		again, err = k.guessAgain(sight.Calls)
	}
	switch {
	case err != nil:
		return err
	case again:
		return k.calls(ctx)
	}
	wrote := s.destinations(sight, !k.rewrites || k.mixed || k.knowsLetters())
	if err := k.readable(s, wrote, sight); err != nil {
		return err
	}
	if err := k.accepted(s, wrote, sight); err != nil {
		return k.otherwise(ctx, s, sight, &wrote, err)
	}
	if len(wrote.letters) > 0 && len(s.deadLetters) == 0 && !k.knowsLetters() {
		if err := k.putLetters(wrote); err != nil {
			return err
		}
	}
	called, err := k.readableCalls(ctx, s, trafficOf(sight.Calls))
	if err != nil {
		return err
	}
	if err := k.putDownstreams(s, called, &wrote); err != nil {
		return err
	}
	if topic := s.hasEffects(sight, wrote.results); topic != "" && k.subject.Contract.Effects == nil {
		wrote.results = without(wrote.results, []string{topic})
		if err := k.put("{topic: "+quoted(topic)+"}", "In the first look, each record that succeeded had its record there.",
			"contract", "effects"); err != nil {
			return err
		}
	}
	k.read(sight, source.Header())
	return cmp.Or(k.putOthers(wrote.results), k.unstored(s))
}

// readableCalls returns the calls, without those that are about records which can't be read. Such a call may name a
// part of its record instead of an id. What tells it from the others is that it is not made without such records, so if
// a route may be about one, the consumer is looked at once more.
func (k *look) readableCalls(ctx context.Context, s *seen, called map[string]*traffic) (map[string]*traffic, error) {
	from, sent := s.firstUnreadable()
	doubtful := func(t *traffic) bool { return t.doubtful(from) }
	if !k.rewrites || !sent || !slices.ContainsFunc(slices.Collect(maps.Values(called)), doubtful) {
		return called, nil
	}
	again := newSeen()
	again.discovery.Answer = fixedAnswer
	if _, _, err := k.run(ctx, k.report, "look.yaml", lookScenario, least(k.subject), again, readable()...); err != nil {
		return nil, err
	}
	clean := trafficOf(again.discovery.Seen().Calls)
	for name, one := range called {
		one.others = nil
		if calls := clean[name]; calls != nil {
			one.others = calls.others
		}
	}
	return called, nil
}

// leastEffects is how many records show that each one that succeeds has its record in a topic.
const leastEffects = 5

// hasEffects returns the first topic of results that has one for each record whose attempt succeeded and that was
// committed; "" if none has.
func (s *seen) hasEffects(sight run.Sighting, results []string) string {
	for _, topic := range results {
		has := map[int32]bool{}
		for _, one := range sight.Others[topic] {
			has[one.Record] = true
		}
		due, all := 0, true
		for i := range s.records {
			if r := &s.records[i]; s.succeeds(int32(i)) && len(r.tries) > 0 && s.finished(r) {
				due, all = due+1, all && has[int32(i)]
			}
		}
		if all && due >= leastEffects {
			return topic
		}
	}
	return ""
}

// read notes the topics that are read beside those that the file names.
func (k *look) read(sight run.Sighting, header history.Header) {
	contract := k.subject.Contract
	known := slices.Concat(k.left, contract.RetryTopics, []string{contract.DLQ.Topic})
	for _, topic := range without(sight.Read, known) {
		if header.TopicIndex(topic) < 0 {
			k.left = append(k.left, topic)
		}
	}
}

// putOthers writes the topics that are not judged: those with results, and others that are read.
func (k *look) putOthers(results []string) error {
	var seen []string
	if len(results) > 0 {
		seen = append(seen, "It writes to "+strings.Join(results, ", ")+" about records that succeeded.")
	}
	if len(k.left) > 0 {
		seen = append(seen, "It reads "+strings.Join(k.left, ", ")+", too: nothing is sent there.")
	}
	if len(seen) == 0 || len(k.subject.Topics) > 0 {
		return nil
	}
	return k.put(list(slices.Concat(results, k.left)), strings.Join(seen, " "), "topics")
}

// idle reports an ErrNothingSeen if the consumer read records and did nothing else. Some clients commit where they
// begin, so a commit counts if it is past a record.
func (k *look) idle(s *seen, sight run.Sighting) error {
	past := s.shared && s.commits > 0
	for i := range s.records {
		past = past || s.finished(&s.records[i])
	}
	if past || len(sight.Calls) > 0 || len(sight.Others) > 0 || len(s.deadLetters) > 0 {
		return nil
	}
	return s.nothing(k.subject)
}

// guessAgain puts the id at another place, if no call has an id and most of what the samples have there is in calls.
func (k *look) guessAgain(calls []run.DownstreamCall) (again bool, err error) {
	input := k.subject.Input
	if !k.placed || k.guessed || input == nil || input.Samples == "" || len(calls) == 0 ||
		slices.ContainsFunc(calls, func(c run.DownstreamCall) bool { return c.Record != history.None }) {
		return false, nil
	}
	k.guessed = true
	file, err := os.Open(filepath.Join(filepath.Dir(k.File), input.Samples))
	if err != nil {
		return false, fmt.Errorf("reading the samples again: %w", err)
	}
	guess, err := samples.GuessOf(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, err
	}
	for _, one := range guess.IDs {
		if one.At == input.ID.At || !named(calls, one.Texts) {
			continue
		}
		k.text = bytes.Replace(k.text, []byte(strconv.Quote(input.ID.At)), []byte(strconv.Quote(one.At)), 1)
		k.subject, err = scenarios.ParseSubject(k.File, k.text)
		return err == nil, err
	}
	return false, nil
}

// named reports whether most of the texts are in calls.
func named(calls []run.DownstreamCall, texts []string) bool {
	found := 0
	for _, text := range texts {
		if slices.ContainsFunc(calls, func(c run.DownstreamCall) bool { return strings.Contains(c.Text, text) }) {
			found++
		}
	}
	return 2*found > len(texts)
}

// destinations are the topics that the consumer writes to and that the file does not name.
type destinations struct {
	// letters get records that fail, results those that succeed.
	letters, results []string
	// about counts the records in each topic.
	about map[string]int
	// events are topics with several records about most of those that are named there.
	events map[string]bool
	// deadLettered are the records that are in a topic of the letters, or in the dead-letter topic that the file names.
	deadLettered map[int32]bool
	// doubtful: the letters are topics with records of both kinds, which may be results.
	doubtful bool
}

// destinations tells the topics with dead letters from those with results. Some consumers take a record that can't be
// read for one like the others, and have results of it: without any record that failed, a topic holds results. A topic
// with records of both kinds may have the dead letters of a consumer that also refused the answers to calls that
// succeeded. If no other topic has dead letters, it counts for that, unless mixed says that it has results, or no
// attempt was answered.
func (s *seen) destinations(sight run.Sighting, mixed bool) destinations {
	w := destinations{about: map[string]int{}, events: map[string]bool{}, deadLettered: map[int32]bool{}}
	for _, one := range s.deadLetters {
		w.deadLettered[one.record] = true
	}
	var both []string // topics with records of both kinds
	for _, topic := range slices.Sorted(maps.Keys(sight.Others)) {
		w.events[topic] = tellsOfEvents(sight.Others[topic])
		failed, unreadable, succeeded := 0, 0, 0
		for _, one := range sight.Others[topic] {
			switch {
			case one.Record == history.None || s.record(one.Record).flags&(history.Garbage|history.Tombstone) != 0:
				unreadable++
			case s.succeeds(one.Record):
				succeeded++
			default:
				failed++
			}
		}
		switch w.about[topic] = failed + unreadable + succeeded; {
		case w.about[topic] == 0 || slices.Contains(sight.Read, topic) && !deadName.MatchString(topic):
		case failed == 0 && unreadable == 0, failed == 0 && succeeded > 0 && !deadName.MatchString(topic):
			w.results = append(w.results, topic)
		case succeeded == 0 || deadName.MatchString(topic):
			w.letters = append(w.letters, topic)
		default:
			both = append(both, topic)
		}
	}
	attempted := slices.ContainsFunc(s.records, func(r record) bool { return len(r.tries) > 0 })
	if w.doubtful = len(w.letters) == 0 && len(both) > 0 && attempted && !mixed; w.doubtful {
		w.letters = both
	} else {
		w.results = append(w.results, both...)
	}
	for _, topic := range w.letters {
		for _, one := range sight.Others[topic] {
			w.deadLettered[one.Record] = true
		}
	}
	return w
}

// tellsOfEvents reports whether most records that these are about have several of them. One that is delivered again has
// two.
func tellsOfEvents(written []run.OtherRecord) bool {
	count, several := map[int32]int{}, 0
	for _, one := range written {
		if one.Record == history.None {
			continue
		}
		if count[one.Record]++; count[one.Record] == 2 {
			several++
		}
	}
	return 2*several > len(count)
}

// attempts takes the first topic of results out of the others whose writes may be attempts: in one with several events
// for each record, such as queued, tried and sent, no write decides about the record.
func (w *destinations) attempts() (topic string, found bool) {
	at := slices.IndexFunc(w.results, func(name string) bool { return !w.events[name] })
	if at < 0 {
		return "", false
	}
	topic, w.results = w.results[at], slices.Delete(slices.Clone(w.results), at, at+1)
	return topic, true
}

// succeeds reports whether the record is one that can be read and whose attempts are to succeed.
func (s *seen) succeeds(number int32) bool {
	r := s.record(number)
	return r.planned == history.OutcomeSuccess && r.flags&(history.Garbage|history.Tombstone) == 0
}

func (k *look) putLetters(w destinations) error {
	letters := slices.MaxFunc(w.letters, func(a, b string) int { return cmp.Compare(w.about[a], w.about[b]) })
	seen := fmt.Sprintf("It wrote %s there, most of them about records that failed.",
		units.Plural(int64(w.about[letters]), "record", "records"))
	if len(w.letters) > 1 {
		others := slices.DeleteFunc(slices.Clone(w.letters), func(name string) bool { return name == letters })
		seen += fmt.Sprintf(" Fewer went to %s.", strings.Join(others, ", "))
	}
	return k.put(quoted(letters), seen, "contract", "dlq", "topic")
}

// success is how a downstream answers calls that succeed, as subject.yaml has it; "" for as usual.
func (k *look) success(of scenarios.Downstream) string {
	var parts []string
	if k.status != 0 && of.HTTP != nil {
		parts = append(parts, fmt.Sprintf("status: %d", k.status))
	}
	if k.Answer != "" {
		parts = append(parts, "body: "+"'"+strings.ReplaceAll(k.Answer, "'", "''")+"'")
	}
	return strings.Join(parts, ", ")
}

// callsSeen is the comment of downstreams.
const callsSeen = "What it calls. The first decides what becomes of a record. Of several, that is a guess."

// putDownstreams writes down what it calls, the downstream that probably decides first. If it calls nothing with an id
// of a record, and writes results, these are its attempts.
func (k *look) putDownstreams(s *seen, called map[string]*traffic, w *destinations) error {
	if !k.rewrites {
		return nil
	}
	var deciding, rest []string
	silent := true
	for _, one := range k.subject.Downstreams {
		name := ""
		if one.Name != "" {
			name = "name: " + one.Name + "\n    "
		}
		calls := called[one.Called()]
		switch {
		case one.HTTP == nil && (one.GRPC == nil || one.GRPC.Schema == ""):
			rest = append(rest, "\n  - "+name+s.plain(one))
			silent = silent && one.Postgres == nil
		case calls == nil && one.Name == "": // nothing showed that there is one
		case calls == nil:
			rest = append(rest, "\n  - "+name+(&traffic{}).text("      ", one, k.success(one), s.succeeds)+" # no call was seen")
		case len(calls.rpc) > 0:
			return fmt.Errorf("%w: it calls gRPC methods (%s). Name their .proto file in %s (downstreams: "+
				"[{grpc: {schema: …}}]), and learn again", ErrNothingSeen, strings.Join(calls.rpc, ", "), k.File)
		case len(calls.about) > 0:
			deciding, silent = append(deciding, "\n  - "+name+calls.text("      ", one, k.success(one), s.succeeds)), false
		default:
			rest = append(rest, "\n  - "+name+calls.text("      ", one, k.success(one), s.succeeds))
		}
	}
	topic, found := "", false
	if silent {
		topic, found = w.attempts()
	}
	switch {
	case !silent:
	case found:
		rest = slices.Insert(rest, 0, "\n  - kafka: {topic: "+quoted(topic)+"}")
	case s.commits > 0:
		k.text, _ = replace(k.text, "downstreams", "")
		return k.put(scenarios.ObserveWire, "It commits records, and calls nothing with the id of one. So what needs "+
			"attempts is not judged.", "observe")
	}
	k.text, _ = replace(k.text, "downstreams", "")
	k.text = bytes.Replace(k.text, []byte("# "+callsSeen+"\n"), nil, 1) // of the calls that were seen before
	return k.put(cmp.Or(strings.Join(slices.Concat(deciding, rest), ""), "[{http: {}}]"), callsSeen, "downstreams")
}

// ErrAnswer is the error for a consumer that does not take the usual answer to a call for a success.
var ErrAnswer = errors.New("the consumer treats a success as a failure")

// otherwise tries the next answer to calls that succeed. refused is the error of this one.
func (k *look) otherwise(ctx context.Context, s *seen, sight run.Sighting, w *destinations, refused error) error {
	others := []int{0, http.StatusCreated, http.StatusNoContent}
	at := slices.Index(others, k.status) + 1
	byStatus := slices.ContainsFunc(k.subject.Downstreams, func(d scenarios.Downstream) bool { return d.HTTP != nil })
	switch {
	case !k.rewrites || at == 0 || k.mixed || !byStatus && !w.doubtful:
		return refused
	case !byStatus:
		k.mixed = true
	case at < len(others):
		k.status = others[at]
	default:
		k.status, k.mixed = 0, w.doubtful
	}
	if err := k.putDownstreams(s, trafficOf(sight.Calls), w); err != nil || at == len(others) && !k.mixed {
		return cmp.Or(err, refused)
	}
	return k.calls(ctx)
}

// leastRefused is how many records show that an answer is refused.
const leastRefused = 3

// ErrRecords is the error for a consumer that can't use the records that it was given.
var ErrRecords = errors.New("the consumer refuses its records")

// readable reports an ErrRecords if most records that should succeed were dead-lettered without a call about them.
func (k *look) readable(s *seen, w destinations, sight run.Sighting) error {
	good, refused := 0, 0
	for i := range s.records {
		if !s.succeeds(int32(i)) || s.records[i].offset < 0 {
			continue
		}
		if good++; len(s.records[i].tries) == 0 && w.deadLettered[int32(i)] {
			refused++
		}
	}
	if refused < leastRefused || float64(refused) < most*float64(good) {
		return nil
	}
	return fmt.Errorf("%w: of %d that should succeed, %d were dead-lettered without a call.%s Give it records as it "+
		"takes them (--samples, or input.samples in %s), the answers that it expects (--answer, or downstreams) and what "+
		"it needs, such as tables in its database (needs), and learn again%s", ErrRecords, good, refused,
		k.because(s, w, sight), k.File, unschooled(k.subject, s.said))
}

// unschooled says that a consumer may take records with a schema, if it is given the address of a registry and its
// records have none, or that its keys may have one, if the log misses the framing of one.
func unschooled(subject *scenarios.SubjectFile, said []string) string {
	if input := subject.Input; input != nil && input.Format != "" && input.Format != "json" {
		if input.Key == nil && slices.ContainsFunc(said, func(line string) bool {
			return strings.Contains(strings.ToLower(line), "magic byte")
		}) {
			return ". Keys with a schema begin with a magic byte, too: if its keys have one, name that (input.lines: envelope " +
				"and input.key)"
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(subject.Env)) {
		if strings.Contains(subject.Env[name], ".SchemaRegistryURL") {
			return fmt.Sprintf(". It reads the address of a schema registry (%s): if its records have a schema, name that "+
				"(--format and --schema, or input.format and input.schema)", name)
		}
	}
	return ""
}

// accepted reports an ErrAnswer if the consumer treated most records as failed whose calls had succeeded.
func (k *look) accepted(s *seen, w destinations, sight run.Sighting) error {
	answered, refused := 0, 0
	for i := range s.records {
		r := &s.records[i]
		at := slices.IndexFunc(r.tries, func(t try) bool { return t.outcome == history.OutcomeSuccess })
		if at < 0 || !s.succeeds(int32(i)) {
			continue
		}
		if answered++; w.deadLettered[int32(i)] || len(r.tries) > at+1 && !k.several(sight) ||
			len(s.crashes) > 0 && !s.finished(r) {
			refused++
		}
	}
	if refused == 0 || refused < leastRefused && len(s.crashes) == 0 || float64(refused) < most*float64(answered) {
		return nil
	}
	advice := fmt.Sprintf("Say what it expects, with --answer or in %s (answers: {success: {body: …}}), and learn again",
		k.File)
	if !k.answers() {
		advice = fmt.Sprintf("If it writes several statements with a record's id, each in a transaction of its own, say "+
			"in %s which one decides (downstreams: [{postgres: {statements: …}}], a regular expression, or parameters: …, "+
			"if only those differ), and learn again", k.File)
	}
	return fmt.Errorf("%w: of %d records whose call was answered with success, %d were dead-lettered or called for "+
		"again, or it ended by itself.%s %s", ErrAnswer, answered, refused, k.because(s, w, sight), advice)
}

// answers reports whether the downstream that decides answers with what subject.yaml says: a database does not.
func (k *look) answers() bool {
	all := k.subject.Downstreams
	at := max(slices.IndexFunc(all, func(d scenarios.Downstream) bool { return d.Decides }), 0)
	return len(all) == 0 || all[at].Postgres == nil
}

// because is what a dead letter of a record that succeeded, or the log, says of the failure.
func (k *look) because(s *seen, w destinations, sight run.Sighting) string {
	letters := slices.Clone(s.deadLetters)
	for _, topic := range w.letters {
		for _, one := range sight.Others[topic] {
			letters = append(letters, deadLetter{one.Record, one.Found})
		}
	}
	for _, one := range letters {
		if one.record != history.None && s.succeeds(one.record) && reasonOf(one.found) != "" {
			return fmt.Sprintf(" A dead letter says %q.", reasonOf(one.found))
		}
	}
	for _, line := range s.said {
		if !strings.HasPrefix(line, "Traceback ") { // Python's heading of what follows
			return fmt.Sprintf(" Its log says %q.", line)
		}
	}
	return ""
}

// several reports whether a record gets several different calls.
func (k *look) several(sight run.Sighting) bool {
	for _, one := range trafficOf(sight.Calls) {
		if len(one.patterns()) > 1 {
			return true
		}
	}
	return false
}

// reasonHeader matches the names of headers and members that say why a record was dead-lettered.
var reasonHeader = regexp.MustCompile(`(?i)reason|cause|message|error|exception`)

// reasonShown bounds the reason that is shown, in bytes.
const reasonShown = 160

// reasonOf is why a record was dead-lettered, as a header of its dead letter or a member of its value says, "" if none
// does.
func reasonOf(letter *kgo.Record) string {
	for _, header := range letter.Headers {
		if reasonHeader.MatchString(header.Key) && len(header.Value) > 0 && utf8.Valid(header.Value) {
			return string(header.Value[:min(len(header.Value), reasonShown)])
		}
	}
	members := map[string]any{}
	_ = json.Unmarshal(letter.Value, &members) // without members, if it is no JSON object
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if text, is := members[name].(string); is && text != "" && reasonHeader.MatchString(name) {
			return text[:min(len(text), reasonShown)]
		}
	}
	return ""
}
