package measure

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Thresholds contain literals such as "500ms", "64MiB" and "2%", which the expression language does not support. They
// are translated before the language parses them. origins maps the position of an error back to the user's text.

// word matches a possible name or number. Names are matched so that the digits in p99 are not taken for a number.
var word = regexp.MustCompile(`[\pL_$][\pL\pN_$]*|[0-9][\pL0-9_.]*%?`)

// translated is an expression in the expression language.
type translated struct {
	text string
	// origins holds, for every rune of text, the column (from 0) in the user's expression.
	origins []int
	// sizes holds the places of the numbers that were sizes.
	sizes map[int]bool
}

// translate rewrites the literals: 500ms becomes duration("500ms"), 2% becomes 0.02, 64MiB its bytes.
func translate(expression string) translated {
	t := translated{sizes: map[int]bool{}}
	column, rest := 0, expression
	for rest != "" {
		at := word.FindStringIndex(rest)
		if at == nil {
			at = []int{len(rest), len(rest)}
		}
		column = t.keep(rest[:at[0]], column)
		token := rest[at[0]:at[1]]
		rest = rest[at[1]:]
		literal, size, ok := translateLiteral(token, rest)
		if !ok {
			column = t.keep(token, column)
			continue
		}
		if size {
			t.sizes[len(t.origins)] = true
		}
		t.put(literal, column)
		column += utf8.RuneCountInString(token)
	}
	return t
}

// keep copies text unchanged and returns the column after it.
func (t *translated) keep(text string, column int) int {
	t.text += text
	for range text {
		t.origins = append(t.origins, column)
		column++
	}
	return column
}

// put writes text in place of the text at the column.
func (t *translated) put(text string, column int) {
	t.text += text
	for range text {
		t.origins = append(t.origins, column)
	}
}

// origin returns the column, from 1, from which the rune at this place originates.
func (t *translated) origin(place int) int {
	if place < 0 || place >= len(t.origins) {
		if n := len(t.origins); n > 0 {
			return t.origins[n-1] + 2
		}
		return 1
	}
	return t.origins[place] + 1
}

func translateLiteral(token, rest string) (literal string, size, ok bool) {
	if number, percent := strings.CutSuffix(token, "%"); percent {
		next, _ := utf8.DecodeRuneInString(rest)
		if unicode.IsLetter(next) || unicode.IsDigit(next) || next == '(' {
			return "", false, false // 7%2 is the remainder
		}
		share, err := strconv.ParseFloat(number, 64)
		return strconv.FormatFloat(share/100, 'f', -1, 64), false, err == nil
	}
	if !strings.ContainsFunc(token, unicode.IsLetter) || token[0] < '0' || token[0] > '9' {
		return "", false, false
	}
	if bytes, is := parseSize(token); is {
		return strconv.FormatInt(bytes, 10), true, true
	}
	d, err := time.ParseDuration(token)
	return `duration("` + d.String() + `")`, false, err == nil
}

// mostBytes is the largest size. Up to it, a number with a fraction is exact to the byte.
const mostBytes = 1 << 53

// parseSize reads 64MiB, 1.5GiB and 200MB: a unit with an i is a power of 1024, one without a power of 1000.
func parseSize(token string) (int64, bool) {
	at := strings.IndexFunc(token, unicode.IsLetter)
	factor, known := map[string]float64{
		"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}[token[at:]]
	number, err := strconv.ParseFloat(token[:at], 64)
	bytes := math.Round(number * factor)
	return int64(bytes), known && err == nil && bytes <= mostBytes
}

// roughSize prints bytes in the unit that leaves one to four digits before the point: 151.2MiB.
func roughSize(bytes float64) string {
	unit := "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if math.Abs(bytes) < 1024 {
			break
		}
		bytes, unit = bytes/1024, next
	}
	return strconv.FormatFloat(math.Round(bytes*10)/10, 'f', -1, 64) + unit
}

// unit matches a number followed by letters that are not part of it: 0xff is a number, and so is 1e5, which continues
// after its letter.
var unit = regexp.MustCompile(`^(?:[0-9]|[0-9][0-9._]*[0-9])(\pL+)$`)

// unknownUnit returns the first unknown unit and its place in the text; "" if all units are known.
func (t *translated) unknownUnit() (int, string) {
	for _, at := range word.FindAllStringIndex(t.text, -1) {
		token := t.text[at[0]:at[1]]
		if at[0] > 0 && t.text[at[0]-1] == '"' || strings.HasPrefix(token, "0x") {
			continue // a translated duration has quotes
		}
		if found := unit.FindStringSubmatch(token); found != nil {
			return utf8.RuneCountInString(t.text[:at[0]]), found[1]
		}
	}
	return 0, ""
}
