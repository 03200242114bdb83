package sqlstore

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// statement is SQL under construction, with its arguments.
type statement struct {
	db   *DB
	text strings.Builder
	args []any
	// crowded are the columns whose index must not be searched (see DB.crowded).
	crowded map[string]bool
}

func (db *DB) statement(text string, args ...any) *statement {
	s := &statement{db: db}
	return s.add(text, args...)
}

// add appends SQL. In it, ? is the next argument, {now} the store's clock, and {after} that clock plus the next
// argument, a time.Duration.
func (s *statement) add(text string, args ...any) *statement {
	for text != "" {
		at := strings.IndexAny(text, "?{")
		if at < 0 {
			s.text.WriteString(text)
			break
		}
		s.text.WriteString(text[:at])
		text = text[at:]
		switch {
		case strings.HasPrefix(text, "{now}"):
			s.now()
			text = text[len("{now}"):]
		case strings.HasPrefix(text, "{after}"):
			s.after(args[0].(time.Duration))
			text, args = text[len("{after}"):], args[1:]
		case text[0] == '?':
			s.argument(args[0])
			text, args = text[1:], args[1:]
		default:
			s.text.WriteByte(text[0])
			text = text[1:]
		}
	}
	return s
}

func (s *statement) argument(arg any) {
	if at, is := arg.(time.Time); is {
		arg = s.db.engine.moment(at)
	}
	s.args = append(s.args, arg)
	if s.db.engine.numbered {
		s.text.WriteByte('$')
		s.text.WriteString(strconv.Itoa(len(s.args)))
		return
	}
	s.text.WriteByte('?')
}

// now appends the database's own clock, which is constant within the statement, or the clock that replaces it.
func (s *statement) now() {
	if s.db.options.Clock == nil {
		s.text.WriteString(s.db.engine.now)
		return
	}
	s.text.WriteString(s.db.engine.cast[0])
	s.argument(s.db.options.Clock())
	s.text.WriteString(s.db.engine.cast[1])
}

func (s *statement) after(d time.Duration) {
	s.text.WriteString(s.db.engine.plus[0])
	s.now()
	s.text.WriteString(s.db.engine.plus[1])
	s.argument(fmt.Sprintf("%.3f", d.Seconds()))
	s.text.WriteString(s.db.engine.plus[2])
}

// momentLayout has milliseconds and a fixed width, so that the order of texts is the order of times.
const momentLayout = "2006-01-02T15:04:05.000Z"

func momentText(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Truncate(time.Millisecond).Format(momentLayout)
}

func momentValue(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Truncate(time.Millisecond)
}

// moment reads a time of either engine; NULL is the zero time.
type moment struct{ at *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(src any) error {
	switch value := src.(type) {
	case nil:
		*m.at = time.Time{}
	case time.Time:
		*m.at = value.UTC()
	case string:
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return fmt.Errorf("reading a time: %w", err)
		}
		*m.at = at.UTC()
	default:
		return fmt.Errorf("reading a time: the column has a %T", src)
	}
	return nil
}

// orNull is a text, or NULL if it is empty.
func orNull(text string) driver.Value {
	if text == "" {
		return nil
	}
	return text
}
