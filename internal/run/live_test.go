package run

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/history"
)

// discarded is a sink that keeps nothing.
type discarded struct{}

func (discarded) Record(history.Event) {}

// TestTakenFromAShareGroup checks that a partition is settled up to the first record that no member accepted or
// rejected with the broker's consent. Acknowledgements out of order, repeated, refused, forged or released must not
// move that point.
func TestTakenFromAShareGroup(t *testing.T) {
	type ack struct {
		topic       int16
		partition   int32
		first, last int64
		how         int32
		code        int16
	}
	accept := func(first, last int64) ack { return ack{first: first, last: last, how: history.AckAccept} }
	for name, test := range map[string]struct {
		acks       []ack
		from, want int64
		lag        int64 // of 10 acknowledged records
	}{
		"nothing":                    {nil, 3, 3, 10},
		"in order":                   {[]ack{accept(0, 4)}, 0, 5, 5},
		"beyond the broker's answer": {[]ack{accept(0, 4)}, 2, 5, 5},
		"behind the broker's answer": {[]ack{accept(0, 4)}, 7, 7, 5},
		"a gap":                      {[]ack{accept(0, 1), accept(3, 5)}, 0, 2, 5},
		"the gap is filled":          {[]ack{accept(0, 1), accept(3, 5), accept(2, 2)}, 0, 6, 4},
		"twice":                      {[]ack{accept(0, 4), accept(2, 6)}, 0, 7, 3},
		"rejected":                   {[]ack{{last: 2, how: history.AckReject}}, 0, 3, 7},
		"released":                   {[]ack{{last: 2, how: history.AckRelease}}, 0, 0, 10},
		"refused":                    {[]ack{{last: 2, how: history.AckAccept, code: 121}}, 0, 0, 10},
		"another partition":          {[]ack{{partition: 1, last: 2, how: history.AckAccept}}, 0, 0, 10},
		"another topic":              {[]ack{{topic: 1, last: 2, how: history.AckAccept}}, 0, 0, 10},
		"offsets that can't be":      {[]ack{{first: -5, last: 1 << 60, how: history.AckAccept}}, 1 << 40, 1 << 40, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(discarded{},
				&history.Header{Records: 10, Consumers: make([]history.Consumer, 1),
					Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 2},
						{Name: "dlq", Role: history.RoleDLQ}}})
			for offset := range int64(10) {
				l.Record(ackedAt(offset))
			}
			for _, one := range test.acks {
				event := history.New(history.KindShareAckResponse, 0)
				event.Topic, event.Partition, event.Offset, event.Aux, event.N, event.Code = one.topic, one.partition, one.first,
					one.last, one.how, one.code
				l.Record(event)
			}
			if got := l.partitions.takenFrom(0, 0, test.from); got != test.want {
				t.Errorf("taken up to %d, want %d", got, test.want)
			}
			if got := l.figures().lag; got != test.lag {
				t.Errorf("%d records are behind, want %d", got, test.lag)
			}
		})
	}
}

// A subject that commits nothing is as far as its outcomes: each record counts once.
func TestLagWithoutCommits(t *testing.T) {
	header := history.Header{Records: 10, Consumers: make([]history.Consumer, 1), Topics: []history.Topic{
		{Name: "in", Role: history.RoleInput, Partitions: 1}, {Name: "dlq", Role: history.RoleDLQ, Partitions: 1}}}
	header.Contract().OffsetsOutside, header.Contract().SkipsTombstones = true, true
	l := newLive(discarded{}, &header)
	for record := range int32(10) {
		sent, acked := history.New(history.KindSend, 0), ackedAt(2*int64(record)) // a marker behind each
		if sent.Record, acked.Record = record, record; record == 9 {
			sent.Flags = history.Tombstone
		}
		l.Record(sent)
		l.Record(acked)
		acked.Flags, acked.Offset = history.Repeated, 30
		l.Record(acked)
	}
	ended := func(record int32, outcome history.Outcome) {
		event := history.New(history.KindAttemptEnd, 0)
		event.Instance, event.Record, event.N, event.Outcome = 0, record, 1, outcome
		l.Record(event)
	}
	ended(0, history.OutcomeSuccess)
	ended(0, history.OutcomeSuccess)
	ended(1, history.OutcomeLogical)
	ended(2, history.OutcomeTransient)
	ended(3, history.OutcomePermanent)
	letter := history.New(history.KindProduceResponse, 0)
	letter.Instance, letter.Record, letter.Topic = 0, 3, 1
	l.Record(letter)
	if got := l.figures().lag; got != 6 {
		t.Errorf("%d records are behind, want 6: 3 of 10 have come to their ends, and one needs none", got)
	}
	if ended(9, history.OutcomeSuccess); l.figures().lag != 6 {
		t.Errorf("%d records are behind when the one that needs no end has one", l.figures().lag)
	}
	back := ackedAt(10)
	back.Kind, back.Instance, back.Record = history.KindProduceResponse, history.Replayer, 3
	l.Record(back)
	if got := l.figures().lag; got != 7 {
		t.Errorf("%d records are behind when one was written back, want 7", got)
	}
	ended(3, history.OutcomeSuccess)
	if got := l.figures().lag; got != 6 {
		t.Errorf("%d records are behind when that one has succeeded, want 6", got)
	}
}

// The markers of the load behind the last record are nothing that a consumer could commit.
func TestMarkersAreNotWaitedFor(t *testing.T) {
	for name, one := range map[string]struct {
		marked  bool
		records []int64
		want    int64
	}{
		"behind the last record": {true, []int64{0, 2}, 3},
		"without a record":       {true, nil, 0},
		"records of another":     {false, []int64{0, 2}, 7},
	} {
		l := newLive(discard{}, triggerHeader())
		l.marked = one.marked
		for _, offset := range one.records {
			l.Record(ackedAt(offset))
		}
		ends := map[int32]kadm.ListedOffset{0: {Offset: 7}}
		if l.discountMarkers(0, ends, nil); ends[0].Offset != one.want {
			t.Errorf("%s: the end is at %d", name, ends[0].Offset)
		}
		if l.discountMarkers(1, ends, nil); ends[0].Offset != one.want {
			t.Errorf("%s: the end of a topic without markers is at %d", name, ends[0].Offset)
		}
	}
}
