package store

import (
	"slices"
	"strings"
)

// Fits reports whether the query selects an entry, apart from order and page. It does what a database does, for entries
// outside one.
func (q Query) Fits(e Entry) bool {
	oneOf := func(all []string, value string) bool { return len(all) == 0 || slices.Contains(all, value) }
	same := func(wanted, value string) bool { return wanted == "" || wanted == value }
	fits := (len(q.States) == 0 || slices.Contains(q.States, e.State)) &&
		oneOf(q.ErrorTypes, e.Error.Type) && (q.IDs == nil || slices.Contains(q.IDs, e.ID)) &&
		same(q.Service, e.Service) && same(q.EventID, e.EventID) && same(q.SubscriberID, e.SubscriberID)
	return fits && q.inTime(e) && q.bounded(e) &&
		(len(q.Patterns) == 0 || slices.ContainsFunc(q.Patterns, func(pattern string) bool {
			return like(pattern, e.Pattern)
		}))
}

func (q Query) inTime(e Entry) bool {
	return (q.CreatedFrom.IsZero() || !e.CreatedAt.Before(q.CreatedFrom)) &&
		(q.CreatedTo.IsZero() || e.CreatedAt.Before(q.CreatedTo)) &&
		(q.UpdatedBefore.IsZero() || e.UpdatedAt.Before(q.UpdatedBefore))
}

func (q Query) bounded(e Entry) bool {
	return (q.MinRetries == nil || e.DLQRetryCount >= *q.MinRetries) &&
		(q.MaxRetries == nil || e.DLQRetryCount <= *q.MaxRetries) &&
		(q.MinPriority == nil || e.Priority >= *q.MinPriority)
}

// like reports whether the text matches the pattern, in which * is any text.
func like(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return text == pattern
	}
	text, begins := strings.CutPrefix(text, first)
	if !begins {
		return false
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
