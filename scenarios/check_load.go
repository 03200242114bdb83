package scenarios

// What a workload can get wrong although every value is well written.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// minValue leaves room for the record's id and time stamp in its value.
	minValue = 128
	// maxLarge is the largest value: brokers take records of 1 MiB and a little, headers and a dead letter's metadata
	// included.
	maxLarge = 1000 << 10
	// maxLargeBytes bounds all large records together: the embedded broker and the producer keep them.
	maxLargeBytes = 1 << 30
	// outcomeTransient is the one of FailingPartitions.Outcome that ends well, after transientFailures.
	outcomeTransient  = "transient"
	transientFailures = 2
	// minMarkers is the least time between two transaction markers: a broker takes some milliseconds to write one.
	minMarkers = 10 * time.Millisecond
)

func (c *checker) checkLoad() {
	load := c.s.Workload
	if !c.has("/workload") || !c.sound("/workload") {
		return
	}
	c.checkRates()
	c.checkBursts()
	c.checkShares()
	c.checkLarge()
	c.checkFailing()
	c.checkRepeated()
	c.refuseIf(c.has("/workload/transaction_markers") && load.TransactionMarkers.D() < minMarkers,
		"/workload/transaction_markers", "there must be %s or more between two markers, such as 100ms; without markers, "+
			"leave it out", minMarkers)
	c.checkRecordHeaders("/workload/record_headers", load.RecordHeaders)
	c.refuseIf(c.has("/workload/value_size") && load.ValueSize < minValue, "/workload/value_size",
		"a value needs at least %d bytes, for its id and time stamp", minValue)
	c.refuseIf(load.ValueSize > 1<<19, "/workload/value_size",
		"a value can have 512KiB at most, so that it and its headers stay below Kafka's limit for a record")
	if length := load.Duration.D() + load.WarmUp.D(); length > maxLength {
		c.at("/workload/duration", "warm-up and steady phase last %s; a run can have 1h at most", length)
	}
	if records := c.s.expected(); records > maxRecords {
		c.at("/workload/rate", "this makes %.0f records; a run can have 20000000 at most", records)
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
			c.at(key, "steps and %s exclude each other: the steps have their own", name)
		case !steps && !c.has(key):
			c.at(key, "%s is missing in workload (or give steps)", name)
		}
	}
	c.refuseIf(steps && len(load.Steps) == 0, "/workload/steps",
		"steps needs at least one entry, such as {rate: 500/s, for: 5s}")
	c.refuseIf(!steps && c.has("/workload/rate") && load.Rate <= 0, "/workload/rate",
		"at this rate nothing is sent, so nothing could be judged")
	c.refuseIf(!steps && c.has("/workload/duration") && load.Duration <= 0, "/workload/duration",
		"the steady phase needs some time, such as 5s")
	for i, step := range load.Steps {
		path := fmt.Sprintf("/workload/steps/%d", i)
		if !c.sound(path) {
			continue
		}
		c.refuseIf(step.For <= 0 && c.has(path+"/for"), path+"/for", "a step needs some time, such as 5s")
		c.refuseIf(step.Rate <= 0 && c.has(path+"/rate") && i == 0, path+"/rate",
			"the first step gives the warm-up its rate: it must be more than 0")
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
	if s.Workload.Bursts != nil {
		records += float64(s.Workload.Bursts.count(s.Workload.Duration.D()) * s.Workload.Bursts.Records)
	}
	return records
}

func (c *checker) checkOutcomes() {
	outcomes := c.s.Workload.Outcomes
	if c.has("/workload/outcomes") && c.sound("/workload", "/workload/outcomes") &&
		c.allSound("/workload/outcomes") && outcomes.total() == 0 {
		c.at("/workload/outcomes", "all weights are 0: give at least one outcome a weight, such as success: 100")
	}
	for name, failing := range outcomes.failing() {
		c.refuseIf(name != "rate_limited" && c.has("/workload/outcomes/"+name+"/retry_after"),
			"/workload/outcomes/"+name+"/retry_after", "retry_after goes with rate_limited only")
		c.checkFailures(name, failing)
	}
	c.checkLasting()
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
	if reference.OnExhausted == consumer.ExhaustedExit {
		return // the process that is started next begins a new count
	}
	if c.s.Store != nil {
		return // it is dead-lettered, and what becomes of it then is for the store's outcomes to say
	}
	c.refuseIf(failing.Failures >= reference.MaxRetries, path+"/failures", "a record that fails %d times first never "+
		"succeeds: max_retries allows %d executions in all; lower failures, or use exhausted", failing.Failures,
		reference.MaxRetries)
}

// checkLasting refuses records that always fail, where the subject tries them for ever, or ends at them each time.
func (c *checker) checkLasting() {
	var contract history.Contract
	switch reference := c.s.Subject.Reference; {
	case c.file != nil:
		contract, _ = c.file.HistoryContract() // what is wrong with it is told by its own check
	case reference != nil:
		contract = ReferenceContract(*reference)
	}
	if !c.allSound("/workload") {
		return
	}
	of := c.s.Workload.Outcomes
	weights := map[string]int{"exhausted": of.Exhausted, "permanent": of.Permanent, "logical": of.Logical}
	for _, name := range NeverEnding(&contract) {
		why := "by its contract (attempts: {max: unlimited}) the subject tries a record for ever that always fails so: " +
			"leave it out"
		if contract.ExitsExhausted {
			why = "with on_exhausted: exit a record that always fails ends each process that gets it, for ever: use " +
				"transient with more failures than it has attempts"
		}
		c.refuseIf(weights[name] > 0, "/workload/outcomes/"+name, "%s", why)
		for i, one := range c.s.Workload.Failing {
			c.refuseIf(one.Outcome == name, fmt.Sprintf("/workload/failing/%d/outcome", i), "%s", why)
		}
	}
}

func (o Outcomes) failing() map[string]Failing {
	return map[string]Failing{"transient": o.Transient, "rate_limited": o.RateLimited, "timeout": o.Timeout,
		"reset": o.Reset}
}

func (o Outcomes) total() int {
	return o.Success + o.Transient.Weight + o.Exhausted + o.Permanent + o.Logical + o.RateLimited.Weight +
		o.Timeout.Weight + o.Reset.Weight
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

func (c *checker) checkBursts() {
	bursts := c.s.Workload.Bursts
	if bursts == nil || !c.allSound("/workload/bursts") {
		return
	}
	const path = "/workload/bursts/every"
	switch {
	case !c.has(path): // reported as missing
	case bursts.Every <= 0:
		c.at(path, "bursts need some time between them, such as 1s")
	case c.s.Workload.Duration > 0 && bursts.Every >= c.s.Workload.Duration &&
		c.sound("/workload/duration", "/workload/steps"):
		c.at(path, "the first burst would come at %s, after the steady phase of %s", bursts.Every, c.s.Workload.Duration)
	}
}

// count is how many bursts a steady phase of that length has.
func (b *Bursts) count(steady time.Duration) int {
	if b == nil || b.Every <= 0 || steady <= 0 {
		return 0
	}
	return int((steady - 1) / b.Every.D())
}

// checkShares checks what is said of shares of the records: each record has one key and one sort of value.
func (c *checker) checkShares() {
	load := c.s.Workload
	const rounding = 1e-9 // shares are written with a few decimals and added as floats
	c.refuseIf(c.allSound("/workload/keys") && load.Keys.Hot+load.Keys.Null > 1+rounding, "/workload/keys/hot",
		"hot and null add up to %s: together they can be 100%% at most", load.Keys.Hot+load.Keys.Null)
	sum, last := load.Tombstones+load.Garbage, ""
	if load.Malformed != nil {
		sum += load.Malformed.Share
	}
	if load.Large != nil {
		sum += load.Large.Share
	}
	for _, name := range []string{"tombstones", "garbage", "malformed", "large"} {
		if !c.allSound("/workload/" + name) {
			return
		}
		if c.has("/workload/" + name) {
			last = name
		}
	}
	c.refuseIf(sum > 1+rounding, "/workload/"+last,
		"tombstones, garbage, malformed and large records add up to %s: together they can be 100%% at most", sum)
}

func (c *checker) checkLarge() {
	large := c.s.Workload.Large
	if large == nil || !c.allSound("/workload/large") {
		return
	}
	c.refuseIf(large.Share <= 0 && c.has("/workload/large/share"), "/workload/large/share",
		"at 0%% no record is large: leave large out, or give a share such as 1%%")
	switch size := large.Size; {
	case !c.has("/workload/large/size"): // reported as missing
	case size > maxLarge:
		c.at("/workload/large/size",
			"a record can have %s at most, so that it and its headers stay below the broker's limit of 1MiB",
			units.Size(maxLarge))
	case size < c.s.Workload.ValueSize && c.sound("/workload/value_size"):
		c.at("/workload/large/size", "large records (%s) are smaller than the others (value_size is %s)", size,
			c.s.Workload.ValueSize)
	case float64(size)*large.Share.Share()*c.s.expected() > maxLargeBytes && c.allSound("/workload"):
		c.at("/workload/large/share",
			"the large records have %.1f GiB together; a run can have 1 GiB at most: lower share, size or rate",
			float64(size)*large.Share.Share()*c.s.expected()/(1<<30))
	}
}

// checkRepeated refuses records that are produced twice where their copies can't be told from those that something else
// makes, or where a copy has a custody of its own that the id doesn't name.
func (c *checker) checkRepeated() {
	const path = "/workload/repeated"
	if !c.has(path) || !c.sound(path) {
		return
	}
	reference := c.s.Subject.Reference
	share := reference != nil && reference.GroupProtocol == consumer.ProtocolShare
	for _, one := range []struct {
		with bool
		why  string
	}{
		{c.s.Workload.Repeated <= 0, "at 0% no record is produced twice: leave repeated out, or give a share such as 2%"},
		{c.s.Replay != nil, "a record that is produced twice can't be told from its replayed dead letter: leave replay out"},
		{c.s.Graph != nil, "in a graph a document that is produced twice can't be told from one that is passed on twice"},
		{c.s.Services != nil, "a record that is produced twice belongs to one consumer: several services are not judged so"},
		{c.s.Store != nil, "a record that is produced twice can't be told from one that the store puts back"},
		{share, repeatedInShare + ": leave repeated out"},
	} {
		if one.with {
			c.at(path, "%s", one.why)
			return
		}
	}
}

// repeatedInShare says why members of a share group are not judged with records that are produced twice.
const repeatedInShare = "a share group counts the deliveries of each copy, and an attempt does not say of which copy " +
	"it is"

func (c *checker) checkFailing() {
	for i, failing := range c.s.Workload.Failing {
		path := fmt.Sprintf("/workload/failing/%d", i)
		if !c.sound(path) || !c.allSound(path) {
			continue
		}
		c.checkStretch(path, failing)
		c.checkPartitions(path, failing)
		for j, earlier := range c.s.Workload.Failing[:i] {
			if both := failing.shares(earlier); both >= 0 {
				c.at(path, "partition %d fails in failing[%d] at the same time: a record has one outcome", both, j)
			}
		}
		reference := c.s.Subject.Reference
		if failing.Outcome == outcomeTransient && reference != nil &&
			reference.MaxRetries <= transientFailures && c.sound("/subject/reference/max_retries") {
			c.at(path+"/outcome", "a record that fails twice first never succeeds: max_retries allows %d executions in all; "+
				"raise it, or use exhausted", reference.MaxRetries)
		}
	}
}

func (c *checker) checkStretch(path string, failing FailingPartitions) {
	steady := c.s.Workload.Duration
	switch {
	case !c.has(path + "/for"): // reported as missing
	case failing.For <= 0:
		c.at(path+"/for", "the stretch needs some time, such as 2s")
	case steady <= 0 || !c.sound("/workload/duration", "/workload/steps"):
		return
	case failing.At >= steady:
		c.at(path+"/at", "the stretch lies outside the run: it starts at %s, the steady phase lasts %s", failing.At, steady)
	case failing.At+failing.For > steady:
		c.at(path+"/for", "the stretch lasts beyond the run: it ends at %s, the steady phase lasts %s",
			failing.At+failing.For, steady)
	}
}

func (c *checker) checkPartitions(path string, failing FailingPartitions) {
	count := c.s.Topics.Input.Partitions
	for i, partition := range failing.Partitions {
		at := fmt.Sprintf("%s/partitions/%d", path, i)
		switch {
		case partition < 0:
			c.at(at, "partitions are numbered from 0")
		case partition >= count && c.sound("/topics", "/topics/input", "/topics/input/partitions"):
			c.at(at, "there is no partition %d: the input topic has %d, numbered from 0", partition, count)
		case slices.Contains(failing.Partitions[:i], partition):
			c.at(at, "partition %d is here twice", partition)
		}
	}
}

// shares returns a partition that fails in both at one time, -1 if there is none.
func (f FailingPartitions) shares(other FailingPartitions) int {
	if f.At >= other.At+other.For || other.At >= f.At+f.For {
		return -1
	}
	for _, partition := range f.Partitions {
		if slices.Contains(other.Partitions, partition) {
			return partition
		}
	}
	return -1
}
