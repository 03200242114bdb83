package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// box is a part of the system, with a title and two lines of text.
type box struct {
	title       string
	first, next string
}

// drawingWidth is the minimum width of the drawing of the system.
const drawingWidth = 72

// drawing draws the system, with the flow between its parts on the arrows:
//
//	workload          input             consumer          done              dead letters
//	2,000/s       ──▶ lag 412       ──▶ 2 of 3 run    ──▶ 1,874/s       ──▶ 3.0/s
//	sent 20,103       6 partitions      retrying 12       in all 19,800     in all 1,033
func (m *model) drawing() []string {
	if m.width < drawingWidth {
		return nil
	}
	boxes := m.boxes()
	arrow := "──▶ "
	wide := (m.width - (len(boxes)-1)*ansi.StringWidth(arrow)) / len(boxes)
	var titles, first, next strings.Builder
	for i, one := range boxes {
		gap := strings.Repeat(" ", ansi.StringWidth(arrow))
		if i > 0 {
			titles.WriteString(gap)
			first.WriteString(m.look.line(arrow))
			next.WriteString(gap)
		}
		titles.WriteString(m.look.strong(pad(one.title, wide)))
		first.WriteString(pad(one.first, wide))
		next.WriteString(m.look.faint(pad(one.next, wide)))
	}
	return []string{titles.String(), first.String(), next.String(), ""}
}

func (m *model) boxes() []box {
	s := &m.live
	running, all := 0, 0
	for _, one := range s.Instances {
		if one.Kind != "instance" {
			continue
		}
		all++
		if one.Status == reports.InstanceRunning {
			running++
		}
	}
	consumer := fmt.Sprintf("%d of %d run", running, all)
	if running < all {
		consumer = m.look.bad(consumer)
	}
	boxes := []box{
		{"workload", units.PerSecond(s.SentRate), "sent " + units.Count(s.Totals.Sent)},
		{"input", "lag " + m.lagText(s.Lag), fmt.Sprintf("%d partitions", len(s.Partitions))},
		{"consumer", consumer, "retrying " + units.Count(s.RetriesInFlight)},
		{"done", units.PerSecond(s.ProcessedRate), "in all " + units.Count(s.Totals.Processed)},
		{"dead letters", units.PerSecond(s.DeadLetterRate), "in all " + units.Count(s.DeadLetters)},
	}
	if s.Registry != nil && m.width >= drawingWidth+20 {
		boxes = append(boxes, box{"registry", units.Count(s.Registry.Requests) + " requests", m.brokenAt("registry")})
	}
	if s.Store != nil && m.width >= drawingWidth+20*(len(boxes)-4) {
		entries := int64(0)
		for _, one := range s.Store.ByState {
			entries += one
		}
		boxes = append(boxes, box{"store", units.Count(entries) + " entries", "changes " + units.Count(s.Store.Changes)})
	}
	return boxes
}

// brokenAt names the faults in force at a target.
func (m *model) brokenAt(target string) string {
	var names []string
	for _, fault := range m.live.ActiveFaults {
		if fault.Target == target {
			names = append(names, fault.Name)
		}
	}
	return strings.Join(names, ", ")
}
