package assertions

// The stories of the witnesses: a second walk through the history gathers, for each of the few records and partitions that are told
// of, what happened to them, in words.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
)

// story is a witness to be told.
type story struct {
	sighting
	witness *Witness
	// Set while it is told.
	born    bool
	covered bool
	owners  map[holder]bool
}

// linesLimit bounds a biography; what is marked is always told.
const linesLimit = 120

// errTold ends the walk when every story has come to its end.
var errTold = errors.New("every story is told")

// narrator tells all stories in one walk.
type narrator struct {
	w        *world
	ids      *history.IDs
	stories  []*story
	byRecord map[int32][]*story
	active   map[int64]string // faults that are in force
	until    time.Duration
}

// tellStories fills in the biographies of all witnesses.
func (w *world) tellStories(source history.Source) error {
	if len(w.stories) == 0 {
		return nil
	}
	n := &narrator{w: w, ids: history.NewIDs(w.header.RunID), byRecord: map[int32][]*story{}, active: map[int64]string{}}
	for i := range w.stories {
		s := &w.stories[i]
		s.owners = map[holder]bool{}
		n.stories = append(n.stories, s)
		n.until = max(n.until, s.to)
		if s.record >= 0 {
			s.witness.ID = n.ids.Token(s.record)
			n.byRecord[s.record] = append(n.byRecord[s.record], s)
		}
	}
	err := source.Each(n.take)
	if err != nil && !errors.Is(err, errTold) {
		return err
	}
	return nil
}

func (n *narrator) take(e *history.Event) error {
	if e.Time > n.until {
		return errTold
	}
	switch e.Kind {
	case history.KindSend, history.KindAcked, history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest,
		history.KindProduceResponse, history.KindAuditRecord, history.KindReplaySelected:
		for _, s := range n.byRecord[e.Record] {
			n.own(s, e)
		}
	case history.KindFetched, history.KindCommitRequest, history.KindCommitResponse, history.KindAssigned, history.KindRevoked:
		for _, s := range n.stories {
			n.around(s, e)
		}
	case history.KindInstanceStarting, history.KindInstanceSignal, history.KindInstanceExited, history.KindSubjectError:
		for _, s := range n.stories {
			if n.concerns(s, e) {
				n.add(s, e)
			}
		}
	case history.KindFaultStart, history.KindFaultEnd:
		n.fault(e)
	}
	return nil
}

// own tells what happened to the record itself.
func (n *narrator) own(s *story, e *history.Event) {
	if e.Kind == history.KindSend && !s.born {
		s.born = true
		for _, text := range n.inForce() {
			s.witness.Biography = append(s.witness.Biography, Line{Time: e.Time, Kind: "fault", Text: "in force: " + text})
		}
	}
	if e.Instance >= 0 {
		s.owners[holder{e.Instance, e.Run}] = true
	}
	if e.Kind == history.KindAuditRecord && n.w.role(e.Topic) == history.RoleInput && e.Offset == s.offset && !s.tellsOf(e) {
		return // the original where it was put is no news
	}
	n.add(s, e)
}

func (n *narrator) inForce() []string {
	var all []string
	for _, text := range n.active {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// around tells what happened to the partition, as far as it concerns the story.
func (n *narrator) around(s *story, e *history.Event) {
	if e.Topic != s.topic || e.Partition != s.partition {
		return
	}
	if s.record < 0 {
		if e.Time >= s.from && (e.Kind != history.KindFetched) {
			n.add(s, e)
		}
		return
	}
	switch e.Kind {
	case history.KindFetched:
		if s.offset >= e.Offset && s.offset <= e.Aux {
			s.owners[holder{e.Instance, e.Run}] = true
			n.add(s, e)
		}
	case history.KindCommitRequest, history.KindCommitResponse:
		// Until one is accepted, every commit that covers the record; after that it is no news.
		if e.Offset > s.offset && (!s.covered || s.tellsOf(e)) && s.born {
			n.add(s, e)
			s.covered = s.covered || e.Kind == history.KindCommitResponse && e.Code == 0 && !e.Flags.Has(history.Forged)
		}
	default:
		if s.born && !s.covered {
			n.add(s, e)
		}
	}
}

// concerns: what happens to a process is told in the stories of the records that it has.
func (n *narrator) concerns(s *story, e *history.Event) bool {
	if s.record < 0 {
		return e.Time >= s.from && e.Kind == history.KindSubjectError
	}
	return s.born && !s.covered && s.owners[holder{e.Instance, e.Run}]
}

func (n *narrator) fault(e *history.Event) {
	text := e.Text
	if text == "" && e.Op >= 0 && e.Op < int64(len(n.w.faults)) {
		text = n.w.faults[e.Op].planned.What
	}
	if e.Kind == history.KindFaultStart {
		n.active[e.Op] = text
	} else {
		delete(n.active, e.Op)
	}
	for _, s := range n.stories {
		if s.born && !s.covered || s.record < 0 && e.Time >= s.from {
			n.add(s, e)
		}
	}
}

// tellsOf reports whether the event is one of those that contradict each other.
func (s *story) tellsOf(e *history.Event) bool {
	return slices.Contains(s.marks, moment{e.Kind, e.Time})
}

func (n *narrator) add(s *story, e *history.Event) {
	marked := s.tellsOf(e)
	if e.Time > s.to && !marked {
		return
	}
	if len(s.witness.Biography) >= linesLimit && !marked {
		return
	}
	s.witness.Biography = append(s.witness.Biography, Line{Time: e.Time, Kind: e.Kind.String(), Text: n.words(e), Marked: marked})
}

// words says what an event was.
func (n *narrator) words(e *history.Event) string {
	who := fmt.Sprintf("instance %d", e.Instance)
	if e.Instance == history.Replayer {
		who = "the replay tool"
	}
	if e.Run > 0 {
		who += fmt.Sprintf(" (start %d)", e.Run+1)
	}
	where := fmt.Sprintf("%s-%d", n.w.topicName(e.Topic), e.Partition)
	switch e.Kind {
	case history.KindSend:
		return fmt.Sprintf("sent to %s, planned as %s", where, e.Outcome)
	case history.KindAcked:
		return n.ofWorkload(e, where)
	case history.KindAttemptStart:
		return fmt.Sprintf("%s: attempt %d starts", who, e.N)
	case history.KindAttemptEnd:
		return fmt.Sprintf("%s: attempt %d is answered %s%s", who, e.N, e.Outcome, flagged(e.Flags, history.ClientGone, ", but the client had gone"))
	case history.KindFetched:
		return fmt.Sprintf("%s fetches %s offsets %d to %d", who, where, e.Offset, e.Aux)
	case history.KindAssigned:
		return fmt.Sprintf("%s is assigned %s", who, where)
	case history.KindRevoked:
		return fmt.Sprintf("%s loses %s (%s)", who, where, e.Text)
	case history.KindCommitRequest:
		return fmt.Sprintf("%s asks to commit %s up to offset %d", who, where, e.Offset)
	case history.KindCommitResponse:
		return fmt.Sprintf("the commit of %s up to offset %d is %s", where, e.Offset, answer(e))
	case history.KindProduceRequest:
		return fmt.Sprintf("%s writes it to %s", who, where)
	case history.KindProduceResponse:
		return fmt.Sprintf("the write to %s is %s", where, answer(e))
	}
	return n.rareWords(e, who, where)
}

func (n *narrator) ofWorkload(e *history.Event, where string) string {
	if e.Code != 0 {
		return fmt.Sprintf("not acknowledged to the workload (%s): it may be in %s or not", errorName(e.Code), where)
	}
	return fmt.Sprintf("acknowledged at %s offset %d", where, e.Offset)
}

func (n *narrator) rareWords(e *history.Event, who, where string) string {
	switch e.Kind {
	case history.KindInstanceStarting:
		return who + " starts"
	case history.KindInstanceSignal:
		return fmt.Sprintf("%s gets %s", who, e.Text)
	case history.KindInstanceExited:
		if e.Text != "" {
			return fmt.Sprintf("%s ends by %s", who, e.Text)
		}
		return fmt.Sprintf("%s ends with code %d", who, e.Code)
	case history.KindSubjectError:
		return fmt.Sprintf("%s logs: %s", who, e.Text)
	case history.KindFaultStart:
		return "fault begins: " + e.Text
	case history.KindFaultEnd:
		return "fault ends: " + e.Text
	case history.KindAuditRecord:
		return fmt.Sprintf("the audit finds it in %s at offset %d", where, e.Offset)
	case history.KindReplaySelected:
		return fmt.Sprintf("its dead letter at %s offset %d is selected for replay", where, e.Offset)
	}
	return e.Text
}

func flagged(flags, flag history.Flags, text string) string {
	if flags.Has(flag) {
		return text
	}
	return ""
}

// answer says how a request was answered.
// errorName is Kafka's name of an error code.
func errorName(code int16) string {
	var known *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &known) && known.Code == code {
		return known.Message
	}
	return fmt.Sprintf("error %d", code)
}

// near rounds a duration to three digits or so: what is read in a sentence.
func near(d time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d.Abs() >= step {
			return d.Round(step / 100)
		}
	}
	return d
}

func answer(e *history.Event) string {
	text := "accepted"
	if e.Code != 0 {
		text = "refused with " + errorName(e.Code)
	}
	text += flagged(e.Flags, history.Forged, " by a fault in the broker's place")
	return text + flagged(e.Flags, history.Withheld, ", but the answer is withheld")
}
