package measure

import (
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Shown returns Actual for people: durations are rounded as everywhere in reports, 3.27 s for 3.274486225s. A duration
// that would be on the other side of a bound after rounding stays exact, because "200.4ms <= 200ms" must not read as
// 200 ms. Actual itself is exact, for programs that read the verdict.
func (t Threshold) Shown() string {
	bounds := durationsIn(t.Expression)
	values := strings.Split(t.Actual, ", ")
	for i, value := range values {
		at := strings.LastIndex(value, " = ")
		if at >= 0 {
			at += len(" = ")
		}
		name, figure := value[:max(at, 0)], value[max(at, 0):]
		values[i] = name + shownDuration(figure, bounds)
	}
	return strings.Join(values, ", ")
}

// shownDuration rounds a figure that is a duration. Other figures are returned unchanged: only those of durations end
// with the unit s.
func shownDuration(figure string, bounds []time.Duration) string {
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

// durationsIn returns the durations that are written in the expression.
func durationsIn(expression string) (all []time.Duration) {
	for _, literal := range word.FindAllString(expression, -1) {
		if d, err := time.ParseDuration(literal); err == nil {
			all = append(all, d)
		}
	}
	return all
}
