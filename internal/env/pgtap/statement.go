package pgtap

import (
	"bytes"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
)

// statement is what is known of a statement's text.
type statement struct {
	// records are those whose ids are in the text.
	records []int32
	// writes: it can begin an attempt. changes: it changes rows, by its first word.
	writes, changes bool
	// told is its text as the history tells it.
	told string
	control
}

// control is what a statement's text does to transactions.
type control struct {
	begins, commits, saves, restores, releases, copies bool
}

// toldText is the maximum length of a statement's text in the history, in bytes.
const toldText = 120

// described returns what is known of a statement from its text.
func (t *Tap) described(text []byte) statement {
	text = bytes.TrimSpace(text)
	d := statement{records: t.ids(text)}
	if t.cfg.Batch {
		d.control = controls(text)
	}
	if t.cfg.Statements != nil {
		d.writes = t.cfg.Statements.Match(text)
	} else {
		d.writes = slices.ContainsFunc(bytes.Split(text, []byte(";")), func(one []byte) bool { return !reads(one) })
	}
	switch strings.ToUpper(firstWord(text)) {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "CALL":
		d.changes = true
	}
	d.copies = d.copies && (t.cfg.Statements == nil || d.writes)
	if d.writes || d.copies {
		d.told = t.told(text)
	}
	return d
}

// controls returns what the statements of a text do to transactions, by their first words.
func controls(text []byte) (c control) {
	for one := range bytes.SplitSeq(text, []byte(";")) {
		switch strings.ToUpper(firstWord(one)) {
		case "BEGIN", "START":
			c.begins = true
		case "COMMIT", "END":
			c.commits = true
		case "SAVEPOINT":
			c.saves = true
		case "ROLLBACK":
			c.restores = bytes.Contains(bytes.ToUpper(one), []byte(" TO "))
		case "RELEASE":
			c.releases = true
		case "COPY":
			c.copies = true
		}
	}
	return c
}

// reads reports whether a statement reads, begins or ends a transaction, or changes a setting, by its first word.
func reads(text []byte) bool {
	switch strings.ToUpper(firstWord(text)) {
	case "", "SELECT", "VALUES", "TABLE", "SHOW", "EXPLAIN", "FETCH", "DECLARE", "CLOSE", "BEGIN", "START", "COMMIT",
		"END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "DEALLOCATE",
		"COPY":
		return true
	}
	return false
}

// firstWord returns the first word of a statement, past comments and parentheses.
func firstWord(text []byte) string {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\f\v(;")
		switch {
		case bytes.HasPrefix(text, []byte("--")):
			_, text, _ = bytes.Cut(text, []byte("\n"))
		case bytes.HasPrefix(text, []byte("/*")):
			_, text, _ = bytes.Cut(text, []byte("*/"))
		default:
			end := bytes.IndexFunc(text, func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' })
			if end < 0 {
				end = len(text)
			}
			return string(text[:end])
		}
	}
}

// told is a statement's text on one line, without the records' ids, so that those of all records read the same.
func (t *Tap) told(text []byte) string {
	const enough = 4 * toldText
	line := string(text[:min(len(text), enough)])
	for _, record := range t.cfg.IDs.All([]byte(line)) {
		line = strings.ReplaceAll(line, t.cfg.IDs.Token(record), "{id}")
	}
	line = strings.Join(strings.Fields(line), " ")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, line)
	if len(line) > toldText {
		line = line[:toldText] + "…"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}

// ids returns the records whose ids are in the data; they may come twice. Without Config.Batch it is the first.
func (t *Tap) ids(data []byte) (all []int32) {
	planned := func(seq int32) bool { return int(seq) < len(t.cfg.Plan.Records) }
	for one := range forms(data) {
		if !t.cfg.Batch {
			if seq, found := t.cfg.IDs.Find(one); found && planned(seq) {
				return []int32{seq}
			}
			continue
		}
		for _, seq := range t.cfg.IDs.All(one) {
			if planned(seq) {
				all = append(all, seq)
			}
		}
	}
	return all
}

// forms yields what ids are looked for in: the data, as text and in binary, and what the digits of each bytea stand
// for.
func forms(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest, more := data, yield(data); more; {
			_, after, found := bytes.Cut(rest, []byte(`\x`))
			if !found {
				return
			}
			digits := bytes.IndexFunc(after, notHex)
			if digits < 0 {
				digits = len(after)
			}
			decoded := make([]byte, digits/2)
			n, _ := hex.Decode(decoded, after[:digits/2*2]) // all of them are digits
			rest, more = after, yield(decoded[:n])
		}
	}
}

func notHex(r rune) bool { return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'f') }
