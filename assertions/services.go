package assertions

// Judging several services that share one dead-letter topic. Each is an ordinary consumer and is judged as one, by its
// own contract, on its own part of the run's history. The topic to which the workload sent a record determines its
// service, and the id of the record in a dead letter determines the dead letter's service. The contents of a dead
// letter never do, because they are judged.
//
//	walk 1   the service of each record, and the dead letters that another service has written (serviceIndex)
//	then     the run as a whole: load, faults, thresholds, and the separation of the services (separation.go)
//	then     the checkers judge each service's history
//
// Races. A record's Send is stamped before it is handed to the workload's producer, so its service is known before any
// other event names it. The audit before the replay reads the shared topic while services may still write to it: a dead
// letter that it misses is not selected, and the final audit finds it. The replay ends for one service before it ends
// for another, and the drain begins for all when the tool has ended. So a service whose dead letters were replayed
// first had more time than it was promised, never less.
//
// Load, latency and faults in the verdict cover all services together.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// services is the topology of several services.
type services struct {
	source history.Source
	index  *serviceIndex
}

func newServices(source history.Source, header *history.Header) (topology, error) {
	if err := soundServices(header); err != nil {
		return nil, err
	}
	index := newServiceIndex(header)
	if err := (ordered{source}).Each(index.take); err != nil && !damaged(source) {
		return nil, fmt.Errorf("looking for the services' records: %w", err)
	}
	return services{source, index}, nil
}

// views returns the history of all services first. Only the separation of the services is judged on it.
func (s services) views() []history.Source {
	all := []history.Source{wholeHistory{view{s.source}}}
	for i := range s.index.header.Consumers {
		all = append(all, serviceHistory{view{s.source}, s.index, i})
	}
	return all
}

func (s services) adopt(i int, one, _ *judgement) []Result {
	header, kept := s.index.header, []Result{}
	for _, result := range one.verdict.Invariants {
		switch wanted := header.Expect.Invariants; {
		case i == 0 && len(wanted) > 0 && !slices.Contains(wanted, serviceSeparation):
			continue
		case i > 0 && result.Status == NotApplicable:
			continue
		case i > 0:
			result.Name = header.Consumers[i-1].Name + "/" + result.Name
		}
		kept = append(kept, result)
	}
	return kept
}

func (s services) whole(*judgement) ([]Result, error) { return nil, nil }

// soundServices returns an error for a header whose services have dangling references.
func soundServices(h *history.Header) error {
	topic := func(index int16) bool { return index >= 0 && int(index) < len(h.Topics) }
	sound := len(h.Consumers) < 1<<7
	for _, one := range h.Consumers {
		sound = sound && topic(one.Input) && topic(h.TopicIndex(one.ReplayTo)) && one.First >= 0 && one.Instances >= 0
	}
	if !sound {
		return fmt.Errorf(
			"judging the history of run %q: the services in its header refer to topics or instances that it does not have",
			h.RunID)
	}
	return nil
}

// serviceIndex is the result of the walk through the history of several services.
type serviceIndex struct {
	header *history.Header
	homes  homes
	// unsure counts, by record, the dead letters that another service wrote of it at places that are not known. Each of
	// those that are found may be that service's, and then it names that service rightly.
	unsure map[int32]int
	// others holds the places of dead letters that a service wrote for another service's record.
	others map[place]bool
}

func newServiceIndex(header *history.Header) *serviceIndex {
	return &serviceIndex{header: header, homes: newHomes(header), unsure: map[int32]int{}, others: map[place]bool{}}
}

func (x *serviceIndex) take(e *history.Event) error {
	x.homes.take(e)
	home := x.homes.of(e.Record)
	if home < 0 {
		return nil
	}
	if by := x.header.ConsumerOf(e.Instance); by < 0 || by == home || !deadLetterTopic(x.header, e.Topic) {
		return nil
	}
	switch e.Kind {
	case history.KindProduceRequest:
		x.unsure[e.Record]++
	case history.KindProduceResponse:
		if e.Code == 0 && e.Offset >= 0 && !e.Flags.Has(history.Forged) {
			x.others[place{e.Topic, e.Partition, e.Offset}] = true
			x.unsure[e.Record]--
		}
	}
	return nil
}

// homes maps records to services: the index of the service to whose input the workload sent the record, or none if that
// is unknown.
type homes struct {
	header *history.Header
	by     []int8
}

func newHomes(header *history.Header) homes {
	h := homes{header, make([]int8, header.Records)}
	for i := range h.by {
		h.by[i] = none
	}
	return h
}

func (h homes) take(e *history.Event) {
	if (e.Kind == history.KindSend || e.Kind == history.KindAcked) && e.Record >= 0 && int(e.Record) < len(h.by) {
		h.by[e.Record] = int8(h.header.ReaderOf(e.Topic))
	}
}

func (h homes) of(number int32) int {
	if number < 0 || int(number) >= len(h.by) {
		return none
	}
	return int(h.by[number])
}

// wholeHistory is the history of all services. Only the separation of the services is judged on it.
type wholeHistory struct{ view }

// Header returns the header of the run.
func (w wholeHistory) Header() history.Header {
	h := w.Source.Header()
	h.Expect.Invariants = []string{serviceSeparation}
	return h
}

// serviceHistory is a Source: the part of the history that concerns one service.
type serviceHistory struct {
	view
	index   *serviceIndex
	service int
}

// Header returns the header of a run with this service alone: topics of other services have no role. The expectations
// are those of the whole run.
func (s serviceHistory) Header() history.Header {
	h := s.Source.Header()
	h.Topics = slices.Clone(h.Topics)
	for i := range h.Topics {
		if !s.reads(int16(i)) && h.Topics[i].Role != history.RoleDLQ {
			h.Topics[i].Role = ""
		}
	}
	h.Consumers = h.Consumers[s.service : s.service+1]
	h.Expect.MinLoad, h.Expect.MaxSlip, h.Expect.Thresholds, h.Expect.DuplicateShare = 0, 0, nil, -1
	return h
}

func (s serviceHistory) reads(topic int16) bool {
	return s.index.header.ReaderOf(topic) == s.service
}

// Each implements history.Source.
func (s serviceHistory) Each(fn func(*history.Event) error) error {
	return s.Source.Each(func(e *history.Event) error {
		if !s.concerns(e) {
			return nil
		}
		if e.Kind == history.KindAuditRecord && s.index.unsure[e.Record] > 0 {
			told := *e
			told.Text = ""
			return fn(&told)
		}
		return fn(e)
	})
}

// concerns reports whether the event concerns the service. Actions of one service on a record of another are in neither
// history: they would justify, or be held against, actions of the record's own service. service-separation judges that
// they happened.
func (s serviceHistory) concerns(e *history.Event) bool {
	own := s.index.header.ConsumerOf(e.Instance) == s.service
	ofOwn := s.index.homes.of(e.Record) == s.service
	switch e.Kind {
	case history.KindPhase, history.KindFaultStart, history.KindFaultEffect, history.KindFaultEnd:
		return true
	case history.KindStall, history.KindSample:
		return e.Instance < 0 || own
	case history.KindSend, history.KindAcked, history.KindReplaySelected:
		return ofOwn
	case history.KindAttemptStart, history.KindAttemptEnd:
		return own && (ofOwn || e.Record < 0)
	case history.KindProduceRequest, history.KindProduceResponse:
		return e.Instance == history.Replayer && ofOwn || own && (ofOwn || e.Record < 0)
	case history.KindAuditStart, history.KindAuditOffsets:
		return s.reads(e.Topic) || deadLetterTopic(s.index.header, e.Topic)
	case history.KindAuditRecord:
		return s.audited(e, ofOwn)
	}
	return own && (e.Topic < 0 || s.reads(e.Topic))
}

// audited reports whether the audit's finding concerns the service. A dead letter without an id may belong to any
// service.
func (s serviceHistory) audited(e *history.Event, ofOwn bool) bool {
	if deadLetterTopic(s.index.header, e.Topic) {
		return (ofOwn || e.Record < 0) && !s.index.others[place{e.Topic, e.Partition, e.Offset}]
	}
	return s.reads(e.Topic) && (ofOwn || e.Record < 0)
}

// deadLetterTopic reports whether the topic is the dead-letter topic, which all services share.
func deadLetterTopic(header *history.Header, topic int16) bool {
	topics := header.Topics
	return topic >= 0 && int(topic) < len(topics) && topics[topic].Role == history.RoleDLQ
}
