package assertions

// The traces of the counterexamples. A second walk through the history collects the events of the few records and
// partitions that have a counterexample, and puts them into words.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// trace is a counterexample whose timeline is being built.
type trace struct {
	sighting
	counterexample *Counterexample
	// whole: nothing is left out.
	whole bool
	// Set during the walk.
	born   bool
	owners map[holder]bool
	// at holds the positions of the record, the source first; letters holds those of its dead letters, and key is the
	// number of its key.
	at      []toldPlace
	letters []place
	key     int64
	// ended is when its latest attempt ended.
	ended time.Duration
	// commits holds the commits of the record that were requested and not answered, by operation; moved, fenced and
	// taken describe the group.
	commits map[int64]string
	group   []string
	// row is how many lines of a log end the trace that name no record.
	row int
	// takenBack: the event that is being added takes back the commit of the record.
	takenBack bool
	// joined holds the producers that have part of the trace in an open transaction.
	joined map[int64]bool
}

// toldPlace is a position of a trace's record.
type toldPlace struct {
	place
	// covered: an accepted commit covers it. ending: the producer whose open transaction has a commit that covers it,
	// or none.
	covered bool
	ending  int64
}

// linesLimit is the largest number of lines in a trace. Marked lines are always included.
const linesLimit = 120

// rowLimit is the largest number of lines of a log in a row that name no record. A line after them counts the others:
// a framework may log a stack for each attempt at any record, and the record's own events would be lost among them.
const rowLimit = 3

// errTold ends the walk when every trace is complete.
var errTold = errors.New("every trace is told")

// narrator builds all traces in one walk.
type narrator struct {
	w        *state
	ids      *history.IDs
	lines    *lineReader
	traces   []*trace
	byRecord map[int32][]*trace
	active   map[int64]string // faults that are in force
	until    time.Duration
	keys     keys
}

func newNarrator(w *state) *narrator {
	ids := w.header.IDs()
	return &narrator{w: w, ids: ids, lines: newLineReader(w.header, ids), byRecord: map[int32][]*trace{},
		active: map[int64]string{}}
}

// enter adds a trace to be built.
func (n *narrator) enter(s *trace) {
	s.owners, s.joined, s.commits, s.ended = map[holder]bool{}, map[int64]bool{}, map[int64]string{}, never
	s.key = none
	n.traces = append(n.traces, s)
	n.until = max(n.until, s.to)
	s.counterexample.Command = n.w.showCommand(&s.sighting)
	if s.record < 0 {
		return
	}
	s.counterexample.ID = n.ids.Token(s.record)
	n.byRecord[s.record] = append(n.byRecord[s.record], s)
	if s.offset >= 0 {
		s.at = append(s.at, toldPlace{place: place{s.topic, s.partition, s.offset}, ending: none})
	}
}

// showCommand is the command that prints the whole trace.
func (w *state) showCommand(s *sighting) string {
	switch {
	case s.record >= 0:
		return fmt.Sprintf("dlqbench show-record %s %d", w.header.RunID, s.record)
	case s.topic >= 0 && s.partition >= 0 && s.offset >= 0:
		return fmt.Sprintf("dlqbench show-record %s %s/%d/%d", w.header.RunID, w.topicName(s.topic), s.partition, s.offset)
	}
	return ""
}

// fillTraces fills in the traces of all counterexamples of a verdict, and the names of the records that it names.
func (w *state) fillTraces(source history.Source, v *Verdict) error {
	if len(w.traces) == 0 {
		return nil
	}
	n := newNarrator(w)
	n.keys, n.until = keysOf(v)
	for i := range w.traces {
		n.enter(&w.traces[i])
	}
	if err := n.walk(source); err != nil {
		return err
	}
	n.keys.name(v, n.ids)
	return nil
}

func (n *narrator) walk(source history.Source) error {
	if err := source.Each(n.take); err != nil && !errors.Is(err, errTold) {
		return err
	}
	return nil
}

func (n *narrator) take(e *history.Event) error {
	if e.Time > n.until {
		return errTold
	}
	n.keys.hear(e, n.w.header)
	switch e.Kind {
	case history.KindSend, history.KindAcked, history.KindAttemptStart, history.KindAttemptEnd, history.KindCallStart,
		history.KindCallEnd, history.KindProduceRequest, history.KindProduceResponse, history.KindAuditRecord,
		history.KindReplaySelected, history.KindEffect:
		for _, s := range n.byRecord[e.Record] {
			n.own(s, e)
		}
	case history.KindFetched, history.KindCommitRequest, history.KindCommitResponse, history.KindAssigned,
		history.KindRevoked, history.KindShareAcquired, history.KindShareAckRequest, history.KindShareAckResponse:
		for _, s := range n.traces {
			n.around(s, e)
		}
	case history.KindTxnEndRequest, history.KindTxnEndResponse:
		for _, s := range n.traces {
			n.endTransaction(s, e)
		}
	case history.KindStoreChange, history.KindStoreEntry:
		n.inStore(e)
	case history.KindInstanceStarting, history.KindInstanceSignal, history.KindInstanceExited, history.KindSubjectError,
		history.KindSubjectHealth, history.KindMembership:
		for _, s := range n.traces {
			if n.concerns(s, e) {
				n.process(s, e)
			}
		}
	case history.KindFaultStart, history.KindFaultEnd:
		n.fault(e)
	}
	return nil
}

// own adds the events of the record itself.
func (n *narrator) own(s *trace, e *history.Event) {
	if !s.born {
		s.born = true
		for _, text := range n.inForce() {
			s.counterexample.Trace = append(s.counterexample.Trace, Line{Time: e.Time, Kind: "fault", Text: "in force: " + text})
		}
	}
	if e.Instance >= 0 || history.OfStore(e.Instance) {
		s.owners[holder{e.Instance, e.Run}] = true
	}
	if e.Flags.Has(history.InTransaction) {
		s.joined[e.ProducerID] = true
	}
	original := e.Kind == history.KindAuditRecord && n.w.role(e.Topic) == history.RoleInput && e.Offset == s.offset
	if original && !s.tellsOf(e) {
		return // the original at its known position adds no information
	}
	n.add(s, e)
	switch {
	case e.Kind == history.KindSend && e.N >= 0:
		s.key = int64(e.N % history.BinaryKey)
	case e.Kind == history.KindProduceResponse && e.Code == 0 && e.Offset >= 0:
		s.lies(place{e.Topic, e.Partition, e.Offset}, n.w.role(e.Topic))
	case e.Kind == history.KindAttemptEnd:
		s.ended = e.Time
	}
}

// lies notes where a copy of the record was written.
func (s *trace) lies(where place, role history.Role) {
	if role == history.RoleDLQ {
		s.letters = append(s.letters, where)
	} else {
		s.at = append(s.at, toldPlace{place: where, ending: none})
	}
}

// inStore adds a change of the record's entry, or of an entry without a record that the trace marks.
func (n *narrator) inStore(e *history.Event) {
	if e.Record >= 0 {
		for _, s := range n.byRecord[e.Record] {
			n.own(s, e)
		}
		return
	}
	for _, s := range n.traces {
		if s.record < 0 && s.tellsOf(e) {
			n.add(s, e)
		}
	}
}

func (n *narrator) inForce() []string {
	var all []string
	for _, text := range n.active {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// open reports whether a position of the record is not committed yet, so that events around it are relevant.
func (s *trace) open() bool {
	if len(s.at) == 0 || s.whole {
		return s.born
	}
	return s.born && slices.ContainsFunc(s.at, func(one toldPlace) bool { return !one.covered })
}

// around adds the events of the record's partitions, as far as they concern the trace.
func (n *narrator) around(s *trace, e *history.Event) {
	if s.record < 0 {
		if e.Topic == s.topic && e.Partition == s.partition && e.Time >= s.from &&
			e.Kind != history.KindFetched && e.Kind != history.KindShareAcquired {
			n.joins(s, e)
			n.add(s, e)
		}
		return
	}
	told := false
	for i := range s.at {
		one := &s.at[i]
		if told || e.Topic != one.topic || e.Partition != one.partition {
			continue
		}
		told = n.aroundPlace(s, one, e)
	}
	if !told && e.Kind == history.KindFetched && slices.ContainsFunc(s.letters, func(at place) bool {
		return at.topic == e.Topic && at.partition == e.Partition && e.Offset <= at.offset && at.offset <= e.Aux
	}) {
		n.add(s, e) // its dead letter comes back to a consumer
	}
}

// aroundPlace adds an event at one of the record's positions, and reports whether it did.
func (n *narrator) aroundPlace(s *trace, one *toldPlace, e *history.Event) bool {
	switch e.Kind {
	case history.KindFetched, history.KindShareAcquired, history.KindShareAckRequest, history.KindShareAckResponse:
		if one.offset < e.Offset || one.offset > e.Aux {
			return false
		}
		s.owners[holder{e.Instance, e.Run}] = true
		if e.Kind == history.KindShareAckResponse && e.Code == 0 && !e.Flags.Has(history.Forged) {
			one.covered = one.covered || e.N == history.AckAccept || e.N == history.AckReject
		}
	case history.KindCommitRequest, history.KindCommitResponse:
		if e.Kind == history.KindCommitResponse {
			delete(s.commits, e.Op) // it was answered, also where the answer is not told
		}
		// Until a commit is accepted, all commits that cover the record are relevant; later ones only if they take it back.
		covers := n.covers(one, e)
		if back := one.covered && !covers && !e.Flags.Has(history.InTransaction); !s.born ||
			!back && (!covers || one.covered && !s.tellsOf(e)) {
			return false
		}
		n.joins(s, e)
		if e.Kind == history.KindCommitResponse && e.Code == 0 && !e.Flags.Has(history.Forged) {
			s.takenBack = !covers
			one.covered = covers && !e.Flags.Has(history.InTransaction)
			if covers && !one.covered {
				one.ending = e.ProducerID
			}
		}
	default:
		if !s.open() || one.covered && !s.whole {
			return false
		}
	}
	n.noteGroup(s, e)
	n.add(s, e)
	return true
}

// covers reports whether a commit declares the place done.
func (n *narrator) covers(one *toldPlace, e *history.Event) bool {
	if e.Offset > one.offset {
		return true
	}
	if n.w.contract.OffsetMetadata != history.MetadataRanges {
		return false
	}
	named, _ := parseRanges(e.Text, e.Offset)
	return named.has(one.offset)
}

func (n *narrator) joins(s *trace, e *history.Event) {
	if e.Flags.Has(history.InTransaction) {
		s.joined[e.ProducerID] = true
	}
}

// endTransaction adds the end of a transaction that contains part of the trace.
func (n *narrator) endTransaction(s *trace, e *history.Event) {
	if !s.joined[e.ProducerID] {
		return
	}
	if !e.InBatch() || s.tellsOf(e) { // the answers to its attempts say as much
		n.add(s, e)
	}
	if e.Kind != history.KindTxnEndResponse || e.Code != 0 || e.Flags.Has(history.Forged) {
		return
	}
	delete(s.joined, e.ProducerID)
	for i := range s.at {
		if one := &s.at[i]; one.ending == e.ProducerID {
			one.covered, one.ending = one.covered || e.N == 1, none
		}
	}
}

// concerns reports whether an event of a process belongs to the trace: it does if the process has the record.
func (n *narrator) concerns(s *trace, e *history.Event) bool {
	if s.record < 0 {
		return e.Time >= s.from && e.Kind == history.KindSubjectError || s.tellsOf(e)
	}
	if e.Kind == history.KindMembership {
		return false // events of the record's partition are added elsewhere
	}
	by := holder{e.Instance, e.Run}
	if e.Kind == history.KindInstanceStarting && e.Run > 0 {
		by.run-- // it replaces a process that had the record
	}
	return s.open() && s.owners[by]
}

// process adds an event of a process. Of several lines of its log in a row that name no record, it adds the first few,
// and counts the others.
func (n *narrator) process(s *trace, e *history.Event) {
	named, row, length := n.named(s, e), s.row, len(s.counterexample.Trace)
	switch {
	case named == namesOthers:
		return
	case row <= rowLimit || named == namesOwn:
		if n.add(s, e); len(s.counterexample.Trace) == length {
			return
		}
	}
	if named == namesNone {
		s.row = row + 1
	}
	if more := s.row - rowLimit; more > 0 {
		s.counterexample.Trace[len(s.counterexample.Trace)-1].Text = units.Plural(int64(more), "further line",
			"further lines") + " of the log"
	}
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
	for _, s := range n.traces {
		if s.open() || s.record < 0 && e.Time >= s.from {
			n.add(s, e)
		}
	}
}

// tellsOf reports whether the event is part of the contradiction. The effect of a transaction happens at its end.
func (s *trace) tellsOf(e *history.Event) bool {
	kind := e.Kind
	switch kind {
	case history.KindTxnEndRequest, history.KindShareAckRequest:
		kind = history.KindCommitRequest
	case history.KindTxnEndResponse:
		kind = history.KindProduceResponse
	}
	return slices.Contains(s.marks, moment{kind, e.Time})
}

func (n *narrator) add(s *trace, e *history.Event) {
	marked, back := s.tellsOf(e), s.takenBack
	s.takenBack = false
	if !marked && (e.Time > s.to || len(s.counterexample.Trace) >= linesLimit && !s.whole) {
		return
	}
	text := n.words(e)
	if e.Kind == history.KindAttemptStart && s.ended >= 0 {
		text += fmt.Sprintf(", %s after the last one ended", units.Text(e.Time-s.ended))
	}
	if back {
		text += ", so that the record is uncommitted again"
	}
	p := n.w.wayOf(e)
	s.meet(p)
	s.row = 0
	s.counterexample.Trace = append(s.counterexample.Trace, Line{
		Time: e.Time, Kind: e.Kind.String(), Text: text, Marked: marked, From: p.from.Name, To: p.to.Name, Failed: p.failed,
		Label: label(e),
	})
}

// planned describes what is planned for a sent record.
func planned(e *history.Event) string {
	switch {
	case e.Flags.Has(history.Tombstone):
		return "with a null value"
	case e.Flags.Has(history.Garbage | history.Refusable):
		return "with a value that a consumer may refuse, as this one did"
	case e.Flags.Has(history.Refusable):
		return "with a value that a consumer may refuse, which this one did not; planned as " + e.Outcome.String()
	case e.Flags.Has(history.Garbage):
		return "with a value that can't be decoded"
	}
	return "planned as " + e.Outcome.String()
}

// words describes an event.
func (n *narrator) words(e *history.Event) string {
	who := fmt.Sprintf("instance %d", e.Instance)
	switch kind, number := history.StoreProcess(e.Instance); {
	case kind != "":
		who = fmt.Sprintf("%s %d", kind, number)
	case e.Instance == history.Replayer:
		who = "the replay tool"
	}
	if e.Run > 0 {
		who += fmt.Sprintf(" (start %d)", e.Run+1)
	}
	where := n.w.partitionName(e.Topic, e.Partition)
	switch e.Kind {
	case history.KindSend:
		return fmt.Sprintf("sent %sto %s, %s", flagged(e.Flags, history.Repeated, "again "), where, planned(e))
	case history.KindAcked:
		return n.ofWorkload(e, where)
	case history.KindAttemptStart:
		return fmt.Sprintf("%s: attempt %d starts%s", who, e.N, calling(e))
	case history.KindAttemptEnd:
		if n.w.contract.LastCall != "" && e.Flags.Has(history.ClientGone) {
			return fmt.Sprintf("%s does not go on with attempt %d", who, e.N)
		}
		return fmt.Sprintf("%s: attempt %d is answered %s%s", who, e.N, e.Outcome,
			flagged(e.Flags, history.ClientGone, ", but the client had gone"))
	case history.KindCallStart:
		return fmt.Sprintf("%s calls %s%s", who, n.w.calledName(e), calling(e))
	case history.KindCallEnd:
		return fmt.Sprintf("%s: the call of %s is answered %s%s", who, n.w.calledName(e), e.Outcome,
			flagged(e.Flags, history.ClientGone, ", but the client had gone"))
	case history.KindFetched:
		return fmt.Sprintf("%s fetches %s offsets %d to %d", who, where, e.Offset, e.Aux)
	case history.KindAssigned:
		return fmt.Sprintf("%s is assigned %s%s", who, where, inOtherGroup(e))
	case history.KindRevoked:
		return fmt.Sprintf("%s loses %s (%s)", who, where, e.Text)
	case history.KindCommitRequest:
		return fmt.Sprintf("%s asks to commit %s up to offset %d%s%s%s", who, where, e.Offset, n.naming(e), inTransaction(e),
			inOtherGroup(e))
	case history.KindCommitResponse:
		return fmt.Sprintf("the commit of %s up to offset %d is %s", where, e.Offset, answer(e))
	case history.KindProduceRequest:
		if e.Text != "" {
			return fmt.Sprintf("%s sends it to %s%s", who, where, calling(e))
		}
		return fmt.Sprintf("%s writes it to %s%s%s", who, where, inTransaction(e),
			flagged(e.Flags, history.Unanswered, " and asks for no answer (acks=0)"))
	case history.KindProduceResponse:
		return fmt.Sprintf("the write to %s is %s", where, answer(e))
	case history.KindTxnEndRequest, history.KindTxnEndResponse:
		return endOf(e, who)
	}
	return n.rareWords(e, who, where)
}

// endOf describes the end of a transaction.
func endOf(e *history.Event, who string) string {
	switch {
	case e.InBatch():
		return fmt.Sprintf("the call of %s takes effect for %s", who,
			map[bool]string{true: "its records that succeeded", false: "none of its records"}[e.N == 1])
	case e.Kind == history.KindTxnEndRequest:
		return fmt.Sprintf("%s asks to %s its transaction", who, map[bool]string{true: "commit", false: "abort"}[e.N == 1])
	}
	return fmt.Sprintf("the end of the transaction is %s", answer(e))
}

// calling describes the call of an attempt, if the history tells it.
func calling(e *history.Event) string {
	switch {
	case e.Text == "":
		return ""
	case e.InBatch():
		return " with " + e.Text + ", for several records"
	}
	return " with " + e.Text
}

// naming describes the offsets beyond the committed one that the commit's metadata names.
func (n *narrator) naming(e *history.Event) string {
	if e.Text == "" || n.w.contract.OffsetMetadata != history.MetadataRanges {
		return ""
	}
	return fmt.Sprintf(", naming %q beyond it", e.Text)
}

func inTransaction(e *history.Event) string {
	return flagged(e.Flags, history.InTransaction, ", in a transaction")
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
		if e.N == 1 {
			return fmt.Sprintf("%s gets %s, as its contract has it restarted when it is unhealthy", who, e.Text)
		}
		return fmt.Sprintf("%s gets %s", who, e.Text)
	case history.KindInstanceExited:
		switch {
		case e.Text != "":
			return fmt.Sprintf("%s ends by %s", who, e.Text)
		case n.w.contract.ProcessUnseen:
			return who + " ends, with its last connection"
		}
		return fmt.Sprintf("%s ends with code %d", who, e.Code)
	case history.KindMembership:
		return fmt.Sprintf("%s %s", who, membership(e))
	case history.KindSubjectError:
		return fmt.Sprintf("%s logs: %s", who, e.Text)
	case history.KindSubjectHealth:
		if e.N > 0 {
			return who + " says that it is healthy"
		}
		return fmt.Sprintf("%s says that it is unhealthy: %s", who, e.Text)
	case history.KindFaultStart:
		return "fault begins: " + e.Text
	case history.KindFaultEnd:
		return "fault ends: " + e.Text
	case history.KindAuditRecord:
		if e.Flags.Has(history.Repeated) {
			return fmt.Sprintf("the audit finds the copy that a fault wrote in %s at offset %d", where, e.Offset)
		}
		return fmt.Sprintf("the audit finds it in %s at offset %d", where, e.Offset)
	case history.KindEffect:
		return effectWords(e, where)
	case history.KindShareAcquired:
		return fmt.Sprintf("%s is handed %s offsets %d to %d, delivery %d", who, where, e.Offset, e.Aux, e.N)
	case history.KindShareAckRequest:
		return fmt.Sprintf("%s asks to %s %s offsets %d to %d", who, ackName(e.N), where, e.Offset, e.Aux)
	case history.KindShareAckResponse:
		return fmt.Sprintf("its %s of %s offsets %d to %d is %s", ackName(e.N), where, e.Offset, e.Aux, answer(e))
	case history.KindStoreChange:
		return storeWords(e)
	case history.KindStoreEntry:
		if one, err := history.ParseStoreChange(e.Text); err == nil {
			return fmt.Sprintf("the audit finds entry %d in the store: %s", e.Op, one.To)
		}
		return e.Text
	case history.KindReplaySelected:
		return fmt.Sprintf("its dead letter at %s offset %d is selected for replay", where, e.Offset)
	}
	return e.Text
}

// storeWords describes the new state of an entry.
func storeWords(e *history.Event) string {
	one, err := history.ParseStoreChange(e.Text)
	if err != nil {
		return e.Text
	}
	text := fmt.Sprintf("entry %d is %s", e.Op, one.To)
	switch {
	case one.From == history.StoreAbsent:
		text = fmt.Sprintf("entry %d is made, %s", e.Op, one.To)
	case one.To == history.StoreAbsent:
		text = fmt.Sprintf("entry %d, which was %s, is removed", e.Op, one.From)
	case one.From != one.To:
		text = fmt.Sprintf("entry %d goes from %s to %s", e.Op, one.From, one.To)
	}
	if one.Word != "" {
		text += fmt.Sprintf(" (%q)", one.Word)
	}
	if one.By != "" {
		text += ", locked by " + one.By
	}
	if e.N > 0 {
		text += fmt.Sprintf(", after %d DLQ retries", e.N)
	}
	base := e.Time
	if e.Aux != history.None {
		base = time.Duration(e.Aux)
		text += fmt.Sprintf(", %s before this was seen", units.Text(e.Time-base))
	}
	if one.Next != history.None && one.To == history.StorePending {
		text += fmt.Sprintf(", due %s later", units.Text(max(one.Next-base, 0)))
	}
	return text
}

// ackName is KIP-932's name for a type of acknowledgement.
func ackName(how int32) string {
	names := []string{"gap", "accept", "release", "reject", "renew"}
	if how < 0 || int(how) >= len(names) {
		return fmt.Sprintf("acknowledgement %d", how)
	}
	return names[how]
}

func flagged(flags, flag history.Flags, text string) string {
	if flags.Has(flag) {
		return text
	}
	return ""
}

func inOtherGroup(e *history.Event) string {
	return flagged(e.Flags, history.OtherGroup, " in another group than the contract's")
}

// errorName is Kafka's name of an error code, or the status with which a service answers.
func errorName(code int16) string {
	if history.IsStatus(code) {
		return fmt.Sprintf("status %d", code)
	}
	var known *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &known) && known.Code == code {
		return known.Message
	}
	return fmt.Sprintf("error %d", code)
}

// answer describes the answer to a request.
func answer(e *history.Event) string {
	text := "accepted"
	if e.Code != 0 {
		text = "refused with " + errorName(e.Code)
	}
	by := " by a fault in the broker's place"
	if history.IsStatus(e.Code) {
		by = " by a fault"
	}
	text += flagged(e.Flags, history.Forged, by)
	text += flagged(e.Flags, history.Unreplicated, " by the leader alone (acks=1), which then fails")
	return text + flagged(e.Flags, history.Withheld, ", but the answer is withheld")
}
