package assertions

// A simulation of a correct consumer: several instances, restarts, rebalances, instances that are stopped and briefly
// continue with partitions that they have lost, commits and dead letters that fail in every way, a broken link to the
// downstream stub. It keeps its contract in all cases, so none of its histories may be judged wrong.

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

// work is a record in the memory of a process.
type work struct {
	number, partition, key int32
	offset                 int64
	k                      int
	due                    time.Duration
	letter, done, again    bool
}

// process is one process of the simulated consumer.
type process struct {
	run  uint16
	next map[int32]int64 // its position in each partition that it has
	work []*work
}

type simulation struct {
	*builder
	t         *rapid.T
	processes []*process
	records   []int32 // keys
	planned   []history.Outcome
	at        [4][]int32 // records by partition and offset
	committed [4]int64
	link      int64
	broken    bool
	// bug is the planted bug of this consumer, or "".
	bug string
}

func newSimulation(t *rapid.T, bug string) *simulation {
	s := &simulation{builder: newBuilder(), t: t, bug: bug}
	s.h.Contract().Backoff.Late = time.Minute
	s.h.Contract().StopGrace, s.h.Contract().Isolation = time.Second, 0.5
	s.h.Contract().Ordering = rapid.SampledFrom([]history.Ordering{history.OrderingKey, history.OrderingPartition}).Draw(t,
		"ordering")
	s.link = s.fault("network", "downstream", "downstream down")
	s.phase(history.PhaseSetup)
	for i := range 2 {
		s.processes = append(s.processes, &process{next: map[int32]int64{}})
		s.as(int16(i), 0).up()
	}
	for partition := range int32(4) {
		s.give(int(partition)%2, partition)
	}
	s.phase(history.PhaseWarmup).phase(history.PhaseSteady)
	return s
}

func (s *simulation) draw(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.t, what) }

func (s *simulation) turn(i int) *process {
	s.as(int16(i), s.processes[i].run)
	return s.processes[i]
}

func (s *simulation) give(i int, partition int32) {
	s.turn(i).next[partition] = s.committed[partition]
	s.assign(partition)
}

func (p *process) drop(partition int32) {
	delete(p.next, partition)
	p.work = slices.DeleteFunc(p.work, func(w *work) bool { return w.partition == partition })
}

func (s *simulation) sendOne() {
	number := int32(len(s.records))
	if number >= 24 {
		return
	}
	partition, key := int32(s.draw(4, "partition")), int32(s.draw(3, "key"))
	outcomes := []history.Outcome{
		history.OutcomeSuccess, history.OutcomeSuccess, history.OutcomeTransient, history.OutcomeExhausted,
		history.OutcomePermanent,
		history.OutcomeLogical, history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited,
	}
	s.records, s.planned = append(s.records, key), append(s.planned, outcomes[s.draw(len(outcomes), "outcome")])
	s.at[partition] = append(s.at[partition], number)
	s.handOver(number, partition, key, 0).acked(number, partition)
}

// fetchOne delivers the next record to an instance.
func (s *simulation) fetchOne(i int) {
	p := s.turn(i)
	for _, partition := range []int32{0, 1, 2, 3} {
		offset, has := p.next[partition]
		if !has || offset >= int64(len(s.at[partition])) {
			continue
		}
		number := s.at[partition][offset]
		e := s.of(history.KindFetched)
		e.Topic, e.Partition, e.Offset, e.Aux = input, partition, offset, offset
		s.put(e)
		p.next[partition]++
		if s.bug == "forget" && s.draw(6, "forget") == 0 {
			return
		}
		p.work = append(p.work, &work{number: number, partition: partition, key: s.records[number], offset: offset})
		return
	}
}

// ready returns the work that can be done now: it is due, and no predecessor in its order is open.
func (s *simulation) ready(p *process) []*work {
	var ready []*work
	for i, w := range p.work {
		blocked := slices.ContainsFunc(p.work[:i], func(before *work) bool {
			same := before.partition == w.partition && (s.h.Contract().Ordering == history.OrderingPartition ||
				before.key == w.key)
			return same && !before.done && before.offset < w.offset
		})
		blocked = blocked && s.bug != "reorder"
		if !w.done && !blocked && w.due <= s.now {
			ready = append(ready, w)
		}
	}
	return ready
}

func (s *simulation) workOne(i int) {
	p := s.turn(i)
	ready := s.ready(p)
	if len(ready) == 0 {
		s.now += 20 * ms
		return
	}
	w := ready[s.draw(len(ready), "which")]
	if w.letter {
		s.writeLetter(w)
		return
	}
	s.tryOne(w)
}

// answerOf is the downstream stub's answer to a record's attempt.
func (s *simulation) answerOf(number int32) history.Outcome {
	switch planned := s.planned[number]; planned {
	case history.OutcomeTransient, history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited:
		if s.tries[number] > 2 {
			return history.OutcomeSuccess
		}
		return planned
	case history.OutcomeExhausted:
		return history.OutcomeTransient
	default:
		return planned
	}
}

func (s *simulation) tryOne(w *work) {
	w.k++
	hidden := s.broken && s.draw(2, "hidden") == 0
	outcome := history.OutcomeTransient
	told := time.Duration(0)
	if !hidden {
		op := s.start(w.number)
		outcome = s.answerOf(w.number)
		if outcome == history.OutcomeTimeout {
			s.now += 300 * ms
		}
		e := s.end(op, w.number, outcome)
		if outcome == history.OutcomeTimeout {
			e.Flags = history.ClientGone
		}
		if outcome == history.OutcomeRateLimited {
			told = 400 * ms
			e.Aux = int64(told)
		}
		if s.broken && s.draw(2, "answer lost") == 0 {
			s.now += 100 * ms
			outcome = history.OutcomeTransient
		}
	}
	limit, wait := s.h.Contract().MaxAttempts, s.h.Contract().Backoff.Wait(w.k)
	switch s.bug {
	case "one-more":
		limit++
	case "one-less":
		limit--
	case "hasty":
		wait /= 2
	case "constant":
		wait = s.h.Contract().Backoff.Wait(1)
	}
	switch {
	case outcome == history.OutcomeLogical && s.bug == "logical":
		w.letter = true
	case outcome == history.OutcomeSuccess && s.bug == "again" && w.k == 1:
	case outcome == history.OutcomeSuccess, outcome == history.OutcomeLogical:
		w.done = true
	case outcome == history.OutcomePermanent && (s.bug != "stubborn" || w.k >= limit), w.k >= limit:
		w.letter = true
	default:
		jitter := time.Duration(s.draw(20, "jitter")) * ms
		w.due = s.now + max(wait, told) + jitter
	}
}

func (s *simulation) writeLetter(w *work) {
	asked := s.askLetter(w.number)
	s.tries[-1-w.number] = int32(w.k)
	switch s.draw(6, "letter") {
	case 0:
		s.answerLetter(asked, 19, 0)
	case 1:
		s.answerLetter(asked, 19, history.Forged)
	case 2:
		s.answerLetter(asked, 0, history.Withheld)
		s.claims(w)
	case 3: // unanswered, but written
		s.inDLQ(w.number)
		s.claims(w)
	default:
		s.answerLetter(asked, 0, 0)
		s.claims(w)
		w.done = true
		if s.bug == "twice" && !w.again {
			w.again, w.done = true, false
		}
		return
	}
	w.due = s.now + 100*ms
	w.done = s.bug == "careless"
}

// claims fills the newest dead letter with the metadata known to its writer.
func (s *simulation) claims(w *work) {
	e := &s.inTopics[len(s.inTopics)-1]
	e.Claim = &history.Claim{Topic: input, Partition: w.partition, Offset: w.offset, Attempts: int32(w.k)}
}

// commitOne commits the finished prefix of a partition.
func (s *simulation) commitOne(i int) {
	p := s.turn(i)
	for _, partition := range []int32{0, 1, 2, 3} {
		end, has := p.next[partition]
		if !has {
			continue
		}
		for _, w := range p.work {
			if w.partition == partition && !w.done && (s.bug != "commit-early" || !w.letter) && s.bug != "commit-past" {
				end = min(end, w.offset)
			}
		}
		if end <= s.committed[partition] {
			continue
		}
		asked := s.askCommit(partition, end)
		switch s.draw(6, "commit") {
		case 0:
			s.answerCommit(asked, 16, 0)
		case 1:
			s.answerCommit(asked, 0, history.Withheld)
			s.committed[partition] = end
		case 2: // unanswered, but carried out
			s.commits[partition] = end
			s.committed[partition] = end
		default:
			s.answerCommit(asked, 0, 0)
			s.committed[partition] = end
		}
		p.work = slices.DeleteFunc(p.work, func(w *work) bool { return w.partition == partition && w.done && w.offset < end })
		return
	}
}

func (s *simulation) killOne(i int) {
	p := s.turn(i)
	if s.draw(2, "how") == 0 {
		s.kill()
	} else {
		s.stopOne()
	}
	had := owned(p)
	*p = process{run: p.run + 1, next: map[int32]int64{}}
	s.turn(i)
	s.up()
	for _, partition := range had {
		s.give(s.draw(2, "to"), partition)
	}
}

// stopOne ends a process in an orderly way, and leaves its unfinished records to the next.
func (s *simulation) stopOne() {
	s.signal("TERM")
	if s.bug == "linger" {
		s.wait(2 * s.h.Contract().StopGrace)
	}
	s.exit(0)
}

func owned(p *process) []int32 {
	var all []int32
	for partition := range p.next {
		all = append(all, partition)
	}
	slices.Sort(all)
	return all
}

// move takes a partition from one instance and assigns it to an instance, possibly the same.
func (s *simulation) move(i int) {
	p := s.turn(i)
	had := owned(p)
	if len(had) == 0 {
		return
	}
	partition := had[s.draw(len(had), "moved")]
	s.revoke(partition)
	p.drop(partition)
	if s.draw(3, "wait") == 0 {
		s.now += time.Second
	}
	s.give(s.draw(2, "to"), partition)
}

// freeze stops an instance until its partitions have gone to the other. When it resumes, it may attempt each of its
// records once more before it learns which partitions it has lost.
func (s *simulation) freeze(i int) {
	p := s.turn(i)
	s.signal("STOP")
	had := owned(p)
	for _, partition := range had {
		s.give(1-i, partition)
	}
	for range s.draw(6, "meanwhile") {
		s.step(1 - i)
	}
	s.turn(i)
	s.signal("CONT")
	for _, w := range p.work {
		if w.done || w.letter || s.draw(2, "goes on") == 0 {
			continue
		}
		s.end(s.start(w.number), w.number, s.answerOf(w.number))
	}
	for _, partition := range had {
		p.drop(partition)
		s.as(int16(i), p.run).revoke(partition)
	}
}

func (s *simulation) step(i int) {
	switch s.draw(4, "step") {
	case 0:
		s.fetchOne(i)
	case 1, 2:
		s.workOne(i)
	case 3:
		s.commitOne(i)
	}
}

func (s *simulation) disturb() {
	i := s.draw(2, "instance")
	switch s.draw(5, "disruption") {
	case 0:
		s.killOne(i)
	case 1:
		s.move(i)
	case 2:
		s.freeze(i)
	case 3:
		// A broken link legitimately hides most bugs.
		if !s.broken && s.bug == "" {
			s.broken = true
			s.breaks(s.link)
		}
	case 4:
		s.stall(int16(i), 250*ms)
	}
}

// settle finishes the run without disturbances.
func (s *simulation) settle() {
	for range 4000 {
		idle := true
		for i, p := range s.processes {
			s.turn(i)
			for _, w := range p.work {
				idle = idle && w.done
			}
			s.fetchOne(i)
			s.workOne(i)
			s.commitOne(i)
		}
		for partition := range s.at {
			idle = idle && s.committed[partition] == int64(len(s.at[partition]))
		}
		if idle {
			return
		}
	}
	s.t.Fatal("the simulation does not come to its end")
}

func simulate(t *rapid.T, bug string) *simulation {
	s := newSimulation(t, bug)
	for range rapid.IntRange(20, 150).Draw(t, "steps") {
		switch s.draw(12, "what") {
		case 0, 1, 2:
			s.sendOne()
		case 3:
			s.disturb()
		default:
			s.step(s.draw(2, "instance"))
		}
	}
	if s.broken {
		s.broken = false
		s.heals(s.link)
	}
	s.phase(history.PhaseHeal).phase(history.PhaseDrain)
	s.settle()
	s.wait(s.h.Expect.DrainLimit)
	return s
}

func TestCorrectConsumersAreNeverBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t, "")
		v, _, err := Judge(s.done())
		if err != nil {
			t.Fatal(err)
		}
		if found := named(v); len(found) > 0 || v.Verdict == Fail {
			t.Fatalf("a correct consumer is said to show %v\n%s", found, show(v))
		}
	})
}

// TestBuggyConsumersAreNamed runs the same consumer with one planted bug, under the same disruptions. Not every run
// shows every bug, but a run that shows it must name it.
func TestBuggyConsumersAreNamed(t *testing.T) {
	for bug, anomaly := range map[string]string{
		"commit-early": "commit-before-dlq", "commit-past": "commit-past-unfinished", "one-more": "over-retried",
		"one-less": "under-retried",
		"hasty":    "backoff-early", "constant": "backoff-not-growing", "logical": "logical-dead-lettered",
		"stubborn": "permanent-retried",
		"twice":    "dlq-duplicate", "careless": "commit-without-dlq", "again": "duplicate", "reorder": "reordered",
		"forget": "lost", "linger": "stop-timeout",
	} {
		t.Run(bug, func(t *testing.T) {
			runs, shown := 0, 0
			// Disruptions excuse a second dead letter: one run in six shows it, so the probability that none of 50
			// batches of 20 shows it is 10^-80.
			for batch := 0; batch < 50 && shown == 0; batch++ {
				rapid.Check(t, func(t *rapid.T) {
					v, _, err := Judge(simulate(t, bug).done())
					if err != nil {
						t.Fatal(err)
					}
					runs++
					if slices.Contains(named(v), anomaly) {
						shown++
					}
				})
			}
			t.Logf("%s in %d of %d runs", anomaly, shown, runs)
			if shown == 0 {
				t.Errorf("%s was named in none of %d runs", anomaly, runs)
			}
		})
	}
}
