package assertions

// The participants of a trace: each event has a sender and a receiver, so that the trace can be drawn as a sequence
// diagram.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// Role is what a participant of a trace is.
type Role string

// The roles of participants, beside those of topics (history.RoleInput …).
const (
	RoleWorkload   Role = "workload"
	RoleBroker     Role = "broker"
	RoleInstance   Role = "instance"
	RoleDownstream Role = "downstream"
	RoleRouter     Role = "router"
	RoleStore      Role = "store"
	RoleWorker     Role = "worker"
	RoleKeeper     Role = "keeper"
	RoleReplay     Role = "replay tool"
)

// Actor is a participant of a trace.
type Actor struct {
	// Name as the lines say it in From and To: "workload", "instance 0", "downstream", or a topic without the run's
	// prefix.
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// rolesInOrder is the order of the lanes: the path of a record.
func rolesInOrder() []Role {
	return []Role{
		RoleWorkload, Role(history.RoleInput), Role(history.RoleNode), RoleBroker, RoleInstance, RoleDownstream,
		Role(history.RoleRetry), Role(history.RoleDLQ),
		Role(history.RoleQuarantine), Role(history.RoleSink), RoleRouter, RoleStore, RoleWorker, RoleKeeper, RoleReplay,
	}
}

// way is the sender and the receiver of an event. An event without To happened at From alone. An event without either
// concerns all participants (a fault).
type way struct {
	from, to Actor
	// failed: a negative answer, an unrequested end, or an error.
	failed bool
}

// who returns the process to which the event belongs.
func who(e *history.Event) Actor {
	switch kind, number := history.StoreProcess(e.Instance); {
	case kind != "":
		return Actor{fmt.Sprintf("%s %d", kind, number), Role(kind)}
	case e.Instance == history.Replayer:
		return Actor{string(RoleReplay), RoleReplay}
	case e.Instance < 0:
		return Actor{}
	}
	return Actor{fmt.Sprintf("instance %d", e.Instance), RoleInstance}
}

// wayOf returns the sender and the receiver of an event.
func (w *state) wayOf(e *history.Event) way {
	topic := Actor{w.topicName(e.Topic), Role(w.role(e.Topic))}
	workload, store := Actor{"workload", RoleWorkload}, Actor{"store", RoleStore}
	downstream := Actor{w.decidingName(), RoleDownstream}
	coordinator := Actor{"broker", RoleBroker}
	if e.InBatch() {
		coordinator = downstream
	}
	refused := e.Code != 0
	switch e.Kind {
	case history.KindSend:
		return way{from: workload, to: topic}
	case history.KindAcked:
		return way{from: topic, to: workload, failed: refused}
	case history.KindFetched, history.KindShareAcquired, history.KindAssigned, history.KindRevoked:
		return way{from: topic, to: who(e)}
	case history.KindCommitRequest, history.KindProduceRequest, history.KindShareAckRequest:
		return way{from: who(e), to: topic}
	case history.KindCommitResponse, history.KindProduceResponse, history.KindShareAckResponse:
		return way{from: topic, to: who(e), failed: refused}
	case history.KindTxnEndRequest:
		return way{from: who(e), to: coordinator}
	case history.KindTxnEndResponse:
		return way{from: coordinator, to: who(e), failed: refused}
	case history.KindAttemptStart:
		return way{from: who(e), to: downstream}
	case history.KindCallStart:
		return way{from: who(e), to: Actor{w.calledName(e), RoleDownstream}}
	case history.KindCallEnd:
		return way{from: Actor{w.calledName(e), RoleDownstream}, to: who(e), failed: e.Outcome != history.OutcomeSuccess}
	case history.KindAttemptEnd:
		return way{from: downstream, to: who(e), failed: e.Outcome != history.OutcomeSuccess}
	case history.KindInstanceStarting, history.KindInstanceSignal, history.KindMembership:
		return way{from: who(e)}
	case history.KindInstanceExited:
		return way{from: who(e), failed: !e.Flags.Has(history.Expected)}
	case history.KindSubjectError:
		return way{from: who(e), failed: true}
	case history.KindSubjectHealth:
		return way{from: who(e), failed: e.N == 0}
	case history.KindAuditRecord, history.KindReplaySelected:
		return way{from: topic}
	case history.KindEffect:
		if e.Topic < 0 {
			return way{from: Actor{"sink", Role(history.RoleSink)}}
		}
		return way{from: topic}
	case history.KindStoreEntry:
		return way{from: store}
	case history.KindStoreChange:
		if by := who(e); by.Name != "" {
			return way{from: by, to: store}
		}
		return way{from: store}
	}
	return way{}
}

// meet adds the participants of a way to the counterexample, in the order of the lanes.
func (s *trace) meet(p way) {
	order := rolesInOrder()
	// A topic without a role belongs to another node of a graph. It is placed beside the input.
	rank := func(a Actor) int {
		if a.Role == "" {
			a.Role = Role(history.RoleInput)
		}
		return slices.Index(order, a.Role)
	}
	for _, one := range []Actor{p.from, p.to} {
		if one.Name == "" || slices.Contains(s.counterexample.Actors, one) {
			continue
		}
		at, _ := slices.BinarySearchFunc(s.counterexample.Actors, one, func(a, b Actor) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		})
		s.counterexample.Actors = slices.Insert(s.counterexample.Actors, at, one)
	}
}

// label describes an event in one or two words. It uses the words of the protocol, because the participants are drawn
// beside it.
func label(e *history.Event) string {
	switch e.Kind {
	case history.KindSend:
		return "send"
	case history.KindAcked:
		return answered(e, fmt.Sprintf("offset %d", e.Offset))
	case history.KindFetched:
		return "fetch " + offsetsOf(e)
	case history.KindAssigned:
		return fmt.Sprintf("assigned p%d", e.Partition)
	case history.KindRevoked:
		return fmt.Sprintf("revoked p%d", e.Partition)
	case history.KindCommitRequest:
		return fmt.Sprintf("commit %d", e.Offset)
	case history.KindProduceRequest:
		return "produce"
	case history.KindProduceResponse:
		return answered(e, fmt.Sprintf("ok, offset %d", e.Offset))
	case history.KindCommitResponse, history.KindShareAckResponse, history.KindTxnEndResponse:
		return answered(e, "ok")
	case history.KindAttemptStart:
		return fmt.Sprintf("attempt %d", e.N)
	case history.KindCallStart:
		return "call"
	case history.KindAttemptEnd, history.KindCallEnd:
		return e.Outcome.String()
	case history.KindTxnEndRequest:
		return map[bool]string{true: "end: commit", false: "end: abort"}[e.N == 1]
	case history.KindShareAcquired:
		return fmt.Sprintf("acquire %s, no. %d", offsetsOf(e), e.N)
	case history.KindShareAckRequest:
		return ackName(e.N) + " " + offsetsOf(e)
	}
	return rareLabel(e)
}

func rareLabel(e *history.Event) string {
	switch e.Kind {
	case history.KindInstanceStarting:
		return fmt.Sprintf("start %d", e.Run+1)
	case history.KindInstanceSignal:
		return e.Text
	case history.KindInstanceExited:
		switch {
		case e.Text != "":
			return "ends by " + e.Text
		case e.Code < 0:
			return "ends"
		}
		return fmt.Sprintf("ends, code %d", e.Code)
	case history.KindMembership:
		return membership(e)
	case history.KindSubjectError:
		return "logs an error"
	case history.KindSubjectHealth:
		return "health: " + e.Text
	case history.KindAuditRecord:
		return fmt.Sprintf("audit: offset %d", e.Offset)
	case history.KindReplaySelected:
		return "selected for replay"
	case history.KindStoreChange, history.KindStoreEntry:
		one, err := history.ParseStoreChange(e.Text)
		switch {
		case err != nil:
			return "changed"
		case e.Kind == history.KindStoreEntry:
			return "audit: " + string(one.To)
		case one.From == one.To || one.From == history.StoreAbsent:
			return string(one.To)
		}
		return fmt.Sprintf("%s → %s", one.From, one.To)
	}
	return ""
}

// offsetsOf returns the offsets of a range, first to last.
func offsetsOf(e *history.Event) string {
	if e.Aux <= e.Offset {
		return fmt.Sprint(e.Offset)
	}
	return fmt.Sprintf("%d–%d", e.Offset, e.Aux)
}

// answered returns the broker's answer: well if there was no error, otherwise the error.
func answered(e *history.Event, well string) string {
	if e.Code != 0 {
		well = errorName(e.Code)
	}
	return well + flagged(e.Flags, history.Withheld, ", withheld")
}
