package scenarios

// What a scenario can get wrong although every value is well written: it contradicts itself, refers to what isn't
// there, or asks for something that could not be judged.

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Limits of one run: what is above them is no test of a retry policy any more, and the plan is kept in memory.
const (
	maxLength  = time.Hour
	maxRecords = 20_000_000
)

// checker checks one scenario against its own text.
type checker struct {
	*document
	s *Scenario
	// file is the scenario's subject file, nil for the reference consumer or when the file is wrong.
	file *SubjectFile
}

func newChecker(d *document, s *Scenario) *checker { return &checker{document: d, s: s} }

// check checks everything; folder is what subject.file is relative to.
func (c *checker) check(folder string) {
	c.checkSubjectOf(folder)
	c.checkTopics()
	c.checkLoad()
	c.checkOutcomes()
	c.checkReference()
	c.checkGraph()
	c.checkServices()
	c.checkStore()
	c.checkFaults()
	c.checkExternalFaults()
	c.checkScaleUp()
	c.checkReplay()
	c.checkExpect()
}

// checkFits: a subject in the place of the scenario's own must be one that the scenario is about. Where it is wrong
// without the other subject, too, that is told by the other checks.
func (c *checker) checkFits(name string, data []byte, sets []string) {
	own, _, err := ParseWith(name, data, sets)
	if err != nil {
		return
	}
	if why := own.Unfit(c.file); why != "" {
		c.problems = nil // they only follow from it
		c.at("/subject/file", "%s", why)
	}
}

// sound tells that nothing was found wrong with these paths; absent ones are sound.
func (c *checker) sound(paths ...string) bool {
	for _, path := range paths {
		if n := c.root.nearest(path); n.bad {
			return false
		}
	}
	return true
}

func (c *checker) has(path string) bool { return c.root.get(path) != nil }

// at reports at the value of the path, or at the key of the nearest one that is there.
func (c *checker) at(path, format string, args ...any) {
	c.hinted(path, fmt.Sprintf(format, args...), "")
}

// refuseIf is at, for what is wrong under a condition alone.
func (c *checker) refuseIf(wrong bool, path, format string, args ...any) {
	if wrong {
		c.at(path, format, args...)
	}
}

func (c *checker) hinted(path, message, suggestion string) {
	if n := c.root.get(path); n != nil {
		if !n.bad {
			c.add(n.at, message, suggestion)
		}
		return
	}
	if n := c.root.nearest(path); !n.bad {
		c.add(n.key, message, suggestion)
	}
}

func (c *checker) checkSubjectOf(folder string) {
	file, reference := c.has("/subject/file"), c.has("/subject/reference")
	c.refuseIf(file && reference, "/subject/file", "file and reference exclude each other: keep one")
	c.refuseIf(!file && c.has("/subject/instances"), "/subject/instances",
		"instances here belongs to file; the reference has its own: reference: {instances: 2}")
	if !file || c.s.Subject.File == "" {
		return
	}
	if c.file = c.loadSubject("/subject/file", within(folder, c.s.Subject.File)); c.file == nil {
		return
	}
	c.s.fitInstances(c.file)
	c.s.Topics.DLQ.Downstream = c.file.Letters()
	if why := c.s.unfitInput(c.file); why != "" {
		c.at("/subject/file", "%s", why)
	}
}

// loadSubject reads the subject file that is named at the path. It reports what is wrong with it, and returns nil then.
func (c *checker) loadSubject(path, file string) *SubjectFile {
	subject, err := LoadSubject(file)
	var problems *Problems
	switch {
	case err == nil:
		return subject
	case errors.As(err, &problems):
		c.problems = append(c.problems, problems.Problems...)
	case errors.Is(err, os.ErrNotExist):
		c.at(path, "there is no file %s", file)
	default:
		c.at(path, "%s", err)
	}
	return nil
}

func (c *checker) checkTopics() {
	c.checkRetryPartitions()
	c.checkForeign()
	broker := c.s.Topics.DLQ.Broker
	if broker == 0 || !c.sound("/cluster/brokers") {
		return
	}
	switch {
	case c.s.Cluster.Brokers < 2:
		c.at("/topics/dlq/broker",
			"a broker of its own for the DLQ topic needs another one for the rest: set cluster.brokers to 2 or more")
	case broker > c.s.Cluster.Brokers:
		c.at("/topics/dlq/broker", "there is no broker %d: the cluster has %d", broker, c.s.Cluster.Brokers)
	}
}

// checkForeign: only a dead letter that says which service it is of can be told from another's.
func (c *checker) checkForeign() {
	reference, envelope := c.s.Subject.Reference, ""
	switch {
	case c.s.Topics.DLQ.Foreign == 0 || c.s.Services != nil ||
		!c.sound("/subject", "/subject/reference", "/subject/reference/envelope"):
		return
	case c.file != nil:
		envelope = string(c.file.Contract.DLQ.Envelope)
	case reference != nil && reference.DLQEnabled:
		envelope = string(reference.Envelope)
	}
	c.refuseIf(envelope != deadletter.HexkitName, "/topics/dlq/foreign",
		"several services share a DLQ topic only where each dead letter names its own: with the envelope hexkit")
}

// checkRetryPartitions refuses settings of topics that are not there.
func (c *checker) checkRetryPartitions() {
	reference := c.s.Subject.Reference
	switch {
	case !c.has("/topics/retry"):
	case c.file != nil && c.file.Contract.Retry != string(history.RetryTopics):
		c.at("/topics/retry", "the subject has no retry topics (contract.retry: topics)")
	case reference != nil && c.sound("/subject", "/subject/reference", "/subject/reference/retry") &&
		reference.Retry != string(history.RetryTopics):
		c.at("/topics/retry", "the subject has no retry topics: add retry: topics to reference, or leave this out")
	}
}

func (c *checker) checkReference() {
	const base = "/subject/reference"
	reference := c.s.Subject.Reference
	if reference == nil || !c.sound("/subject", base) {
		return
	}
	before := len(c.problems)
	waits := c.sound(base+"/retry_backoff_ms", base+"/max_retry_backoff_ms")
	if waits && reference.MaxRetryBackoffMS < reference.RetryBackoffMS {
		path := base + "/max_retry_backoff_ms"
		if !c.has(path) {
			path = base + "/retry_backoff_ms"
		}
		c.at(path, "max_retry_backoff_ms (%d) is less than retry_backoff_ms (%d): the cap must be at least the first wait",
			reference.MaxRetryBackoffMS, reference.RetryBackoffMS)
	}
	for name, value := range map[string]units.Duration{
		"attempt_timeout": reference.AttemptTimeout, "commit_interval": reference.CommitInterval,
		"stop_grace": reference.StopGrace,
	} {
		if path := base + "/" + name; value <= 0 && c.has(path) {
			c.at(path, "%s must be more than 0s", name)
		}
	}
	if c.has(base+"/assignor") && c.sound(base+"/group_protocol") && reference.GroupProtocol == protocolConsumer {
		c.at(base+"/assignor",
			"assignor belongs to the classic group protocol: with group_protocol: consumer the broker assigns; leave it out")
	}
	if waits && c.sound(base+"/max_retries", base+"/retry_jitter_ms") {
		c.checkWaits(*reference)
	}
	// What the consumer itself would refuse, where nothing was said of it yet.
	if err := reference.Validate(); err != nil && len(c.problems) == before && c.allSound(base) {
		c.at(base, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// protocolConsumer is the group protocol of KIP-848, in which the broker assigns.
const protocolConsumer = "consumer"

// checkWaits refuses a bound on the drain that a correct consumer could not keep.
func (c *checker) checkWaits(reference Reference) {
	if !c.has("/expect/drain") || !c.sound("/expect/drain") {
		return
	}
	contract := ReferenceContract(reference)
	var longest time.Duration
	for attempt := 1; attempt < contract.MaxAttempts && longest < maxLength; attempt++ {
		longest += contract.Backoff.Wait(attempt) + contract.Backoff.Jitter
	}
	if drain := c.s.Expect.Drain.D(); longest > drain {
		c.at("/expect/drain", "the waits of one record add up to %s, expect.drain is %s: a correct consumer could not keep "+
			"it; raise it, leave it out, or retry less", longest, drain)
	}
}

func (c *checker) checkReplay() {
	if c.s.Replay == nil || !c.allSound("/replay") {
		return
	}
	c.refuseIf(c.s.Replay.Rate <= 0, "/replay/rate", "at this rate nothing is replayed")
	c.refuseIf(c.s.Replay.Healed <= 0, "/replay/healed",
		"with nothing healed nothing is replayed: leave replay out, or heal some")
	c.refuseIf(c.s.Replay.Rounds > 1 && c.s.Graph == nil, "/replay/rounds",
		"several rounds are for a graph of nodes, which counts how often a document was replayed")
	outcomes := c.s.Workload.Outcomes
	if c.s.Graph != nil {
		outcomes = c.s.Graph.outcomes()
	}
	if c.allSound("/workload") && c.allSound("/graph") && outcomes.Exhausted == 0 && outcomes.Permanent == 0 {
		c.at("/replay", "nothing to replay: give the outcomes exhausted or permanent a weight")
	}
	if reference := c.s.Subject.Reference; reference != nil && !reference.DLQEnabled {
		c.at("/replay", "nothing to replay: the reference has dlq_enabled: false")
	}
	c.refuseIf(c.file != nil && !c.file.Contract.DLQ.Enabled, "/replay",
		"nothing to replay: the subject promises no dead letters (contract.dlq.enabled: false)")
	c.refuseIf(c.s.Topics.DLQ.Downstream != "", "/replay", "nothing to replay: the subject's dead letters go to the "+
		"downstream %s, not to a topic", c.s.Topics.DLQ.Downstream)
}

func (c *checker) checkExpect() {
	for i, name := range c.s.Expect.Invariants {
		known := invariantNames()
		if path := fmt.Sprintf("/expect/invariants/%d", i); len(known) > 0 && !slices.Contains(known, name) {
			suggestion := cmp.Or(hint(name, known), "known: "+strings.Join(known, ", "))
			c.hinted(path, fmt.Sprintf("there is no invariant %q", name), suggestion)
		}
	}
	for i, expression := range c.s.Expect.Thresholds {
		if err := compileThreshold(expression); err != nil {
			c.threshold(fmt.Sprintf("/expect/thresholds/%d", i), expression, err)
		}
	}
	c.refuseIf(c.has("/expect/drain") && c.s.Expect.Drain <= 0, "/expect/drain",
		"the subject needs some time to finish, such as 20s")
	c.refuseIf(c.has("/expect/max_slip") && c.s.Expect.MaxSlip <= 0, "/expect/max_slip",
		"some slip is always there: allow more than 0s, such as 250ms")
}

var thresholdColumn = regexp.MustCompile(`^threshold ".*", column ([0-9]+): (.*)$`)

// threshold reports what is wrong with an expression at the place inside it that the error names.
func (c *checker) threshold(path, expression string, err error) {
	n := c.root.get(path)
	if n == nil || n.bad {
		return
	}
	n.bad = true
	at, text := n.at, err.Error()
	if found := thresholdColumn.FindStringSubmatch(text); found != nil {
		column, _ := strconv.Atoi(found[1])
		at, text = c.find(n, expression), found[2]
		at.column += column - 1
	}
	c.add(at, "this threshold can't be evaluated: "+text, "")
}
