package faults

// What a fault is called, in the words of a scenario: for the plan, the live display and the report.

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// The kinds of faults: each has one injector, and one key in Spec.
const (
	KindNetwork    = "network"
	KindKafka      = "kafka"
	KindBroker     = "broker"
	KindSubject    = "subject"
	KindDownstream = "downstream"
	KindStore      = "store"
)

// Kinds returns the kinds that s sets, in the order of Spec; a valid spec has exactly one.
func (s Spec) Kinds() []string {
	var kinds []string
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{KindNetwork, s.Network != nil}, {KindKafka, s.Kafka != nil}, {KindBroker, s.Broker != nil},
		{KindSubject, s.Subject != nil}, {KindDownstream, s.Downstream != nil}, {KindStore, s.Store != nil},
	} {
		if kind.set {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// Kind returns the fault's kind, "" when s has none.
func (s Spec) Kind() string {
	if kinds := s.Kinds(); len(kinds) > 0 {
		return kinds[0]
	}
	return ""
}

// Describe says in words what is broken ("Produce to dlq answered NOT_ENOUGH_REPLICAS") and names what is hit: "broker
// 1", "brokers", "coordinator", "dlq", "input", "downstream", "instance 1", "every instance", "instances", "worker 0",
// "database".
func (s Spec) Describe() (what, target string) {
	switch {
	case s.Network != nil:
		return s.Network.what(), s.Network.target()
	case s.Kafka != nil:
		return s.Kafka.what(), s.Kafka.target()
	case s.Broker != nil:
		return s.Broker.what()
	case s.Subject != nil:
		return s.Subject.what(), s.Subject.target()
	case s.Downstream != nil:
		return s.Downstream.what() + of(s.Downstream.Node), "downstream"
	case s.Store != nil:
		return s.Store.what(), s.Store.target()
	}
	return "", ""
}

// DefaultName returns the name of a fault that was given none: what breaks and how, in the words of the scenario
// ("produce-error", "dlq-down", "broker-2-stop", "kill-instance-1", "downstream-outage"); "" when s has no kind.
// Several faults of a run may have the same.
func (s Spec) DefaultName() string {
	switch {
	case s.Network != nil:
		return dashed(s.Network.Link + " " + s.Network.key())
	case s.Kafka != nil:
		return dashed(s.Kafka.API + " " + s.Kafka.key())
	case s.Broker != nil && s.Broker.MoveCoordinator:
		return "move-coordinator"
	case s.Broker != nil:
		return dashed(fmt.Sprintf("broker %d %s", s.Broker.Broker, s.Broker.Action()))
	case s.Subject != nil:
		return s.Subject.name()
	case s.Downstream != nil:
		return dashed("downstream " + s.Downstream.key())
	case s.Store != nil:
		return dashed("store " + strings.TrimSpace(s.Store.key()+" "+s.Store.Process))
	}
	return ""
}

// dashed writes words, words_like_these and WordsLikeThese as words-like-these.
func dashed(text string) string {
	var name strings.Builder
	for i, r := range text {
		switch {
		case r == ' ' || r == '_':
			r = '-'
		case unicode.IsUpper(r) && i > 0 && name.Len() > 0 && !strings.HasSuffix(name.String(), "-"):
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// choice is a key of a kind, and whether it is set.
type choice struct {
	key string
	set bool
}

func chosen(choices ...choice) string {
	for _, one := range choices {
		if one.set {
			return one.key
		}
	}
	return "fault"
}

// Length returns how long the fault lasts in a run with that many instances: For, or what its own settings add up to
// (a restart after a while, a round of restarts).
func (s Spec) Length(instances int) time.Duration {
	length := s.For.D()
	if s.Subject == nil {
		return length
	}
	length = max(length, s.Subject.RestartAfter.D())
	if s.Subject.All && instances > 1 {
		length += s.Subject.Every.D() * time.Duration(instances-1)
	}
	return length
}

func (n Network) key() string {
	return chosen(choice{"latency", n.Latency > 0}, choice{"bandwidth", n.Bandwidth > 0}, choice{"timeout", n.Timeout},
		choice{"slow_close", n.SlowClose > 0},
		choice{"slicer", n.Slicer != nil}, choice{"limit_data", n.LimitData > 0}, choice{"half_open", n.HalfOpen},
		choice{"down", n.Down}, choice{"reset", n.Reset})
}

func (n Network) what() string {
	link := n.Link
	if n.Direction == DirectionRequests || n.Direction == DirectionResponses {
		link = n.Direction + " on " + link
	}
	text := link + " "
	switch {
	case n.Latency > 0 && n.Jitter > 0:
		text += fmt.Sprintf("delayed by %s plus up to %s", n.Latency, n.Jitter)
	case n.Latency > 0:
		text += fmt.Sprintf("delayed by %s", n.Latency)
	case n.Bandwidth > 0:
		text += fmt.Sprintf("limited to %s/s", n.Bandwidth)
	case n.Timeout:
		text += "silent: data swallowed, connections open"
	case n.SlowClose > 0:
		text += fmt.Sprintf("closes its connections %s late", n.SlowClose)
	case n.Slicer != nil && n.Slicer.Delay > 0:
		text += fmt.Sprintf("cut into pieces of %s, %s apart", n.Slicer.Size, n.Slicer.Delay)
	case n.Slicer != nil:
		text += fmt.Sprintf("cut into pieces of %s", n.Slicer.Size)
	case n.LimitData > 0:
		text += fmt.Sprintf("closes each connection after %s", n.LimitData)
	case n.HalfOpen:
		text += "half open: the far side of its connections is gone without a word"
	case n.Down:
		text += "down: connections closed and refused"
	default:
		text += "resets its connections"
	}
	if n.Toxicity > 0 && n.Toxicity < 1 {
		text += fmt.Sprintf(" (%s of the connections)", n.Toxicity)
	}
	return text
}

func (k Kafka) key() string {
	return chosen(choice{"error", k.Error != ""}, choice{"delay_request", k.DelayRequest > 0},
		choice{"delay_response", k.DelayResponse > 0},
		choice{"drop_request", k.DropRequest}, choice{"drop_response", k.DropResponse}, choice{"close", k.Close},
		choice{"throttle", k.Throttle > 0})
}

func (k Kafka) what() string {
	var text strings.Builder
	if k.Nth > 0 {
		text.WriteString(ordinal(k.Nth) + " ")
	}
	text.WriteString(k.API)
	if k.Version != nil {
		fmt.Fprintf(&text, " v%d", *k.Version)
	}
	text.WriteString(k.scope())
	switch {
	case k.Error != "":
		text.WriteString(" answered " + k.Error)
	case k.DelayRequest > 0:
		fmt.Fprintf(&text, " held back for %s", k.DelayRequest)
	case k.DelayResponse > 0:
		fmt.Fprintf(&text, " answered %s late", k.DelayResponse)
	case k.DropRequest:
		text.WriteString(" lost on the way to the broker")
	case k.DropResponse:
		text.WriteString(" carried out, the answer lost")
	case k.Close:
		text.WriteString(" answered by closing the connection")
	case k.Throttle > 0:
		fmt.Fprintf(&text, " throttled by %s", k.Throttle)
	}
	var share []string
	if k.EveryNth > 1 {
		share = append(share, fmt.Sprintf("every %s of the requests", ordinal(k.EveryNth)))
	}
	if k.Probability > 0 && k.Probability < 1 {
		share = append(share, fmt.Sprintf("%s of the requests", k.Probability))
	}
	if len(share) > 0 {
		fmt.Fprintf(&text, " (%s)", strings.Join(share, ", "))
	}
	return text.String()
}

// scope says which requests match.
func (k Kafka) scope() string {
	var text strings.Builder
	preposition := map[string]string{apiFetch: " from ", apiOffsetCommit: " for ", apiTxnOffsetCommit: " for ",
		apiMetadata: " of "}[k.API]
	if preposition == "" {
		preposition = " to "
	}
	switch {
	case k.Topic != "" && k.Partition != nil:
		fmt.Fprintf(&text, "%s%s/%d", preposition, k.Topic, *k.Partition)
	case k.Topic != "":
		text.WriteString(preposition + k.Topic)
	}
	if k.Group != "" && k.Group != ownGroup {
		text.WriteString(" of group " + k.Group)
	}
	if k.ClientID != "" {
		text.WriteString(" by client " + k.ClientID)
	}
	if k.Instance != nil {
		fmt.Fprintf(&text, " by instance %d", *k.Instance)
	}
	return text.String()
}

// ordinal writes 1st, 2nd, 3rd, 4th, 11th, 21st.
func ordinal(n int) string {
	suffix := "th"
	if tens := n % 100; tens < 11 || tens > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// PlainAPI is the request that k acts on, "" where of those of its target only some match; k may be nil.
func (k *Kafka) PlainAPI() string {
	if k == nil || k.ClientID != "" || k.Version != nil || k.Partition != nil || k.Group != "" && k.Group != ownGroup ||
		k.Topic != "" && k.Instance != nil {
		return ""
	}
	return k.API
}

func (k Kafka) target() string {
	switch {
	case k.Topic != "":
		return k.Topic
	case k.Instance != nil:
		return fmt.Sprintf("instance %d", *k.Instance)
	}
	return "every instance"
}

// Action is the word of the scenario for what is done.
func (b Broker) Action() string {
	return chosen(choice{"stop", b.Stop}, choice{"kill", b.Kill}, choice{"pause", b.Pause}, choice{"restart", b.Restart},
		choice{"move_leaders", b.MoveLeaders}, choice{"move_coordinator", b.MoveCoordinator})
}

func (b Broker) what() (what, target string) {
	target = fmt.Sprintf("broker %d", b.Broker)
	switch {
	case b.MoveCoordinator:
		return "the subject's group gets another coordinator", "coordinator"
	case b.MoveLeaders:
		return "the partitions of " + target + " get other leaders", target
	case b.Restart:
		return target + " restarted", target
	case b.Kill:
		return target + " killed", target
	case b.Pause:
		return target + " paused: connections open, nothing answered", target
	}
	return target + " stopped", target
}

// target is the link; that of a node's modules is a downstream like any other.
func (n Network) target() string {
	if strings.HasPrefix(n.Link, DownstreamOf("")) {
		return "downstream"
	}
	return n.Link
}

// of says which node of a graph is meant.
func of(node string) string {
	if node == "" {
		return ""
	}
	return " at node " + node
}

func (s Subject) target() string {
	switch {
	case s.ScaleUp > 0 || s.ScaleDown > 0:
		return "instances"
	case s.Process != "":
		return s.Process
	case s.Instance != nil:
		return fmt.Sprintf("instance %d", *s.Instance)
	}
	return "every instance"
}

// name is what a fault without a name is called.
func (s Subject) name() string {
	key := chosen(choice{strings.ToLower(s.Signal), s.Signal != ""}, choice{"restart", s.Restart},
		choice{"scale-up", s.ScaleUp > 0}, choice{"scale-down", s.ScaleDown > 0})
	switch {
	case s.Process != "":
		return dashed(key + " " + s.Process)
	case s.Instance != nil:
		return fmt.Sprintf("%s-instance-%d", key, *s.Instance)
	case s.All:
		return key + "-all"
	}
	return key
}

func (s Subject) what() string {
	switch {
	case s.ScaleUp > 0:
		return counted(s.ScaleUp, "further instance") + " started"
	case s.ScaleDown > 0:
		return counted(s.ScaleDown, "instance") + " ended by TERM"
	}
	text := s.target() + " restarted"
	if s.Signal != "" {
		text = s.Signal + " to " + s.target()
	}
	if s.All && s.Every > 0 {
		text += fmt.Sprintf(", one every %s", s.Every)
	}
	text += of(s.Node)
	if s.RestartAfter > 0 {
		text += fmt.Sprintf(", started again after %s", s.RestartAfter)
	}
	return text
}

func (d Downstream) key() string {
	return chosen(choice{"outage", d.Outage}, choice{"slow", d.Slow > 0}, choice{"hang", d.Hang},
		choice{"rate_limit", d.RateLimit != nil}, choice{"errors", d.Errors != nil}, choice{"error_text", d.ErrorText != ""})
}

func (d Downstream) what() string {
	switch {
	case d.Slow > 0:
		return fmt.Sprintf("every attempt answered %s later", d.Slow)
	case d.Hang:
		return "no attempt answered, connections open"
	case d.RateLimit != nil:
		return fmt.Sprintf("attempts above %s answered 429", d.RateLimit.Rate)
	case d.Errors != nil:
		return d.Errors.what()
	case d.ErrorText != "":
		return "failures with " + d.ErrorText + " error texts"
	}
	return "every attempt answered 503"
}

func (e Errors) what() string {
	var shares []string
	for _, one := range []struct {
		name  string
		share interface {
			Share() float64
			String() string
		}
	}{
		{"503", e.Transient}, {"400", e.Permanent}, {"422", e.Logical}, {"never", e.Timeout}, {"with a reset", e.Reset},
	} {
		if one.share.Share() > 0 {
			shares = append(shares, one.share.String()+" "+one.name)
		}
	}
	return "attempts answered with errors: " + strings.Join(shares, ", ")
}

// TargetDatabase is the target of faults of the dead-letter store's database.
const TargetDatabase = "database"

func (s Store) key() string {
	return chosen(choice{"restart", s.Restart}, choice{"crash", s.Crash}, choice{"clock_ahead", s.ClockAhead > 0},
		choice{"clock_behind", s.ClockBehind > 0},
		choice{"unhealthy", s.Unhealthy != ""}, choice{"repeat_letters", s.RepeatLetters > 0})
}

func (s Store) what() string {
	switch {
	case s.Restart:
		return "the store's database restarted"
	case s.Crash:
		return "the store's database crashed"
	case s.ClockAhead > 0:
		return fmt.Sprintf("the clock of %s is %s ahead", s.Process, s.ClockAhead)
	case s.ClockBehind > 0:
		return fmt.Sprintf("the clock of %s is %s behind", s.Process, s.ClockBehind)
	case s.Unhealthy != "":
		return "the workers' health probe says that something is wrong: " + s.Unhealthy
	}
	return fmt.Sprintf("%s of the dead letters written again, in another order", s.RepeatLetters)
}

func (s Store) target() string {
	switch {
	case s.Process != "":
		return s.Process
	case s.Unhealthy != "":
		return "health probe"
	case s.RepeatLetters > 0:
		return "dlq"
	}
	return TargetDatabase
}
