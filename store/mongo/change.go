package mongo

import (
	"cmp"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/dlqbench/dlqbench/store"
)

// update is one change of an entry, from which the update document is made.
type update struct {
	now      time.Time
	from, to store.State
	// version is the entry's new version.
	version int64
	// worker holds the entry afterwards, for the lease; "" means unlocked.
	worker string
	lease  time.Duration
	// next is the earliest time at which a worker may take the entry; with the zero time, workers do not take it.
	// keepNext leaves the time unchanged.
	next     time.Time
	keepNext bool
	change   store.Change
	// created is the entry's creation time, from which the time in the DLQ is computed when the entry ends.
	created time.Time
	// event and pattern are those of an edited message.
	event *store.Entry
}

// operators returns the update document. A document changes atomically.
func (s *Store) operators(u update) bson.D {
	status, held := s.words.Write(u.to)
	set := bson.D{{Key: "status", Value: status}, {Key: "held", Value: held}, {Key: "updatedAt", Value: u.now}}
	if u.worker != "" {
		set = append(set, bson.E{Key: "lockedBy", Value: store.Cut(u.worker, 255)}, bson.E{Key: "lockedAt", Value: u.now},
			bson.E{Key: "leaseUntil", Value: millis(u.now.Add(u.lease))})
	} else {
		set = append(set, bson.E{Key: "lockedBy", Value: nil}, bson.E{Key: "lockedAt", Value: nil},
			bson.E{Key: "leaseUntil", Value: nil})
	}
	if !u.keepNext {
		set = append(set, bson.E{Key: "nextRetryAt", Value: writeTime(u.next)})
	}
	set = append(set, s.changed(u)...)
	grown := bson.D{{Key: "version", Value: int64(1)}}
	if u.change.Retried {
		grown = append(grown, bson.E{Key: "dlqRetryCount", Value: 1})
	}
	added := bson.D{}
	if u.change.Attempt != nil {
		added = append(added, bson.E{Key: "replayAttempts", Value: writeAttempt(*u.change.Attempt)})
	}
	if s.audit {
		added = append(added, bson.E{Key: "transitions", Value: s.transition(u)})
	}
	whole := bson.D{{Key: "$set", Value: set}, {Key: "$inc", Value: grown}}
	if len(added) > 0 {
		whole = append(whole, bson.E{Key: "$push", Value: added})
	}
	return whole
}

// changed returns the fields that a Change names.
func (s *Store) changed(u update) bson.D {
	var set bson.D
	put := func(field string, value any) { set = append(set, bson.E{Key: field, Value: value}) }
	if u.change.Strategy != "" {
		put("strategy", store.Cut(string(u.change.Strategy), 50))
	}
	if u.change.Priority != nil {
		put("metadata.priority", *u.change.Priority)
	}
	if failure := u.change.Failure; failure != nil {
		put("errorReason", store.EncodeText(failure.Message))
		put("errorType", store.Cut(failure.Type, 100))
		put("errorCode", store.Cut(failure.Code, 100))
		put("errorStack", store.EncodeText(failure.Stack))
		put("errorContext", store.EncodeText(string(failure.Context)))
		put("metadata.systemState", systemState(failure.Context))
		put("lastFailedAt", u.now)
	}
	if u.event != nil {
		message, text := writeEvent(*u.event)
		put("originalMessage", message)
		put("originalJSON", text)
		put("pattern", store.EncodeText(u.event.Pattern))
		put("raw.value", u.event.Value)
	}
	switch {
	case u.change.Resolution != nil:
		put("resolution", u.ended())
	case u.change.Notes != "":
		put("resolution.notes", store.EncodeText(u.change.Notes))
	}
	return set
}

func (u update) ended() ended {
	resolution := *u.change.Resolution
	if resolution.At.IsZero() {
		resolution.At = u.now
	}
	resolution.Notes = cmp.Or(resolution.Notes, u.change.Notes)
	return ended{
		Timestamp: writeTime(resolution.At), Strategy: resolution.How, ResolvedBy: store.Cut(resolution.By, 255),
		Notes: store.EncodeText(resolution.Notes), InDLQMillis: millis(resolution.At).Sub(millis(u.created)).Milliseconds(),
	}
}

func (s *Store) transition(u update) transition {
	from, heldFrom := s.words.Write(u.from)
	to, heldTo := s.words.Write(u.to)
	noted := transition{
		Version: u.version, From: from, HeldFrom: heldFrom, To: to, HeldTo: heldTo, At: u.now,
		Worker: store.Cut(u.worker, 255), Retried: u.change.Retried, Strategy: store.Cut(string(u.change.Strategy), 50),
		NextRetryAt: writeTime(u.next),
	}
	if u.worker != "" {
		noted.LeaseUntil = writeTime(u.now.Add(u.lease))
	}
	return noted
}

// schedule sets the time at which a worker may take the entry. An edit leaves it unchanged unless it names one, and a
// lock keeps it.
func (u *update) schedule() {
	switch {
	case u.to == store.Pending && !u.change.RetryAt.IsZero():
		u.next = u.change.RetryAt
	case u.to == store.Pending && u.change.RetryIn > 0:
		u.next = u.now.Add(u.change.RetryIn)
	default:
		u.keepNext = u.to == u.from || u.to == store.Processing
	}
}
