package scenarios

// What a scenario can get wrong although every value is well written: it contradicts itself, refers to what isn't there, or asks for
// something that could not be judged.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Limits of one run: what is above them is no test of a retry policy any more, and the plan is kept in memory.
const (
	maxLength  = time.Hour
	maxRecords = 20_000_000
)

// minValue leaves room for the record's id and time stamp in its value.
const minValue = 128

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
	c.checkFaults()
	c.checkReplay()
	c.checkExpect()
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
func (c *checker) at(path, message string) {
	c.hinted(path, message, "")
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
	if file && reference {
		c.at("/subject/file", "file and reference exclude each other: keep one")
	}
	if !file && c.has("/subject/instances") {
		c.at("/subject/instances", "instances here belongs to file; the reference has its own: reference: {instances: 2}")
	}
	if !file || c.s.Subject.File == "" {
		return
	}
	path := c.s.Subject.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	subject, err := LoadSubject(path)
	var problems *Problems
	switch {
	case err == nil:
		c.file = subject
	case errors.As(err, &problems):
		c.problems = append(c.problems, problems.Problems...)
	case errors.Is(err, os.ErrNotExist):
		c.at("/subject/file", fmt.Sprintf("there is no file %s", path))
	default:
		c.at("/subject/file", err.Error())
	}
}

func (c *checker) checkTopics() {
	broker := c.s.Topics.DLQ.Broker
	if broker == 0 || !c.sound("/cluster/brokers") {
		return
	}
	switch {
	case c.s.Cluster.Brokers < 2:
		c.at("/topics/dlq/broker", "a broker of its own for the DLQ topic needs another one for the rest: set cluster.brokers to 2 or more")
	case broker > c.s.Cluster.Brokers:
		c.at("/topics/dlq/broker", fmt.Sprintf("there is no broker %d: the cluster has %d", broker, c.s.Cluster.Brokers))
	}
}

func (c *checker) checkLoad() {
	load := c.s.Workload
	if !c.has("/workload") || !c.sound("/workload") {
		return
	}
	c.checkRates()
	if c.has("/workload/value_size") && load.ValueSize < minValue {
		c.at("/workload/value_size", fmt.Sprintf("a value needs at least %d bytes, for its id and time stamp", minValue))
	}
	if load.ValueSize > 1<<19 {
		c.at("/workload/value_size", "a value can have 512KiB at most, so that it and its headers stay below Kafka's limit for a record")
	}
	if length := load.Duration.D() + load.WarmUp.D(); length > maxLength {
		c.at("/workload/duration", fmt.Sprintf("warm-up and steady phase last %s; a run can have 1h at most", length))
	}
	if records := c.s.expected(); records > maxRecords {
		c.at("/workload/rate", fmt.Sprintf("this makes %.0f records; a run can have 20000000 at most", records))
	}
}

func (c *checker) checkRates() {
	load, steps := c.s.Workload, c.has("/workload/steps")
	if !c.sound("/workload/steps") {
		return // what the load was meant to be can't be told
	}
	for _, key := range []string{"/workload/rate", "/workload/duration"} {
		name := strings.TrimPrefix(key, "/workload/")
		switch {
		case steps && c.has(key):
			c.at(key, fmt.Sprintf("steps and %s exclude each other: the steps have their own", name))
		case !steps && !c.has(key):
			c.at(key, fmt.Sprintf("%s is missing in workload (or give steps)", name))
		}
	}
	if steps && len(load.Steps) == 0 {
		c.at("/workload/steps", "steps needs at least one entry, such as {rate: 500/s, for: 5s}")
	}
	if !steps && c.has("/workload/rate") && load.Rate <= 0 {
		c.at("/workload/rate", "at this rate nothing is sent, so nothing could be judged")
	}
	if !steps && c.has("/workload/duration") && load.Duration <= 0 {
		c.at("/workload/duration", "the steady phase needs some time, such as 5s")
	}
	for i, step := range load.Steps {
		path := fmt.Sprintf("/workload/steps/%d", i)
		if !c.sound(path) {
			continue
		}
		if step.For <= 0 && c.has(path+"/for") {
			c.at(path+"/for", "a step needs some time, such as 5s")
		}
		if step.Rate <= 0 && c.has(path+"/rate") && i == 0 {
			c.at(path+"/rate", "the first step gives the warm-up its rate: it must be more than 0")
		}
	}
}

// Stretches returns the stretches of the steady phase, also for a constant rate.
func (w Workload) Stretches() []Step {
	if len(w.Steps) > 0 {
		return w.Steps
	}
	return []Step{{Rate: w.Rate, For: w.Duration}}
}

// expected is how many records the plan will have.
func (s *Scenario) expected() float64 {
	stretches := s.Workload.Stretches()
	records := stretches[0].Rate.PerSecond() * s.Workload.WarmUp.D().Seconds()
	for _, step := range stretches {
		records += step.Rate.PerSecond() * step.For.D().Seconds()
	}
	return records
}

func (c *checker) checkOutcomes() {
	outcomes := c.s.Workload.Outcomes
	if c.has("/workload/outcomes") && c.sound("/workload", "/workload/outcomes") && c.allSound("/workload/outcomes") && outcomes.total() == 0 {
		c.at("/workload/outcomes", "all weights are 0: give at least one outcome a weight, such as success: 100")
	}
	for name, failing := range outcomes.failing() {
		if name != "rate_limited" && c.has("/workload/outcomes/"+name+"/retry_after") {
			c.at("/workload/outcomes/"+name+"/retry_after", "retry_after goes with rate_limited only")
		}
		c.checkFailures(name, failing)
	}
	// HTTP's Retry-After counts seconds (RFC 9110, 10.2.3).
	const path = "/workload/outcomes/rate_limited/retry_after"
	if wait := outcomes.RateLimited.RetryAfter.D(); c.has(path) && (wait < time.Second || wait%time.Second != 0) {
		c.at(path, "Retry-After is told in whole seconds: write 1s or more")
	}
}

// checkFailures refuses records that are meant to succeed in the end but run out of attempts before.
func (c *checker) checkFailures(name string, failing Failing) {
	path := "/workload/outcomes/" + name
	reference := c.s.Subject.Reference
	if failing.Weight == 0 || reference == nil || !c.sound(path, path+"/failures", "/subject/reference/max_retries") {
		return
	}
	if failing.Failures >= reference.MaxRetries {
		c.at(path+"/failures", fmt.Sprintf("a record that fails %d times first never succeeds: max_retries allows %d executions in all; lower failures, or use exhausted",
			failing.Failures, reference.MaxRetries))
	}
}

func (o Outcomes) failing() map[string]Failing {
	return map[string]Failing{"transient": o.Transient, "rate_limited": o.RateLimited, "timeout": o.Timeout, "reset": o.Reset}
}

func (o Outcomes) total() int {
	return o.Success + o.Transient.Weight + o.Exhausted + o.Permanent + o.Logical + o.RateLimited.Weight + o.Timeout.Weight + o.Reset.Weight
}

// allSound tells that nothing below the path is bad.
func (c *checker) allSound(path string) bool {
	n := c.root.get(path)
	return n == nil || n.allSound()
}

func (n *node) allSound() bool {
	for _, child := range n.fields {
		if child.bad || !child.allSound() {
			return false
		}
	}
	return !slices.ContainsFunc(n.items, func(item *node) bool { return item.bad || !item.allSound() })
}

func (c *checker) checkReference() {
	const base = "/subject/reference"
	reference := c.s.Subject.Reference
	if reference == nil || !c.sound("/subject", base) {
		return
	}
	waits := c.sound(base+"/retry_backoff_ms", base+"/max_retry_backoff_ms")
	if waits && reference.MaxRetryBackoffMS < reference.RetryBackoffMS {
		path := base + "/max_retry_backoff_ms"
		if !c.has(path) {
			path = base + "/retry_backoff_ms"
		}
		c.at(path, fmt.Sprintf("max_retry_backoff_ms (%d) is less than retry_backoff_ms (%d): the cap must be at least the first wait",
			reference.MaxRetryBackoffMS, reference.RetryBackoffMS))
	}
	for name, value := range map[string]units.Duration{
		"attempt_timeout": reference.AttemptTimeout, "commit_interval": reference.CommitInterval, "stop_grace": reference.StopGrace,
	} {
		if path := base + "/" + name; value <= 0 && c.has(path) {
			c.at(path, name+" must be more than 0s")
		}
	}
	if waits && c.sound(base+"/max_retries", base+"/retry_jitter_ms") {
		c.checkDrain(*reference)
	}
}

// checkDrain refuses a drain in which a correct consumer could not finish: it would be judged to have stalled.
func (c *checker) checkDrain(reference Reference) {
	if !c.sound("/expect/drain") {
		return
	}
	contract := ReferenceContract(reference)
	var longest time.Duration
	for attempt := 1; attempt < contract.MaxAttempts && longest < maxLength; attempt++ {
		longest += contract.Backoff.Wait(attempt) + contract.Backoff.Jitter
	}
	if drain := c.s.Expect.Drain.D(); longest > drain {
		path := "/expect/drain"
		if !c.has(path) {
			path = "/subject/reference/max_retries"
		}
		c.at(path, fmt.Sprintf("the waits of one record add up to %s, the drain ends after %s: a correct consumer could not finish; raise expect.drain or retry less", longest, drain))
	}
}

func (c *checker) checkFaults() {
	setting := c.setting()
	seen := map[string]int{}
	for i, spec := range c.s.Faults {
		base := fmt.Sprintf("/faults/%d", i)
		n := c.root.get(base)
		if n == nil || n.bad {
			continue
		}
		if spec.Name != "" {
			if first, twice := seen[spec.Name]; twice {
				c.at(base+"/name", fmt.Sprintf("the name %s is taken by faults[%d]", spec.Name, first))
			}
			seen[spec.Name] = i
		}
		if !c.allSound(base) {
			continue // what is left of it would only look wrong in other ways
		}
		for _, defect := range spec.Validate(setting) {
			c.hinted(base+defect.Path, defect.Message, hint(defect.Got, defect.Known))
		}
	}
}

// setting tells the faults what is there; what is not sound is not told, and not checked.
func (c *checker) setting() faults.Setting {
	setting := faults.Setting{
		Steady: c.s.Workload.Duration.D(), Brokers: c.s.Cluster.Brokers, DLQBroker: c.s.Topics.DLQ.Broker,
		Instances: c.s.InstanceCount(), Oracle: true, Topics: []string{},
	}
	if c.file != nil {
		setting.Oracle = c.file.Observe != ObserveWire
	}
	if c.s.Subject.File != "" {
		setting.Topics = nil // retry topics may be named by templates
	}
	if !c.sound("/workload", "/workload/duration") || !c.allSound("/workload/steps") {
		setting.Steady = 0
	}
	if !c.sound("/cluster", "/cluster/brokers") {
		setting.Brokers = 0
	}
	if !c.sound("/subject", "/subject/instances", "/subject/reference", "/subject/reference/instances", "/subject/file") {
		setting.Instances = 0
	}
	if !c.sound("/topics", "/topics/dlq", "/topics/dlq/broker") {
		setting.DLQBroker = 1
	}
	return setting
}

func (c *checker) checkReplay() {
	if c.s.Replay == nil || !c.allSound("/replay") {
		return
	}
	if c.s.Replay.Rate <= 0 {
		c.at("/replay/rate", "at this rate nothing is replayed")
	}
	if c.s.Replay.Healed <= 0 {
		c.at("/replay/healed", "with nothing healed nothing is replayed: leave replay out, or heal some")
	}
	outcomes := c.s.Workload.Outcomes
	if c.allSound("/workload") && outcomes.Exhausted == 0 && outcomes.Permanent == 0 {
		c.at("/replay", "nothing to replay: give the outcomes exhausted or permanent a weight")
	}
	if reference := c.s.Subject.Reference; reference != nil && !reference.DLQEnabled {
		c.at("/replay", "nothing to replay: the reference has dlq_enabled: false")
	}
	if c.file != nil && c.file.Contract.DLQ.Envelope == "" {
		c.at("/replay", "nothing to replay: the subject promises no dead letters (contract.dlq.envelope)")
	}
}

func (c *checker) checkExpect() {
	for i, name := range c.s.Expect.Invariants {
		known := invariantNames()
		if path := fmt.Sprintf("/expect/invariants/%d", i); len(known) > 0 && !slices.Contains(known, name) {
			suggestion := hint(name, known)
			if suggestion == "" {
				suggestion = "known: " + strings.Join(known, ", ")
			}
			c.hinted(path, fmt.Sprintf("there is no invariant %q", name), suggestion)
		}
	}
	for i, expression := range c.s.Expect.Thresholds {
		if err := compileThreshold(expression); err != nil {
			c.threshold(fmt.Sprintf("/expect/thresholds/%d", i), expression, err)
		}
	}
	if c.has("/expect/drain") && c.s.Expect.Drain <= 0 {
		c.at("/expect/drain", "the subject needs some time to finish, such as 20s")
	}
	if c.has("/expect/max_slip") && c.s.Expect.MaxSlip <= 0 {
		c.at("/expect/max_slip", "some slip is always there: allow more than 0s, such as 250ms")
	}
}

var thresholdColumn = regexp.MustCompile(`^threshold ".*", column ([0-9]+): (.*)$`)

// threshold reports what is wrong with an expression at the place inside it that the error names.
func (c *checker) threshold(path, expression string, err error) {
	n := c.root.get(path)
	if n == nil || n.bad {
		return
	}
	at, text := n.at, err.Error()
	if found := thresholdColumn.FindStringSubmatch(text); found != nil {
		column, _ := strconv.Atoi(found[1])
		at, text = c.find(n, expression), found[2]
		at.column += column - 1
	}
	c.add(at, "this threshold can't be evaluated: "+text, "")
}
