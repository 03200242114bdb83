package samples

// Where the id of a record probably stands, in samples of which nothing else is known.

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Guess is what the samples of a file look like.
type Guess struct {
	// Lines is LinesEnvelope if each line is an object with the record's value and its key or headers, else "".
	Lines string
	// IDs are the places at which a record's id may stand, the likeliest first: those with a string or a whole number in
	// each sample that no other sample has.
	IDs []Candidate
}

// Candidate is a place at which a record's id may stand.
type Candidate struct {
	At string
	// Texts are what stands there, in no order.
	Texts []string
}

// guessed bounds the lines that a guess is made from.
const guessed = 200

// GuessOf reads JSON samples, one in each line. The error reports what cannot be read, or samples without any place for
// an id.
func GuessOf(from io.Reader) (Guess, error) {
	var guess Guess
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, MaxLine)
	places, count := newCandidates(), 0
	for lines.Scan() && count < guessed {
		line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff")))
		if len(line) == 0 {
			continue
		}
		if count++; count == 1 && looksLikeEnvelope(line) {
			guess.Lines = LinesEnvelope
		}
		if guess.Lines == LinesEnvelope {
			parts, err := openEnvelope(line)
			if err != nil {
				return guess, fmt.Errorf("line %d: %w", count, err)
			}
			line = parts.value
		}
		leaves, err := Leaves(line)
		if err != nil {
			return guess, fmt.Errorf("line %d: %w", count, err)
		}
		places.add(leaves)
	}
	if err := lines.Err(); err != nil {
		return guess, fmt.Errorf("reading the samples: %w", err)
	}
	if guess.IDs = places.ranked(count); len(guess.IDs) == 0 {
		return guess, fmt.Errorf("no string or whole number is in each of %d samples, and different in each: dlqbench needs "+
			"a place for the record's id", count)
	}
	return guess, nil
}

// candidates are the places of all samples.
type candidates struct {
	order []string
	texts map[string]map[string]bool // the texts at each place
	odd   map[string]bool            // places with what no id can stand for
}

func newCandidates() *candidates {
	return &candidates{texts: map[string]map[string]bool{}, odd: map[string]bool{}}
}

func (c *candidates) add(leaves []Leaf) {
	for _, leaf := range leaves {
		if c.texts[leaf.At] == nil {
			c.texts[leaf.At] = map[string]bool{}
			c.order = append(c.order, leaf.At)
		}
		c.texts[leaf.At][leaf.Text] = true
		if leaf.Number && !wholeNumber.MatchString(leaf.Text) || leaf.Text == "" || notAnID.MatchString(leaf.Text) {
			c.odd[leaf.At] = true
		}
	}
}

// ranked returns the places with a different text in each of count samples, the likeliest first.
func (c *candidates) ranked(count int) (ranked []Candidate) {
	all := slices.DeleteFunc(slices.Clone(c.order), func(at string) bool { return c.odd[at] || len(c.texts[at]) != count })
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(c.weight(b), c.weight(a)) })
	for _, at := range all {
		ranked = append(ranked, Candidate{at, slices.Collect(maps.Keys(c.texts[at]))})
	}
	return ranked
}

var (
	// notAnID matches what is different in each record and no identity: times, addresses of mails.
	notAnID = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}([T ]|$)|@|\s`)
	// idName matches the names of members that are called an id, othersID those of somebody else's.
	idName   = regexp.MustCompile(`(?i)(^|[._'\]-])(id|uuid|guid)'?\]?$|[a-z_-](Id|ID|Uuid|UUID|_id|_uuid|-id)'?\]?$`)
	nearID   = regexp.MustCompile(`(?i)(reference|number|key|code|ref|_no|nr)'?\]?$`)
	othersID = regexp.MustCompile(`(?i)(customer|user|client|tenant|account|owner|parent|product|item|merchant|trace|` +
		`correlation|session|device|sku|iban)[^.]*(\.(id|uuid|guid|key|number|no|code))?$`)
)

// weight tells how likely the record's id stands there.
func (c *candidates) weight(at string) int {
	weight := -2 * strings.Count(at, "[")
	weight -= strings.Count(at, ".")
	switch {
	case idName.MatchString(at):
		weight += 20
	case nearID.MatchString(at):
		weight += 8
	}
	if othersID.MatchString(at) {
		weight -= 15
	}
	for text := range c.texts[at] {
		if !uuidText.MatchString(text) {
			return weight
		}
	}
	return weight + 6
}
