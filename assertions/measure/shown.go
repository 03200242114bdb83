package measure

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Shown returns Actual for people: durations are rounded as everywhere in reports, 3.27 s for 3.274486225s, and shares
// are percentages. A figure that would be on the other side of a bound after rounding is more exact, because "200.4ms
// <= 200ms" must not read as 200 ms. Actual itself is exact, for programs that read the verdict.
func (t Threshold) Shown() string {
	bounds := durationsIn(t.Expression)
	values := strings.Split(t.Actual, ", ")
	for i, value := range values {
		at := strings.LastIndex(value, " = ")
		if at >= 0 {
			at += len(" = ")
		}
		name, figure := value[:max(at, 0)], value[max(at, 0):]
		if of := strings.TrimSuffix(name, " = "); strings.HasPrefix(cmp.Or(of, t.Expression), "share.") {
			values[i] = name + shownShare(figure, percentagesIn(t.Expression))
			continue
		}
		values[i] = name + shownDuration(figure, bounds)
	}
	return strings.Join(values, ", ")
}

// shownDuration rounds a figure that is a duration, and groups the digits of one that is a count. Other figures are
// returned unchanged: only those of durations end with the unit s.
func shownDuration(figure string, bounds []time.Duration) string {
	if count, err := strconv.ParseInt(figure, 10, 64); err == nil {
		return units.Count(count)
	}
	exact, err := time.ParseDuration(figure)
	if err != nil || !strings.HasSuffix(figure, "s") {
		return figure
	}
	text := units.Text(exact)
	rounded, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		return figure
	}
	for _, bound := range bounds {
		if (exact < bound) != (rounded < bound) || (exact > bound) != (rounded > bound) {
			return figure
		}
	}
	return text
}

// shownShare writes a share as a percentage with one decimal, or with as many as keep it on its side of every bound.
func shownShare(figure string, bounds []float64) string {
	share, err := strconv.ParseFloat(figure, 64)
	if err != nil {
		return figure
	}
	exact := 100 * share
	for decimals := 1; decimals <= maxDecimals; decimals++ {
		text := strconv.FormatFloat(exact, 'f', decimals, 64)
		rounded, err := strconv.ParseFloat(text, 64)
		if err == nil && !slices.ContainsFunc(bounds, func(bound float64) bool {
			return (exact < bound) != (rounded < bound) || (exact > bound) != (rounded > bound)
		}) {
			return text + "%"
		}
	}
	return figure
}

// maxDecimals is the number of decimals of a percentage in a verdict.
const maxDecimals = 6

// percentage matches a percentage in an expression.
var percentage = regexp.MustCompile(`([0-9.]+)%`)

// percentagesIn returns the percentages that are written in the expression.
func percentagesIn(expression string) (all []float64) {
	for _, match := range percentage.FindAllStringSubmatch(expression, -1) {
		if bound, err := strconv.ParseFloat(match[1], 64); err == nil {
			all = append(all, bound)
		}
	}
	return all
}

// durationsIn returns the durations that are written in the expression.
func durationsIn(expression string) (all []time.Duration) {
	for _, literal := range word.FindAllString(expression, -1) {
		if d, err := time.ParseDuration(literal); err == nil {
			all = append(all, d)
		}
	}
	return all
}
