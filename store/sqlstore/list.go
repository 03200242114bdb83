package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Get implements store.Reader.
func (db *DB) Get(ctx context.Context, id string) (store.Entry, error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return store.Entry{}, err
	}
	parsed, err := store.ReadID(id)
	if err != nil {
		return store.Entry{}, err
	}
	found, err := entries(ctx, db.read, db.statement("SELECT "+columns+" FROM dead_letter_queue WHERE id = ?", parsed),
		vocabulary)
	if err != nil {
		return store.Entry{}, refused("reading "+id, err)
	}
	if len(found) == 0 {
		return store.Entry{}, fmt.Errorf("%w: %s", store.ErrNotFound, id)
	}
	return found[0], nil
}

// List implements store.Reader.
func (db *DB) List(ctx context.Context, query store.Query) (page []store.Entry, after string, err error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return nil, "", err
	}
	crowded, err := db.crowded(ctx, query, vocabulary)
	if err != nil {
		return nil, "", refused("listing dead letters", err)
	}
	s, limit, err := db.listing(query, vocabulary, crowded)
	if err != nil {
		return nil, "", fmt.Errorf("listing dead letters: %w", err)
	}
	page, err = entries(ctx, db.read, s, vocabulary)
	if err != nil {
		return nil, "", refused("listing dead letters", err)
	}
	if len(page) <= limit {
		return page, "", nil
	}
	page = page[:limit]
	after, err = query.Ending(page[limit-1])
	return page, after, err
}

// listing is the statement for a page. It selects one entry more than the page has.
func (db *DB) listing(query store.Query, vocabulary store.Vocabulary,
	crowded map[string]bool) (*statement, int, error) {
	limit, err := query.PageSize()
	if err != nil {
		return nil, 0, err
	}
	order, err := orderOf(query.OrderBy)
	if err != nil {
		return nil, 0, err
	}
	s := db.statement("SELECT " + columns + " FROM dead_letter_queue WHERE 1 = 1")
	s.crowded = crowded
	s.filter(query, vocabulary)
	direction, beyond := "", ">"
	if query.Descending {
		direction, beyond = " DESC", "<"
	}
	if query.After != "" {
		from, err := query.Cursor()
		if err != nil {
			return nil, 0, err
		}
		s.behind(order, beyond, from)
	}
	s.add(" ORDER BY " + strings.Join(order, direction+", ") + direction)
	return s.add(" LIMIT ?", limit+1), limit, nil
}

// orderOf are the columns of an order. The id makes it total.
func orderOf(name string) ([]string, error) {
	switch name {
	case "", "createdAt":
		return []string{"created_at", "id"}, nil
	case "updatedAt":
		return []string{"updated_at", "id"}, nil
	case "priority":
		return []string{"priority", "created_at", "id"}, nil
	}
	return nil, fmt.Errorf("the order is createdAt, updatedAt or priority, not %q", name)
}

// behind selects the entries after the cursor. The first comparison alone determines the partitions.
func (s *statement) behind(order []string, beyond string, from store.Cursor) {
	values := []any{from.At, from.ID}
	if len(order) == 3 {
		values = []any{from.Priority, from.At, from.ID}
	}
	s.add(" AND "+order[0]+" "+beyond+"= ?", values[0])
	s.add(" AND ("+strings.Join(order, ", ")+") "+beyond+" ("+strings.Repeat("?, ", len(values)-1)+"?)", values...)
}

// filter adds the conditions of a query.
func (s *statement) filter(query store.Query, vocabulary store.Vocabulary) {
	for _, one := range searches(query, vocabulary) {
		one.add(s)
	}
	if query.IDs != nil {
		if ids := store.ReadIDs(query.IDs); len(ids) > 0 {
			s.in("id", ids)
		} else {
			s.add(" AND 1 = 0")
		}
	}
	if query.Service != "" {
		s.add(" AND service = ?", store.EncodeText(query.Service))
	}
	for _, bound := range []struct {
		condition string
		at        time.Time
	}{{" AND created_at >= ?", query.CreatedFrom}, {" AND created_at < ?", query.CreatedTo},
		{" AND updated_at < ?", query.UpdatedBefore}} {
		if !bound.at.IsZero() {
			s.add(bound.condition, bound.at)
		}
	}
	for _, bound := range []struct {
		condition string
		value     *int
	}{{" AND dlq_retry_count >= ?", query.MinRetries}, {" AND dlq_retry_count <= ?", query.MaxRetries},
		{" AND priority >= ?", query.MinPriority}} {
		if bound.value != nil {
			s.add(bound.condition, *bound.value)
		}
	}
}

// search is a filter on an indexed column.
type search struct {
	column string
	// ordered reports whether the index has the entries in the order of the list.
	ordered bool
	add     func(s *statement)
}

func searches(query store.Query, vocabulary store.Vocabulary) (all []search) {
	byAge := query.OrderBy == "" || query.OrderBy == "createdAt"
	if n := len(query.States); n > 0 {
		all = append(all, search{"status", byAge && n == 1, func(s *statement) {
			s.anyOf(n, func(i int) {
				status, held := vocabulary.Write(query.States[i])
				s.add("("+s.searched("status")+" = ? AND held = ?)", status, held)
			})
		}})
	}
	if n := len(query.ErrorTypes); n > 0 {
		all = append(all, search{"error_type", byAge && n == 1, func(s *statement) {
			types := make([]string, n)
			for i, name := range query.ErrorTypes {
				types[i] = store.Cut(name, 100)
			}
			s.in(s.searched("error_type"), types)
		}})
	}
	if n := len(query.Patterns); n > 0 {
		all = append(all, search{patternColumn, false, func(s *statement) {
			s.anyOf(n, func(i int) { s.pattern(query.Patterns[i]) })
		}})
	}
	for _, one := range []struct {
		column, value string
		ordered       bool
	}{{"event_id", query.EventID, false}, {"subscriber_id", query.SubscriberID, byAge}} {
		if one.value != "" {
			all = append(all, search{one.column, one.ordered, func(s *statement) {
				s.add(" AND "+s.searched(one.column)+" = ?", store.Cut(one.value, 255))
			}})
		}
	}
	return all
}

// searched is a column as a condition names it. A plus sign keeps SQLite from searching the column's index.
func (s *statement) searched(column string) string {
	if s.crowded[column] {
		return "+" + column
	}
	return column
}

// manyFound is the number of entries that SQLite may find by an index and sort within the time for a page.
const manyFound = 5000

// crowded returns the columns whose filters find too many entries to be sorted. For these it is faster to read the
// entries in the order of the list until the page is full. PostgreSQL knows that from its statistics, but SQLite has to
// be told.
func (db *DB) crowded(ctx context.Context, query store.Query, vocabulary store.Vocabulary) (map[string]bool, error) {
	if db.engine.numbered {
		return nil, nil
	}
	crowded := map[string]bool{}
	for _, one := range searches(query, vocabulary) {
		if one.ordered {
			continue
		}
		s := db.statement("SELECT count(*) FROM (SELECT 1 FROM dead_letter_queue WHERE 1 = 1")
		one.add(s)
		s.add(" LIMIT ?)", manyFound)
		var found int
		if err := db.read.QueryRowContext(ctx, s.text.String(), s.args...).Scan(&found); err != nil {
			return nil, err
		}
		crowded[one.column] = found == manyFound
	}
	return crowded, nil
}

// anyOf joins n conditions with OR. With n = 0 it adds no condition.
func (s *statement) anyOf(n int, condition func(i int)) {
	for i := range n {
		if i == 0 {
			s.add(" AND (")
		} else {
			s.add(" OR ")
		}
		condition(i)
	}
	if n > 0 {
		s.add(")")
	}
}

// in selects a column's values. Without values it adds no condition.
func (s *statement) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	s.add(" AND " + column + " IN (")
	for i, value := range values {
		if i > 0 {
			s.add(", ")
		}
		s.add("?", value)
	}
	s.add(")")
}

// patternColumn is exactly the expression of the pattern index.
const patternColumn = "(original_event->>'pattern')"

// pattern selects events by a pattern in which * is any text. The text before the first * is searched in the index.
func (s *statement) pattern(pattern string) {
	pattern = store.EncodeText(pattern)
	column := s.searched(patternColumn)
	prefix, _, wild := strings.Cut(pattern, "*")
	if !wild {
		s.add(column+" = ?", pattern)
		return
	}
	engine := s.db.engine
	if end := successor(prefix); end != "" {
		s.add(column+" "+engine.prefix[0]+" ? AND "+column+" "+engine.prefix[1]+" ? AND ", prefix, end)
	}
	s.add(column+" "+engine.like+" ?", engine.wild(pattern))
}

// successor is the first text, by byte order, after all texts that begin with prefix, or "" if there is none.
func successor(prefix string) string {
	runes := []rune(prefix)
	for len(runes) > 0 {
		last := runes[len(runes)-1]
		runes = runes[:len(runes)-1]
		switch {
		case last == 0xD7FF:
			return string(append(runes, 0xE000))
		case last < 0x10FFFF:
			return string(append(runes, last+1))
		}
	}
	return ""
}
