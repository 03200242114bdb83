package samples

// Values that are not JSON: lines of text, and bytes, in which a regular expression finds the id.

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
)

// Plain is what values are that are not JSON; "" if they are.
type Plain string

// PlainText: a line is the value, or in an envelope a text. PlainBytes: it is the value in base64.
const (
	PlainText  Plain = "text"
	PlainBytes Plain = "bytes"
)

// Finder finds the record's id in a value.
type Finder interface {
	// Find returns what stands in the place of the id. The error says why that is none.
	Find(value []byte) (Spot, error)
	String() string
}

// Pattern finds what a regular expression matches: its group, if it has one.
type Pattern struct{ expression *regexp.Regexp }

// maxPattern is the longest regular expression in bytes.
const maxPattern = 1 << 10

// ParsePattern reads a regular expression in the syntax of RE2, whose cost is linear.
func ParsePattern(text string) (Pattern, error) {
	if len(text) > maxPattern {
		return Pattern{}, fmt.Errorf("a regular expression has at most %d characters", maxPattern)
	}
	expression, err := regexp.Compile(text)
	switch {
	case err != nil:
		return Pattern{}, fmt.Errorf("this is not a regular expression: %w (docs: https://golang.org/s/re2syntax)", err)
	case expression.NumSubexp() > 1:
		return Pattern{}, errors.New("a regular expression has one group, around the id: write (?:…) for others")
	}
	return Pattern{expression}, nil
}

// String returns the expression.
func (p Pattern) String() string { return p.expression.String() }

// Find returns the first match, or the group in it.
func (p Pattern) Find(value []byte) (Spot, error) {
	at := p.expression.FindSubmatchIndex(value)
	if at == nil {
		return Spot{}, fmt.Errorf("%s matches nothing here: it must find the record's id in every value", p)
	}
	from, to := at[len(at)-2], at[len(at)-1]
	if from == to {
		return Spot{}, fmt.Errorf("%s matches no text here: its group must be around the record's id", p)
	}
	return Spot{Text: string(value[from:to]), From: from, To: to}, nil
}

// open returns the parts of a line whose value is not JSON.
func (p Plain) open(line []byte, lines string) (parts envelope, err error) {
	parts.value = line
	if lines == LinesEnvelope {
		if parts, err = openEnvelope(line); err != nil {
			return parts, err
		}
		if parts.value[0] != '"' {
			return parts, fmt.Errorf("the value is %s: with format: %s it is written as text", kindOf(parts.value), p)
		}
		parts.value = textOf(parts.value)
	}
	if p == PlainBytes {
		if parts.value, err = base64.StdEncoding.DecodeString(string(parts.value)); err != nil {
			return parts, fmt.Errorf("the value is not base64, as format: bytes has it: %w", err)
		}
	}
	return parts, nil
}
