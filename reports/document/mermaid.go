package document

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Charts in Markdown are Mermaid's XY charts, which GitHub and GitLab draw wherever the text is pasted. They have no
// legend and no shades: bars as high as the chart shade the windows, and a line above the chart names the curves by the
// colours that are set here. Their grammar has room for no text from a run.
const (
	mermaidShade = "#f6d9d5"
	// mermaidPoints is the maximum number of points of a curve. With more, the bars become too thin to be seen.
	mermaidPoints = 90
)

// mermaidColours returns the colours of curves, each with the square that names it.
func mermaidColours() [][2]string {
	return [][2]string{{"#1f5fbf", "🟦"}, {"#15803d", "🟩"}, {"#c2261c", "🟥"}, {"#8250df", "🟪"}}
}

// mdTimeline writes the charts of a timeline, except those without a title and those without a value.
func mdTimeline(t Timeline) string {
	if !t.InMarkdown || len(t.Time) < 2 {
		return ""
	}
	m := &markdown{}
	for _, chart := range t.Charts {
		if chart.Title != "" {
			m.part(mdChart(t, chart))
		}
	}
	return m.String()
}

// mdChart writes one chart. Time is divided into steps, and each step has the highest value in it.
func mdChart(t Timeline, chart Chart) string {
	steps := min(len(t.Time), mermaidPoints)
	first, last := t.Time[0], t.Time[len(t.Time)-1]
	step := func(at float64) int {
		return min(max(int((at-first)/(last-first)*float64(steps)), 0), steps-1)
	}
	var key, lines, palette []string
	highest, note := 0.0, ""
	for _, curve := range chart.Curves {
		values := peaks(curve.Values, t.Time, steps, step)
		top := slices.Max(values)
		colours := mermaidColours()
		if top == 0 || curve.Hidden || len(lines) == len(colours) {
			continue
		}
		colour := colours[len(lines)]
		highest = max(highest, top)
		if slices.ContainsFunc(curve.Values, math.IsNaN) {
			note = "; where there is no value, the last one continues"
		}
		key, palette = append(key, colour[1]+" "+md(string(curve.Label))), append(palette, colour[0])
		lines = append(lines, "    line "+numbers(values))
	}
	if len(lines) == 0 {
		return ""
	}
	highest = roundUp(highest)
	shade := make([]float64, steps)
	for _, window := range t.Windows {
		for i := step(window.From); i <= step(window.To) && window.To >= first; i++ {
			shade[i] = highest
		}
	}
	unit := map[string]string{"/s": ` "per second"`, "ms": " ms"}[chart.Unit]
	return fmt.Sprintf("**%s**: %s; shaded: a fault was in force%s\n\n```mermaid\n---\nconfig:\n  xyChart:\n"+
		"    width: 900\n    height: 260\n  themeVariables:\n    xyChart:\n      plotColorPalette: \"%s\"\n---\n"+
		"xychart-beta\n    x-axis \"seconds\" %s --> %s\n    y-axis%s 0 --> %s\n    bar %s\n%s\n```\n",
		md(chart.Title), strings.Join(key, ", "), note, strings.Join(append([]string{mermaidShade}, palette...), ", "),
		decimal(first), decimal(last), unit, decimal(highest), numbers(shade), strings.Join(lines, "\n"))
}

// peaks returns the highest value of each step. A step without a value continues the one before it.
func peaks(values, times Numbers, steps int, step func(float64) int) []float64 {
	out, known := make([]float64, steps), make([]bool, steps)
	for i, v := range values {
		if at := step(times[i]); !math.IsNaN(v) {
			out[at], known[at] = max(out[at], v), true
		}
	}
	for i := 1; i < steps; i++ {
		if !known[i] {
			out[i] = out[i-1]
		}
	}
	return out
}

// roundUp returns the next number with one or two significant digits.
func roundUp(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))) / 2
	return math.Ceil(v/unit) * unit
}

func decimal(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func numbers(values []float64) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = decimal(v)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
