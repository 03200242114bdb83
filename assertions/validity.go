package assertions

// Whether the run is conclusive: did the faults have their planned effect, was the load as planned, was the history
// written to its end. An observed anomaly is a failure in any case. A pass needs all of these.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// verdict combines the results of judging the history of one consumer.
func (j *judge) verdict(measured *measure.Measurements) *Verdict {
	h := &j.header
	v := &Verdict{
		Schema: SchemaVersion, RunID: h.RunID, Scenario: h.Scenario, Seed: h.Seed, Subject: h.Subject,
		Instances: h.Instances, Group: h.Group(), Topics: h.Topics, Rerun: h.Rerun, Started: h.Started,
		Reasons: []string{}, Invariants: []Result{}, Faults: j.state.faultResults(),
		Latency: measured.Latencies(), Throughput: measured.Throughput, Ledger: measured.Ledger, Health: measured.Health,
		Phases: measured.Phases, Environment: h.Environment, Conservation: measured.Conservation, Drain: measured.Drain(),
		Percentiles: measured.Percentiles(), Series: measured.Series, HeatMap: measured.HeatMap, Usage: measured.Usage,
	}
	for i := range min(len(v.Faults), len(measured.Recoveries)) {
		v.Faults[i].Recovery = measured.Recoveries[i]
	}
	for _, one := range j.checkers {
		v.Invariants = append(v.Invariants, j.weaken(one.finish()))
	}
	return v
}

func (j *judge) thresholds(measured *measure.Measurements) []measure.Threshold {
	all := measured.Evaluate(j.header.Expect.Thresholds)
	if limit := j.header.Expect.DuplicateShare; limit >= 0 && !j.header.Contract().WireOnly {
		all = append(all, j.state.duplicateShare(limit))
	}
	return all
}

// otherGroup says why a subject is not judged if its group is of another type than its contract says, and what to do
// about it; "" if the type is right. A member of a share group has no partitions and commits no offsets, so the rules
// for one type would blame correct members of the other (docs/share-groups.md).
func (w *state) otherGroup() (why, do string) {
	switch {
	case w.sharing && !w.share:
		return "the subject consumes through a share group (KIP-932), and its contract does not say so",
			"add group_type: share to it"
	case w.share && !w.sharing && w.committing:
		return "the subject commits offsets, and its contract says that it consumes through a share group",
			"take group_type: share out of it"
	}
	return "", ""
}

// notRead notes a request that the tap cannot read and refused, so that the subject's reaction to a regular answer is
// unknown; or a call for several records, whose attempts cannot be told; or that no call was an attempt, or none came;
// or that its group, or its dead-letter topic, has another name than the contract says.
func (w *state) notRead(e *history.Event) {
	ofRun := e.Code == history.None && e.Instance < 0
	switch {
	case e.Code == history.None && e.N > 0:
		w.calls.batched[e.Instance] = true
		return
	case w.role(e.Topic) == history.RoleDLQ && w.header.Topics[e.Topic].Downstream && strings.Contains(e.Text, "\n"):
		one := Open{What: "what becomes of records that fail"}
		one.Why, one.Do, _ = strings.Cut(e.Text, "\n")
		w.unread, w.untold = append(w.unread, one), true
		return
	case ofRun && w.role(e.Topic) == history.RoleDLQ:
		w.lacksTopics(e)
		return
	case ofRun && e.Topic < 0 && e.Text == "":
		w.uncalled = true
		return
	}
	one := Open{What: "anything that such requests bear on"}
	switch {
	case ofRun && e.Topic >= 0:
		one, w.renamed = w.otherName(e), true
	case ofRun:
		one.What, w.unattempted = "anything that needs attempts", true
		one.Why, one.Do, _ = strings.Cut(e.Text, "\n")
	case e.Code == history.None && w.role(e.Topic) == history.RoleDLQ:
		one.What = "what becomes of records that fail"
		one.Why = "the subject sent several dead letters with one call (" + e.Text + "), and dlqbench takes a call for one"
		one.Do = "have it send each with a call of its own"
	case e.Code == history.None:
		one.Why = "the subject made a call for several records at once (" + e.Text + "), and dlqbench takes a call for " +
			"an attempt at one"
		one.Do = "write batch: true under this downstream (http or postgres) if the call is for all of them, or say where " +
			"the id of the one is (id, with in: and at:); with observe: wire, what needs attempts is not judged"
	default:
		reads := "which dlqbench does not read"
		if e.Aux != history.None {
			reads = fmt.Sprintf("and dlqbench reads it up to version %d", e.Aux)
		}
		one.Why = fmt.Sprintf("the subject sent %s in version %d, %s: it was refused, as brokers refuse what they don't "+
			"know", e.Text, e.N, reads)
		one.Do = "have the client ask for versions (ApiVersions), or use a newer dlqbench"
	}
	if !slices.Contains(w.unread, one) {
		w.unread = append(w.unread, one)
	}
}

// lacksTopics notes that the subject asked for topics that do not exist. If it has written no dead letter, although
// records failed for good, its dead letters go to one of them, or it waits for one before it writes them.
func (w *state) lacksTopics(e *history.Event) {
	if len(w.letters.values) > 0 || !w.planned(history.OutcomeExhausted, history.OutcomePermanent) {
		return
	}
	w.lacking = e.Text
	w.unread = append(w.unread, Open{
		What: "what becomes of records that fail",
		Why: fmt.Sprintf("the consumer asked for topics that do not exist (%s), and wrote nothing to %s", e.Text,
			w.topicName(e.Topic)),
		Do: "correct dlq.topic in the contract, or retry_topics, if such a topic is meant; name others under topics",
	})
}

// hidden says what the history does not show of the run, "" if it shows everything.
func (j *judge) hidden() string {
	switch {
	case j.broken != nil:
		return "part of the history is missing"
	case j.header.Disturbed:
		return "what ended the run disturbed the subject, too"
	case j.state.renamed:
		return "the group that the subject reads with was not observed"
	case j.state.lacking != "":
		return "the subject asked for topics that do not exist (" + j.state.lacking + ")"
	case j.state.unattempted:
		return "no attempt of the subject was seen"
	case j.state.untold:
		return "no dead letter of the subject can be told"
	case len(j.state.unread) > 0:
		return "the subject made requests that dlqbench does not read"
	}
	if why, _ := j.state.unplaced(); why != "" {
		return "where the subject keeps its offsets is not known"
	}
	return ""
}

// otherName says that the group that reads the input is not the contract's. Its commits were not recorded, as it may be
// that of another consumer in the process.
func (w *state) otherName(e *history.Event) Open {
	topic := w.topicName(e.Topic)
	do := fmt.Sprintf("write group: %s in the contract, or give the consumer {{.GroupID}}", e.Text)
	if added, longer := strings.CutPrefix(e.Text, w.header.Group()); longer { // as NestJS does
		do = fmt.Sprintf("the consumer adds %s to the name that it is given: give it {{.RunID}}, and write group: "+
			"\"{{.RunID}}%s\" in the contract", added, added)
	}
	return Open{
		What: "anything that depends on commits and partitions",
		Why: fmt.Sprintf("the consumer reads %s with the group %s, and its contract names the group %s, which read nothing",
			topic, e.Text, w.header.Group()),
		Do: do,
	}
}

// weaken lowers a result if events are missing, or are of an unknown kind: then the absence of an event proves nothing.
// An anomaly shown by a recorded event alone remains.
func (j *judge) weaken(r Result) Result {
	decided := r.Status == Fail || r.Status == Pass
	other, do := j.state.otherGroup()
	hidden := j.hidden()
	if other == "" && (hidden == "" || !decided) {
		return r
	}
	byItself := []string{"payload-changed", "key-changed", "headers-lost", "metadata-missing", "two-payloads-one-source"}
	if shown := slices.DeleteFunc(slices.Clone(r.Anomalies), func(a Anomaly) bool {
		return !slices.Contains(byItself, a.Name)
	}); len(shown) > 0 {
		r.Anomalies = shown
		return r
	}
	if other != "" {
		return unjudged(Unseen, r.Name, r.Of, other+"; "+do)
	}
	if r.Why = hidden + ", and that could explain it"; r.Status == Pass {
		r.Why = hidden + ", and with it perhaps a violation"
	}
	r.Status, r.Anomalies = Inconclusive, []Anomaly{}
	return r
}

// setApart moves the results of experimental invariants out of Invariants, which alone determines the verdict, the
// requirements and the counts of promises.
func (v *Verdict) setApart(catalogue []Invariant) {
	var deciding []Result
	for _, r := range v.Invariants {
		if experimental(catalogue, r.Name) {
			v.Experimental = append(v.Experimental, r)
		} else {
			deciding = append(deciding, r)
		}
	}
	v.Invariants = deciding
}

// conclude decides the overall verdict and gives the reasons why it is not pass: failures first, then open questions,
// then thresholds.
func (j *judge) conclude(v *Verdict, measured *measure.Measurements) {
	var missed []string
	v.Roots = Roots(v)
	v.exampleFirst()
	for _, root := range v.Roots {
		v.Reasons = append(v.Reasons, v.Reason(root))
	}
	v.Open = j.open(v, measured)
	for _, one := range v.Open {
		v.Reasons = append(v.Reasons, one.Reason())
	}
	for _, t := range v.Thresholds {
		if !t.Met {
			v.ThresholdsMissed = true
			missed = append(missed, missedText(t))
		}
	}
	switch {
	case len(v.Roots) > 0:
		v.Verdict = Fail
	case len(v.Open) > 0:
		v.Verdict = Inconclusive
	default:
		v.Verdict = Pass
	}
	v.Reasons = append(v.Reasons, missed...)
}

// open returns what the run leaves open: first what makes the run as a whole inconclusive, then the invariants that
// could not be judged. Of a run that was cut short it is what it did not come to.
func (j *judge) open(v *Verdict, measured *measure.Measurements) []Open {
	var out []Open
	if j.broken != nil {
		out = append(out, Open{What: "what the lost events show",
			Why: "part of the history can't be read: " + strings.ReplaceAll(j.broken.Error(), "\n", "; "),
			Do:  "look for what damaged its files, such as a full disk, and run it again"})
	}
	if short := j.cutShort(); short != nil {
		return append(out, short...)
	}
	out = append(out, j.invalid(measured)...)
	judged := false
	for _, r := range v.Invariants {
		judged = judged || r.Status != NotApplicable
		if r.Status == Inconclusive {
			out = append(out, Open{What: r.Name, Invariant: r.Name, Why: r.Why, Do: j.remedy(&r, len(v.Roots) > 0)})
		}
	}
	if !judged {
		out = append(out, Open{What: "any promise", Why: "none of the invariants applies, so nothing was judged",
			Do: "promise more in the contract, or run a scenario that exercises it"})
	}
	if left := measured.Ledger.Unfinished; left > 0 && len(v.Roots) == 0 {
		out = append(out, unbalanced(left, j.header.Contract()))
	}
	return out
}

// remedy says how a run judges an invariant that this one could not. In a run with violations, they may be the reason.
func (j *judge) remedy(of *Result, violated bool) string {
	if of.NotJudged[stallExcuse] > 0 {
		return "run it again, with less other work on the machine"
	}
	if of.NotJudged[processingUnseen] > 0 {
		return "promise poison: dead-letter in the contract and run scenarios with records that it can't read, such as " +
			"malformed-records, or say in the contract where its results are (effects)"
	}
	_, base, found := strings.Cut(of.Name, "/")
	if !found {
		base = of.Name
	}
	var ways []string
	if violated {
		ways = append(ways, "correct what is violated and run it again")
	}
	for _, about := range Explain(base) {
		if about.Scenario != "" && !strings.HasSuffix(about.Scenario, "("+j.header.Scenario+")") {
			ways = append(ways, "run a scenario with "+about.Scenario)
		}
	}
	if len(ways) == 0 {
		return "run it again, with a longer load if that does not help"
	}
	return strings.Join(ways, ", or ")
}

// unbalanced is the question of where records went whose end is unknown: the ledger balances if sent = succeeded +
// dead-lettered + skipped or held by contract. What the contract says already is not asked for.
func unbalanced(left int64, contract *history.Contract) Open {
	show := "write the record's headers to its result in an output topic"
	if !contract.WireOnly {
		show = "name topic, partition and offset with each attempt (X-Kafka-Topic, X-Kafka-Partition, X-Kafka-Offset), " +
			show
	}
	if contract.HasDLQ() {
		show += ", and to its dead letter"
	}
	var unsaid []string
	if !contract.SkipsTombstones {
		unsaid = append(unsaid, "skips: [tombstone]")
	}
	if contract.Poison == "" {
		unsaid = append(unsaid, "poison: dead-letter or halt")
	}
	if len(unsaid) > 0 {
		show += ", or say what becomes of them (" + strings.Join(unsaid, ", ") + ")"
	}
	return Open{What: "what became of " + units.Plural(left, "record", "records"),
		Why: fmt.Sprintf("the ledger does not balance: %s acknowledged, and nothing shows how they ended", counted(left)),
		Do:  "where they are tombstones or values that can't be read, " + show}
}

func counted(n int64) string {
	if n == 1 {
		return "one record was"
	}
	return units.Count(n) + " records were"
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func missedText(t measure.Threshold) string {
	switch {
	case t.Error != "":
		return fmt.Sprintf("the threshold %q could not be evaluated: %s", t.Expression, t.Error)
	case t.Actual != "":
		return fmt.Sprintf("the threshold %q was missed: it was %s", t.Expression, t.Shown())
	}
	return fmt.Sprintf("the threshold %q was missed", t.Expression)
}

// cutShort says why the run did not come to its end, nil if it did. Everything that it did not come to follows from it.
func (j *judge) cutShort() []Open {
	why, do := "", "run it again, to its end"
	switch {
	case j.header.Failure != "":
		why, do = "the run could not be carried out: "+strings.Join(strings.Fields(j.header.Failure), " "),
			"correct that, and run it again"
	case j.unsealed || !j.state.sealed:
		why = "the history ends before the run did: it was interrupted or killed"
	}
	for _, name := range []string{history.PhaseSteady, history.PhaseDrain, history.PhaseAudit} {
		if from, _ := j.state.phase(name); from == never && why == "" {
			why = fmt.Sprintf("the run never came to its phase %q", name)
		}
	}
	if why == "" {
		return nil
	}
	return []Open{{What: "what the consumer does in the rest of the run", Why: why, Do: do}}
}

// invalid returns why the run as a whole is not conclusive.
func (j *judge) invalid(measured *measure.Measurements) []Open {
	var out []Open
	if why, do := j.state.otherGroup(); why != "" {
		out = append(out, Open{What: "any promise about commits and deliveries", Why: why, Do: do})
	}
	if why, do := j.state.readTogether(); why != "" {
		out = append(out, Open{What: OpenDeliveries, Why: why, Do: do})
	}
	if why, do := j.state.unplaced(); why != "" {
		out = append(out, Open{What: "anything that depends on commits", Why: why, Do: do})
	}
	if why, do := j.state.refusing(); why != "" {
		out = append(out, Open{What: "what the consumer does with records that it can process", Why: why, Do: do})
	}
	if why, do := j.state.repeating(); why != "" {
		out = append(out, Open{What: "whether it processes records more than once", Why: why, Do: do})
	}
	out = append(append(out, j.state.unread...), j.state.idleFaults()...)
	return append(out, j.badLoad(measured)...)
}

// badLoad says in what the load was not the planned one.
func (j *judge) badLoad(measured *measure.Measurements) []Open {
	var out []Open
	expect, what := &j.header.Expect, "the consumer under the planned load"
	if planned := float64(j.header.Records); expect.MinLoad > 0 && float64(j.state.acked) < expect.MinLoad*planned {
		out = append(out, Open{What: what,
			Why: fmt.Sprintf("the load was too small: %d of %d planned records were acknowledged, %.0f%% are needed",
				j.state.acked, j.header.Records, 100*expect.MinLoad),
			Do: "lower workload.rate, or make the time shorter in which no broker accepts records"})
	}
	if slip := measured.Health.SlipP99; expect.MaxSlip > 0 && slip > expect.MaxSlip {
		out = append(out, Open{What: what,
			Why: fmt.Sprintf("the workload could not keep its schedule: 99%% of the records were sent within %s of their "+
				"time, %s is allowed", units.Text(slip), units.Text(expect.MaxSlip)),
			Do: "lower the rate or give the harness more of the machine"})
	}
	return out
}

// idleFaults names the planned faults without effect, and the possible reasons.
func (w *state) idleFaults() []Open {
	var out []Open
	for i := range w.faults {
		f := &w.faults[i]
		name := cmp.Or(f.planned.Name, fmt.Sprintf("number %d", i+1))
		one := Open{What: "what the consumer does under fault " + name}
		switch {
		case f.planned.Refused != "", f.injected && f.planned.MayMiss, f.injected && len(f.effects) > 0:
			continue
		case !f.injected:
			one.Why, one.Do = w.neverWhy(&f.planned)
			one.Why = fmt.Sprintf("fault %s (%s) was never injected: %s", name, f.planned.What, one.Why)
		default:
			one.Why, one.Do = w.idleWhy(i)
			one.Why = fmt.Sprintf("fault %s (%s) had no effect: %s", name, f.planned.What, one.Why)
		}
		out = append(out, one)
	}
	return out
}

// neverWhy returns the probable reason why a fault was never injected, and the remedy.
func (w *state) neverWhy(f *history.PlannedFault) (why, do string) {
	before := w.heldUpBy(f)
	if f.When == "" && before != nil {
		return fmt.Sprintf("it waits for the end of fault %s, which came only %s after the start of the steady load, when "+
				"faults were no longer waited for", before.planned.Name, units.Text(before.to-w.steadyFrom())),
			"give that one something to meet sooner, or make the load longer (workload.duration)"
	}
	if f.When == "" {
		return "the run ended before its time, or it could not be made", "make the load longer (workload.duration)"
	}
	if before != nil {
		return fmt.Sprintf("its event (%s) never came after fault %s, whose end it waits for: that came only %s after the "+
				"start of the steady load, when what it had ended was back (a killed member is replaced when its session "+
				"expires)", f.When, before.planned.Name, units.Text(before.to-w.steadyFrom())),
			"make the load longer (workload.duration) or the session shorter"
	}
	why = fmt.Sprintf("its event (%s) never came between %s after the start of the steady load and its end", f.When, f.At)
	switch {
	case f.When == "first-retry" || f.When == "backoff":
		return why, "plan records that fail and are tried again (transient, exhausted)"
	case f.When == "first-dead-letter" && len(w.letters.values) > 0:
		return why + ": dead letters were asked for at other times, or not acknowledged",
			"plan more records that end there (exhausted, permanent)"
	case f.When == "first-dead-letter":
		if none, remedy := w.noLetterAtAll(); none != "" {
			return why + ": " + none, remedy
		}
		return why + ": no dead letter was even asked for", "plan records that end there (exhausted, permanent)"
	case strings.HasPrefix(f.When, "lag"):
		return why, "raise the rate, or wait for less"
	case strings.HasPrefix(f.When, "instance"):
		return why + ": it was given no partition then", "wait from the start on, or let another fault cause a rebalance"
	}
	return why, "wait for another event, or make the load longer (workload.duration)"
}

// heldUpBy returns the fault that should have ended before this one's time and ended latest after it, or nil if there
// is none.
func (w *state) heldUpBy(f *history.PlannedFault) *faultState {
	var found *faultState
	for i := range w.faults {
		other := &w.faults[i]
		before := other.injected && other.healed && other.planned.At+other.planned.For <= f.At
		if before && other.to > w.steadyFrom()+f.At+faultGrace && (found == nil || other.to > found.to) {
			found = other
		}
	}
	return found
}

// steadyFrom is when the steady load began.
func (w *state) steadyFrom() time.Duration {
	from, _ := w.phase(history.PhaseSteady)
	return max(from, 0)
}

// idleWhy returns the probable reason why an injected fault, by its number, had no effect, with the volume of the
// operations that it targets, and the remedy.
func (w *state) idleWhy(number int) (why, do string) {
	f, sought := &w.faults[number], w.activity.sought[number]
	if f.failed != "" {
		return f.failed, "correct that, and run it again"
	}
	why, do = w.trueCause(number)
	if idle := f.planned.Idle; why == "" {
		why, do = cmp.Or(idle.Why, "nothing noticed it"), idle.Do
		if sought != nil && sought.during > 0 {
			why = cmp.Or(idle.Passed, why)
		}
		why = strings.ReplaceAll(why, history.InForce, units.Text(f.to-f.from))
	}
	return why + sought.facts(), cmp.Or(do, "let it begin when there is work for it, or last longer")
}

func (w *state) faultResults() []FaultResult {
	results := []FaultResult{}
	steady, _ := w.phase(history.PhaseSteady)
	for i := range w.faults {
		f := &w.faults[i]
		one := FaultResult{PlannedFault: f.planned, Observed: FaultSeen{Injected: f.injected, Healed: f.healed,
			Effects: f.effects}}
		one.Idle = history.Idle{} // Observed.Idle says what it means here
		if f.injected && f.planned.Refused == "" && len(f.effects) == 0 {
			why, do := w.idleWhy(i)
			one.Observed.Idle = why + "; " + do
		}
		from := max(steady, 0) + f.planned.At
		one.Planned = FaultWindow{From: from, To: from + f.planned.For}
		one.Observed.FaultWindow = FaultWindow{From: f.from, To: f.to}
		results = append(results, one)
	}
	return results
}

// duplicateShare evaluates the scenario's allowance of records that succeed more than once as a threshold.
func (w *state) duplicateShare(limit float64) measure.Threshold {
	var once, twice int
	for i := range w.records.count {
		switch r := w.records.at(i); {
		case int(r.successes) > 1+r.again():
			once, twice = once+1, twice+1
		case r.successes > 0:
			once++
		}
	}
	t := measure.Threshold{Expression: fmt.Sprintf("share of records that succeeded more than once <= %g%%", 100*limit)}
	if once == 0 {
		t.Error = "no record succeeded"
		return t
	}
	share := float64(twice) / float64(once)
	t.Met, t.Actual = share <= limit, fmt.Sprintf("%.2f%%", 100*share)
	return t
}
