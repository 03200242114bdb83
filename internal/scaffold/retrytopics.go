package scaffold

// Spring's @RetryableTopic: what the annotation says as a literal becomes the contract. Names of topics are formed as
// spring-kafka's DestinationTopicPropertiesFactory forms them.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Retries are what an annotation @RetryableTopic promises; what it does not show is zero.
type Retries struct {
	// Found: there is such an annotation, In this file.
	Found bool
	In    string
	// Topics are what the retry topics' names have behind the input topic's; none if they are not known, Why says why.
	Topics []string
	Why    string
	// None: one attempt is all there is.
	None     bool
	Attempts int
	// Backoff is the mapping of the contract, without braces. It is proposed, not promised.
	Backoff string
	// suffix is the one of the dead-letter topic; "" if there is none.
	suffix string
}

// RetryTopics are the retry topics as the contract names them.
func (f Retries) RetryTopics() []string {
	var names []string
	for _, suffix := range f.Topics {
		names = append(names, "{{.InputTopic}}"+suffix)
	}
	return names
}

// annotation is the list of an annotation's arguments, by name; "value" is the one without a name.
type annotation map[string]string

var (
	retryableTopic = regexp.MustCompile(`@(?:[a-z][\w.]*\.)?RetryableTopic\b`)
	inComment      = regexp.MustCompile(`//|^\s*/?\*`)
	// customised matches what changes the topics and attempts of all annotations.
	customised   = regexp.MustCompile(`RetryTopicNamesProvider|extends RetryTopicConfigurationSupport|[bB]lockingRetries`)
	ownGroup     = regexp.MustCompile(`@KafkaListener\s*\([^)]*\b(?:groupId|id)\s*=`)
	plainSuffix  = regexp.MustCompile(`^"([A-Za-z0-9._-]+)"$`)
	argumentName = regexp.MustCompile(`(?s)^\s*(\w+)\s*=([^=].*)$`)
)

// retries finds the annotation. Several that differ leave everything open, and so does code that customises them all.
func (r repository) retries(sources []source, file string) (found Retries, notes []string) {
	var all []annotation
	custom, group := "", ""
	for _, one := range sources {
		if customised.MatchString(one.text) {
			custom = one.path
		}
		for _, at := range retryableTopic.FindAllStringIndex(one.text, -1) {
			line := one.text[strings.LastIndex(one.text[:at[0]], "\n")+1 : at[0]]
			if inComment.MatchString(line) {
				continue
			}
			if len(all) == 0 {
				found.In = one.path
			}
			all = append(all, arguments(one.text[at[1]:]))
			if ownGroup.MatchString(one.text) {
				group = one.path
			}
		}
	}
	if len(all) == 0 {
		return Retries{}, nil
	}
	found.Found, found.suffix = true, "-dlt"
	switch {
	case slices.ContainsFunc(all, func(a annotation) bool { return !maps.Equal(a, all[0]) }):
		found.Why = "several annotations differ"
	case custom != "":
		found.Why = custom + " configures all retry topics"
	case all[0]["unreadable"] != "":
		found.Why = "the annotation has no end"
	default:
		found.read(all[0], springKafka(r.buildText(file)))
		if all[0]["exceptionBasedDltRouting"] != "" {
			notes = append(notes, "dead letters of some exceptions go to topics of their own; dlqbench reads one")
		}
	}
	if group != "" {
		notes = append(notes, group+" names a group or id in @KafkaListener, so the retry topics have groups of their own, "+
			"whose commits are not judged, and contract.group must be the listener's: better leave both to the settings")
	}
	return found, notes
}

// arguments reads what is in parentheses behind an annotation's name; there may be none.
func arguments(text string) annotation {
	text = strings.TrimLeft(text, " \t\n")
	found := annotation{}
	if !strings.HasPrefix(text, "(") {
		return found
	}
	depth, from, quoted := 0, 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("({[", c) >= 0:
			depth++
		case c == ',' && depth == 1, strings.IndexByte(")}]", c) >= 0 && depth == 1:
			found.add(text[from:i])
			if c != ',' {
				return found
			}
			from = i + 1
		case strings.IndexByte(")}]", c) >= 0:
			depth--
		}
	}
	return annotation{"unreadable": "true"}
}

func (a annotation) add(argument string) {
	name, value := "value", strings.TrimSpace(argument)
	if named := argumentName.FindStringSubmatch(argument); named != nil {
		name, value = named[1], strings.TrimSpace(named[2])
	}
	if value != "" {
		a[name] = value
	}
}

// number returns a number that is written as a literal, also within quotes; ok is false if there is something else.
func (a annotation) number(name string, otherwise float64) (number float64, ok bool) {
	text, given := a[name]
	if !given {
		return otherwise, true
	}
	text = strings.TrimRight(strings.ReplaceAll(strings.Trim(text, `"`), "_", ""), "LlDdFf")
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && number >= 0
}

// suffix returns a suffix of topics; ok is false if it is no literal.
func (a annotation) suffix(name, otherwise string) (suffix string, ok bool) {
	if a[name] == "" || a[name] == `""` {
		return otherwise, true
	}
	if literal := plainSuffix.FindStringSubmatch(a[name]); literal != nil {
		return literal[1], true
	}
	return otherwise, false
}

// read takes over what the annotation says.
func (f *Retries) read(a annotation, spring release) {
	attempts, literal := a.number("attempts", 3)
	dead, deadLiteral := a.suffix("dltTopicSuffix", "-dlt")
	if f.suffix = dead; strings.HasSuffix(a["dltStrategy"], "NO_DLT") {
		f.suffix = ""
	}
	whole := literal && attempts == float64(int(attempts)) && attempts >= 1 && attempts <= 100
	cut := slices.ContainsFunc([]string{"include", "exclude", "includeNames", "excludeNames", "timeout"},
		func(name string) bool { return a[name] != "" })
	if whole && !cut {
		f.Attempts = int(attempts)
	}
	waits, backoff, known := a.waits(spring, int(attempts)-1, whole)
	f.Backoff = backoff
	suffix, plain := a.suffix("retryTopicSuffix", "-retry")
	f.None = whole && attempts == 1
	switch {
	case !whole:
		f.Why = "attempts is no literal"
	case !known:
		f.Why = "the waits are not literals, or random"
	case !plain || !deadLiteral:
		f.Why = "a suffix is no literal"
	default:
		f.Topics, f.Why = a.topics(spring, waits, suffix)
	}
}

const (
	// waitLimit is the longest wait of spring-retry's ExponentialBackOffPolicy where none is given; spring-kafka 4.0 has
	// its own, without a limit.
	waitLimit = 30_000
	// farWaits are looked at where the number of attempts is not known.
	farWaits = 20
	// lateness is an example, two timeouts of a poll: Spring promises never to be early, and nothing of being late.
	lateness = "10s"
)

// waits returns the milliseconds between attempts, and what the contract says of them. known is false if they are no
// literals, differ from start to start, or depend on a version that is not known.
func (a annotation) waits(spring release, count int, counted bool) (waits []int64, backoff string, known bool) {
	of := annotation{}
	for _, name := range []string{"backoff", "backOff"} {
		if text := a[name]; strings.Contains(text, "(") {
			of = arguments(text[strings.Index(text, "("):])
		}
	}
	for name, value := range of {
		if !slices.Contains([]string{"value", "delay", "maxDelay", "multiplier"}, name) &&
			(name != "random" || value != "false") {
			return nil, "", false
		}
	}
	value, literal1 := of.number("value", 1000)
	delay, literal2 := of.number("delay", value)
	limit, literal3 := of.number("maxDelay", 0)
	growth, literal4 := of.number("multiplier", 0)
	if !literal1 || !literal2 || !literal3 || !literal4 || delay < 1 || growth == 0 && limit > 0 ||
		growth > 0 && growth < 1 || limit > 0 && limit <= delay {
		return nil, "", false
	}
	if !counted {
		count = farWaits
	}
	top := limit
	if growth > 0 && top == 0 && spring != (release{}) && spring.before(4, 0) {
		top = waitLimit
	}
	if top > 0 && delay > top {
		return nil, "", false
	}
	next := int64(delay)
	for range count {
		waits = append(waits, next)
		next = int64(float64(next) * max(growth, 1))
		if top > 0 {
			next = min(next, int64(top))
		} else if growth > 1 && spring == (release{}) && next > waitLimit {
			return nil, "", false
		} else if next > int64(24*time.Hour/time.Millisecond) {
			return nil, "", false
		}
	}
	backoff = fmt.Sprintf("initial: %s, multiplier: %g", milliseconds(delay), max(growth, 1))
	if top > 0 {
		backoff += ", cap: " + milliseconds(top)
	}
	return waits, backoff + ", late: " + lateness, true
}

func milliseconds(n float64) string { return (time.Duration(n) * time.Millisecond).String() }

// topics are the retry topics, or why they are not known. Since 3.2, equal waits share a topic; before, each wait had
// one of its own. Where the version is not known, both must come to the same.
func (a annotation) topics(spring release, waits []int64, suffix string) (topics []string, why string) {
	index := strings.HasSuffix(a["topicSuffixingStrategy"], "SUFFIX_WITH_INDEX_VALUE")
	names := func(shared bool) []string { return suffixes(waits, suffix, index, shared) }
	old, unknown := spring.before(3, 2), spring == release{}
	if reuse := a["sameIntervalTopicReuseStrategy"]; reuse != "" {
		shared := strings.HasSuffix(reuse, "SINGLE_TOPIC")
		if shared && (old || unknown) {
			return nil, "equal waits share a topic, whose name depends on the version of spring-kafka"
		}
		return names(shared), ""
	}
	if strings.HasSuffix(a["fixedDelayTopicStrategy"], "SINGLE_TOPIC") && len(waits) > 1 && same(waits) {
		return []string{suffix}, ""
	}
	if unknown && !slices.Equal(names(true), names(false)) {
		return nil, "their names depend on the version of spring-kafka, which is not in the build file"
	}
	return names(!old), ""
}

func same(waits []int64) bool { return len(slices.Compact(slices.Clone(waits))) == 1 }

// suffixes are what the topics of these waits have behind the input topic's name.
func suffixes(waits []int64, suffix string, index, shared bool) []string {
	count := func(wait int64) (n int) {
		for _, one := range waits {
			if one == wait {
				n++
			}
		}
		return n
	}
	amount := len(waits)
	if shared && amount > 1 {
		amount -= count(waits[amount-1]) - 1
	}
	if shared && amount == 1 {
		return []string{suffix}
	}
	var names []string
	for i, wait := range waits[:amount] {
		switch {
		case index || len(waits) > 1 && same(waits):
			names = append(names, fmt.Sprintf("%s-%d", suffix, i))
		case !shared && count(wait) > 1:
			names = append(names, fmt.Sprintf("%s-%d-%d", suffix, wait, i-slices.Index(waits, wait)))
		default:
			names = append(names, fmt.Sprintf("%s-%d", suffix, wait))
		}
	}
	return names
}

// release is a version of spring-kafka; zero if it is not known.
type release struct{ major, minor int }

// before reports whether it is known to be older.
func (r release) before(major, minor int) bool {
	return r != release{} && (r.major < major || r.major == major && r.minor < minor)
}

var (
	springKafkaVersion = regexp.MustCompile(
		`spring-kafka(?:</artifactId>\s*<version>|:)([0-9]+)\.([0-9]+)`)
	springBootVersion = regexp.MustCompile(
		`spring-boot-(?:starter-parent|dependencies)(?:</artifactId>\s*<version>|:)([0-9]+)\.([0-9]+)` +
			`|org\.springframework\.boot["')\s]+version\s*\(?\s*["']([0-9]+)\.([0-9]+)`)
)

// springKafka tells the version from a build file. Spring Boot manages the one that is not named: 3.3 has 3.2, and 4.x
// has 4.x.
func springKafka(build string) release {
	if found := springKafkaVersion.FindStringSubmatch(build); found != nil {
		return numbered(found[1], found[2])
	}
	found := springBootVersion.FindStringSubmatch(build)
	if found == nil {
		return release{}
	}
	boot := numbered(found[1]+found[3], found[2]+found[4])
	switch boot.major {
	case 2:
		return release{2, 9}
	case 3:
		return release{3, max(boot.minor-1, 0)}
	}
	return boot
}

func numbered(major, minor string) release {
	first, _ := strconv.Atoi(major) // the patterns match digits only
	second, _ := strconv.Atoi(minor)
	return release{first, second}
}
