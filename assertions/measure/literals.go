package measure

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Thresholds are written with "500ms" and "2%", which the expression language doesn't know. They are translated before it reads them;
// origins lead the place of an error back to what the user wrote.

// word matches what could be a name or a number; names are matched so that the digits in p99 aren't taken for a number.
var word = regexp.MustCompile(`[\pL_$][\pL\pN_$]*|[0-9][\pL0-9_.]*%?`)

// translated is an expression in the expression language.
type translated struct {
	text string
	// origins holds, for every rune of text, the column (from 0) in the user's expression.
	origins []int
}

// translate rewrites the literals: 500ms becomes duration("500ms"), 2% becomes 0.02.
func translate(expression string) translated {
	var t translated
	column, rest := 0, expression
	for rest != "" {
		at := word.FindStringIndex(rest)
		if at == nil {
			at = []int{len(rest), len(rest)}
		}
		column = t.keep(rest[:at[0]], column)
		token := rest[at[0]:at[1]]
		rest = rest[at[1]:]
		if literal, ok := translateLiteral(token, rest); ok {
			t.put(literal, column)
			column += utf8.RuneCountInString(token)
		} else {
			column = t.keep(token, column)
		}
	}
	return t
}

// keep takes text over as it is and returns the column after it.
func (t *translated) keep(text string, column int) int {
	t.text += text
	for range text {
		t.origins = append(t.origins, column)
		column++
	}
	return column
}

// put writes text in the place of what stood at the column.
func (t *translated) put(text string, column int) {
	t.text += text
	for range text {
		t.origins = append(t.origins, column)
	}
}

// origin returns the column, from 1, of what became the rune at this place.
func (t *translated) origin(place int) int {
	if place < 0 || place >= len(t.origins) {
		if n := len(t.origins); n > 0 {
			return t.origins[n-1] + 2
		}
		return 1
	}
	return t.origins[place] + 1
}

func translateLiteral(token, rest string) (string, bool) {
	if number, percent := strings.CutSuffix(token, "%"); percent {
		next, _ := utf8.DecodeRuneInString(rest)
		if unicode.IsLetter(next) || unicode.IsDigit(next) || next == '(' {
			return "", false // 7%2 is the remainder
		}
		share, err := strconv.ParseFloat(number, 64)
		return strconv.FormatFloat(share/100, 'f', -1, 64), err == nil
	}
	if !strings.ContainsFunc(token, unicode.IsLetter) || token[0] < '0' || token[0] > '9' {
		return "", false
	}
	d, err := time.ParseDuration(token)
	return `duration("` + d.String() + `")`, err == nil
}
