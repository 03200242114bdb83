package assertions

// The replay tool's writes for the dead letters of a graph's nodes.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// letterOf identifies a document among the dead letters in a topic.
type letterOf struct {
	topic    int16
	document int32
}

// replays holds the selected dead letters and the writes made for them.
type replays struct {
	chosen map[letterOf]*replaying
	open   map[writeKey]*exit
}

// replaying is the progress of the selected dead letters of a document in a topic.
type replaying struct {
	letters []place
	writes  []*exit
	// next is the first dead letter without a write so far.
	next int
}

func newReplays() replays {
	return replays{chosen: map[letterOf]*replaying{}, open: map[writeKey]*exit{}}
}

func (r *replays) sorted() []letterOf {
	return slices.SortedFunc(maps.Keys(r.chosen), func(a, b letterOf) int {
		return cmp.Or(cmp.Compare(a.document, b.document), cmp.Compare(a.topic, b.topic))
	})
}

func (r *replays) selected(e *history.Event) {
	key := letterOf{e.Topic, e.Record}
	if r.chosen[key] == nil {
		r.chosen[key] = &replaying{}
	}
	r.chosen[key].letters = append(r.chosen[key].letters, place{e.Topic, e.Partition, e.Offset})
}

func (r *replays) answered(key writeKey, e *history.Event) {
	made := r.open[key]
	if made == nil {
		return
	}
	delete(r.open, key)
	made.stored = made.stored || e.Code == 0 && !e.Flags.Has(history.Forged)
	made.doubtful = made.doubtful || e.Code != 0 || e.Flags&(history.Withheld|history.Forged) != 0
}

// replayed applies a write request of the replay tool, which goes to the input of the node whose dead-letter topic
// holds the document.
func (g *graphWalk) replayed(e *history.Event) {
	key := writeKey{e.Op, e.Record}
	node := g.header.ReaderOf(e.Topic)
	var chosen *replaying
	if node >= 0 {
		chosen = g.replays.chosen[letterOf{g.header.Consumers[node].DLQ, e.Record}]
	}
	if chosen == nil {
		g.misdirected(e)
		return
	}
	id := writeID{e.Record, e.Partition, e.Sequence, e.Topic, e.ProducerEpoch, e.ProducerID}
	if at := slices.IndexFunc(chosen.writes, func(x *exit) bool {
		return x.writeID == id && id.producer >= 0 && id.sequence >= 0
	}); at >= 0 {
		chosen.writes[at].doubtful = true
		g.replays.open[key] = chosen.writes[at]
		return
	}
	made := &exit{writeID: id, at: e.Time, acked: never}
	chosen.writes = append(chosen.writes, made)
	g.replays.open[key] = made
	if chosen.next < len(chosen.letters) {
		if from, known := g.letters[chosen.letters[chosen.next]]; known && chosen.next == len(chosen.letters)-1 {
			g.inherit(from, key, e.Time, 1)
		}
		chosen.next++
	}
}

// misdirected reports a write of the tool to the input of a node for which no dead letter of the document was selected.
func (g *graphWalk) misdirected(e *history.Event) {
	for _, letter := range g.replays.sorted() {
		if letter.document == e.Record {
			to := g.w.topicName(e.Topic)
			g.saw("replayed-to-wrong-node", g.w.about(e.Record, 0, e.Time, func() string {
				return fmt.Sprintf("its dead letter is in %s, and the replay wrote it to %s", g.w.topicName(letter.topic), to)
			}, moment{e.Kind, e.Time}))
			return
		}
	}
}

// judgeReplays reports selected dead letters that were not written exactly once.
func (g *graphWalk) judgeReplays() {
	for _, letter := range g.replays.sorted() {
		one := g.replays.chosen[letter]
		stored, doubtful, latest := 0, 0, time.Duration(0)
		for _, write := range one.writes {
			if write.stored {
				stored++
			}
			if write.doubtful || !write.stored {
				doubtful++
			}
			latest = max(latest, write.at)
		}
		from := g.w.topicName(letter.topic)
		switch selected := len(one.letters); {
		case stored+doubtful < selected:
			g.saw("replay-missing", g.w.about(letter.document, 0, endless, func() string {
				return fmt.Sprintf("%d of its dead letters in %s were to be replayed, and %d were", selected, from, stored)
			}).missingSince(g.w.replayedAt(), MissingReplayed))
		case stored > selected+doubtful:
			g.saw("replayed-twice", g.w.about(letter.document, 0, latest, func() string {
				return fmt.Sprintf("%d of its dead letters in %s were to be replayed, and %d were written", selected, from, stored)
			}, moment{history.KindProduceRequest, latest}))
		}
	}
}
