package assertions

// The positions of a replay's copies and of the originals. A replay is matched by the record's id, which is in its
// value and in a header of the workload's. The source position in the dead letter plays no part, so a dialect that
// names only the topic (hexkit, watermill) is judged as strictly as one that names the offset.

import "github.com/dlqbench/dlqbench/history"

// topicOnly is a history of a record whose dead letter names only its topic. sent puts the record into partition 0,
// where the audit may not find it any more; tool writes it back.
func topicOnly(name string, want []string, sent, tool, after func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Replay, b.h.Contract().Envelope = true, "watermill"
		b.begin()
		sent(b)
		b.fails(0, 3).letter(0).commit(1)
		claim := b.inTopics[len(b.inTopics)-1].Claim
		claim.Partition, claim.Offset, claim.Attempts = history.None, history.None, history.None
		b.drain().phase(history.PhaseReplay).audit(dlq)
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
		b.put(selected)
		tool(b)
		after(b)
		b.commitAll().wait(b.h.Expect.DrainLimit)
		return b.done()
	}}
}

func placeCases() []testCase {
	acked := func(b *builder) { b.send(0) }
	unheard := func(b *builder) { // written, but its acknowledgement was lost
		b.handOver(0, 0, 0, 0)
		b.inInput(0, 0)
		b.fetch(0)
	}
	removed := func(b *builder) { // and it is removed from the topic before the audit
		unheard(b)
		b.inTopics = nil
	}
	succeeds := func(b *builder) { b.success(0) }
	elsewhere := func(b *builder) { b.goBackTo(0, input, 2) }
	readFirst := func(b *builder) *history.Event { // the audit reads partition 2 before partition 0
		last := len(b.inTopics) - 1
		b.inTopics[0], b.inTopics[last] = b.inTopics[last], b.inTopics[0]
		return &b.inTopics[0]
	}
	unanswered := func(b *builder) { // the tool's write is not acknowledged, but fetched
		b.events = append(b.events[:len(b.events)-2], b.events[len(b.events)-1])
	}
	return []testCase{
		topicOnly("a dead letter that names the topic only goes back and heals", nil, acked, elsewhere, succeeds),
		topicOnly("a dead letter that names the topic only goes back to where it was", nil, acked, func(b *builder) {
			b.goBack(0, input)
		}, succeeds),
		topicOnly("a dead letter that names the topic only is not written back", []string{"replay-lost"}, acked,
			func(*builder) {}, func(*builder) {}),
		topicOnly("a dead letter that names the topic only is written back, acknowledged, and not there",
			[]string{"replay-lost"}, acked, func(b *builder) {
				elsewhere(b)
				b.inTopics = b.inTopics[:len(b.inTopics)-1]
			}, succeeds),
		topicOnly("a dead letter that names the topic only is written back twice", []string{"replay-duplicated"}, acked,
			func(b *builder) {
				elsewhere(b)
				elsewhere(b)
			}, succeeds),
		topicOnly("a dead letter that names the topic only goes to another topic", []string{"replay-wrong-topic"}, acked,
			func(b *builder) { b.goBack(0, retry) }, func(*builder) {}),
		topicOnly("the original is gone from the topic", []string{"dropped-by-ack"}, func(b *builder) {
			b.send(0)
			b.inTopics = nil
		}, elsewhere, succeeds),
		topicOnly("the original was never acknowledged, and the audit finds the copy before it", nil, unheard, elsewhere,
			func(b *builder) {
				readFirst(b)
				b.success(0)
			}),
		topicOnly("the original was never acknowledged, and the audit finds the altered copy before it",
			[]string{"replay-altered"}, unheard, elsewhere, func(b *builder) {
				readFirst(b).Flags = history.FailureHeaders
				b.success(0)
			}),
		topicOnly("neither the original nor the altered copy was acknowledged, and the audit finds the copy first",
			[]string{"replay-altered"}, unheard, func(b *builder) {
				elsewhere(b)
				unanswered(b)
			}, func(b *builder) {
				readFirst(b).Flags = history.FailureHeaders
				b.success(0)
			}),
		topicOnly("the original was never acknowledged and is gone", nil, removed, elsewhere, succeeds),
		topicOnly("the original was never acknowledged and is gone, and the copy lies in its partition", nil, removed,
			func(b *builder) { b.goBack(0, input) }, succeeds),
		topicOnly("the original was never acknowledged and is gone, and the copy is altered", []string{"replay-altered"},
			removed, func(b *builder) {
				b.goBack(0, input).ValueHash++
			}, succeeds),
		topicOnly("the original was never acknowledged and is gone, and so is the copy's acknowledgement", nil, removed,
			func(b *builder) {
				b.goBack(0, input)
				unanswered(b)
			}, succeeds),
		topicOnly("the original was never acknowledged and is there, and the copy is not", []string{"replay-lost"}, unheard,
			func(b *builder) {
				elsewhere(b)
				b.inTopics = b.inTopics[:len(b.inTopics)-1]
			}, succeeds),
	}
}
