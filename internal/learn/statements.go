package learn

// What the statements of a database show: which of them are attempts.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// changes matches what a statement, in which words have one space between them, does to which table.
var changes = regexp.MustCompile(`(?i)^(?:INSERT INTO|UPDATE(?: ONLY)?|DELETE FROM(?: ONLY)?|MERGE INTO) [\w."]+`)

// statements tells attempts from notes of failures, such as rows of a table with dead letters: records that succeed
// have one statement, and those that fail have another one behind it. attempt is a regular expression of the first, and
// notes are the others; "" and none if nothing shows that there are notes.
func (s *seen) statements() (attempt string, notes []string) {
	own := ""
	for i := range s.records {
		for _, one := range s.records[i].tries {
			if !s.succeeds(int32(i)) {
				continue
			}
			what := changes.FindString(one.text)
			if own == "" {
				own = what
			}
			if what == "" || what != own {
				return "", nil
			}
		}
	}
	for i := range s.records {
		for k, one := range s.records[i].tries {
			switch what := changes.FindString(one.text); {
			case what == own && own != "":
			case own == "" || what == "" || k == 0 || s.records[i].flags&(history.Garbage|history.Tombstone) != 0:
				return "", nil
			case !slices.Contains(notes, what):
				notes = append(notes, what)
			}
		}
	}
	if notes == nil {
		return "", nil
	}
	return strings.ReplaceAll(regexp.QuoteMeta(own), " ", `\s+`) + `\b`, notes
}

// plain is a downstream of which nothing but its kind is known, or which statements of a database are attempts.
func (s *seen) plain(of scenarios.Downstream) string {
	if of.Postgres == nil {
		return of.Kind() + ": {}"
	}
	attempt, notes := s.statements()
	if attempt == "" {
		return of.Kind() + ": {}"
	}
	text := "%s:\n      # Only records that failed had %s, which is not an attempt.\n      statements: '%s'"
	return fmt.Sprintf(text, of.Kind(), strings.Join(notes, ", "), strings.ReplaceAll(attempt, "'", "''"))
}

// unstored reports that the database on which everything depends saw nothing of use. No later run shows more.
func (k *look) unstored(s *seen) error {
	tried := slices.ContainsFunc(s.records, func(r record) bool { return len(r.tries) > 0 })
	if k.subject.Postgres() == nil || tried && s.batch == "" {
		return nil
	}
	return s.nothing(k.subject)
}
