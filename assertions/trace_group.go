package assertions

// The group events in a record's trace: commits that were refused or got no answer, and partitions that changed hands.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// noteGroup notes group events at a place of the record.
func (n *narrator) noteGroup(s *trace, e *history.Event) {
	where := n.w.partitionName(e.Topic, e.Partition)
	switch e.Kind {
	case history.KindCommitRequest:
		s.commits[e.Op] = fmt.Sprintf("The commit of %s up to offset %d that instance %d asked for at %s was never answered.",
			where, e.Offset, e.Instance, units.Text(e.Time))
	case history.KindCommitResponse:
		delete(s.commits, e.Op)
		switch {
		case e.Flags.Has(history.Withheld):
			s.tell(fmt.Sprintf("The answer to the commit of %s up to offset %d did not reach instance %d.", where, e.Offset,
				e.Instance))
		case groupCause(e.Code) != "":
			s.tell(fmt.Sprintf("The commit of %s up to offset %d was refused with %s at %s: %s.", where, e.Offset,
				errorName(e.Code), units.Text(e.Time), groupCause(e.Code)))
		}
	case history.KindRevoked:
		s.tell(fmt.Sprintf("Instance %d lost %s at %s (%s).", e.Instance, where, units.Text(e.Time), e.Text))
	}
}

// groupCause describes what an error of a commit says about the group; "" for other errors.
func groupCause(code int16) string {
	switch code {
	case kerr.NotCoordinator.Code:
		return "the group's coordinator had moved"
	case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code:
		return "the group's coordinator was not there yet"
	case kerr.RebalanceInProgress.Code, kerr.IllegalGeneration.Code, kerr.StaleMemberEpoch.Code:
		return "the group was rebalanced meanwhile"
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code, kerr.FencedMemberEpoch.Code:
		return "the group had put the member out"
	case kerr.RequestTimedOut.Code:
		return "the coordinator did not store it in time"
	}
	return ""
}

// membership describes an event of the group's members.
func membership(e *history.Event) string {
	switch e.Text {
	case "leave":
		return "leaves its group"
	case "silent":
		return "was not heard of in its group for a whole session"
	case "seeks":
		return "looks for its group in vain"
	case "":
		return "joins its group"
	}
	return "is put out of its group"
}

// groupLimit is the largest number of group events in a trace.
const groupLimit = 8

func (s *trace) tell(text string) {
	if len(s.group) < groupLimit && !slices.Contains(s.group, text) {
		s.group = append(s.group, text)
	}
}

// ofGroup describes the group events at the record's places, or returns "" if there were none.
func (s *trace) ofGroup() string {
	for _, op := range sortedOps(s.commits) {
		s.tell(s.commits[op])
	}
	if len(s.group) == 0 {
		return ""
	}
	return "In the group: " + strings.Join(s.group, " ") + "\n"
}

func sortedOps(commits map[int64]string) []int64 {
	var ops []int64
	for op := range commits {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	return ops
}
