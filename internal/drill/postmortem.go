package drill

// This file makes the debrief for people: a postmortem with everything that the drill knows, and places for what only
// people know. Text that people entered is inserted as text, whatever it contains.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/reports/document"
)

func (r Record) document() document.Document {
	word := cmp.Or(string(r.Result.Verdict), "no verdict")
	if r.Result.ThresholdsMissed {
		word += ", a threshold was missed"
	}
	if r.Result.Interrupted {
		word += ", interrupted"
	}
	out := document.Document{Kind: "debrief", Mark: reports.VerdictMark(r.Result.Verdict), Word: word,
		Title: "Debrief: " + r.Scenario,
		Lead:  []document.Text{document.Plain(r.summary()), document.Plain(r.Description)},
		Sections: []document.Section{
			{Blocks: []document.Block{document.KeyValues{Big: true, Items: r.Result.Figures.facts()}}},
			{Title: "Participants", Blocks: []document.Block{r.participantTable()}},
			{Title: "Faults", Blocks: []document.Block{r.faultTable()}},
			{Title: "Curves", Blocks: r.curves()},
			{Title: "What was seen", Blocks: []document.Block{r.noticeTable()}},
			{Title: "Decisions and actions", Blocks: []document.Block{r.actionTable()}},
			{Title: "Faults without effect", Aside: "whatever the verdict is, it says nothing about these",
				Blocks: []document.Block{listed(r.Faults, func(f Fault) string {
					if f.Idle == "" {
						return ""
					}
					return f.Name + ": " + f.Idle
				})}},
			{Title: "Verdict", Blocks: r.verdict()},
			{Title: "Action items", Aside: "to agree on", Blocks: []document.Block{r.actionItems()}},
			{Title: "Lessons", Aside: "to fill in", Blocks: []document.Block{lessons()}},
			{Title: "Files", Aside: r.Result.Dir, Blocks: []document.Block{r.files()}},
			{Title: "Events", Aside: "from the start of the steady load", Folded: true,
				Blocks: []document.Block{r.eventTable()}},
		},
		Foot: "The whole verdict is in report.html beside this page.",
	}
	if r.RunID != "" {
		out.About = []string{r.Started.UTC().Format("2 January 2006, 15:04 UTC"), "run " + r.RunID,
			fmt.Sprintf("seed %d", r.Seed), "subject " + r.Subject}
	}
	return out
}

// summary tells the drill in a few sentences.
func (r Record) summary() string {
	f := r.Result.Figures
	out := fmt.Sprintf("The load lasted %s (%s).", rounded(r.Lasted), r.Ending)
	if f.Faults == 0 {
		return out + " No fault was there to notice."
	}
	out += fmt.Sprintf(" Of %s to notice, %d %s noticed", units.Plural(int64(f.Faults), "fault", "faults"), f.Noticed,
		was(f.Noticed))
	if f.Noticed > 0 {
		out += fmt.Sprintf(" (median %s)", rounded(f.ToNotice.Median))
	}
	return out + "; " + f.lifted() + "."
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// lifted says how many faults were lifted in which way. The numbers add up to all that were lifted.
func (f Figures) lifted() string {
	var parts []string
	for _, one := range []struct {
		n   int
		how string
	}{{f.Healed, LiftedByHand}, {f.EndedAlone, LiftedByItself}, {f.LiftedAtEnd, LiftedAtEnd}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.how))
		}
	}
	if len(parts) == 0 {
		return "none was lifted"
	}
	return "lifted: " + strings.Join(parts, ", ")
}

func (f Figures) facts() []document.KeyValue {
	fact := func(key string, of Spread, n int, note string) document.KeyValue {
		value := "–"
		if n > 0 {
			value, note = rounded(of.Median), fmt.Sprintf("median; longest %s; %s", rounded(of.Max), note)
		}
		return document.KeyValue{Key: key, Value: document.Plain(value), Note: note}
	}
	return []document.KeyValue{
		fact("to notice", f.ToNotice, f.Noticed, fmt.Sprintf("%d of %d noticed", f.Noticed, f.Faults)),
		fact("to heal", f.ToHeal, f.Healed, f.lifted()),
		fact("to drain", f.ToDrain, f.Drained, fmt.Sprintf("%d of %d drained", f.Drained, f.Faults)),
		{Key: "false alarms", Value: document.Plain(fmt.Sprint(f.FalseAlarms))}}
}

// listed lists the text for each fault, and omits faults without one.
func listed(faults []Fault, say func(Fault) string) document.List {
	out := document.List{}
	for _, f := range faults {
		if words := say(f); words != "" {
			out.Items = append(out.Items, document.Item{Text: document.Plain(words)})
		}
	}
	return out
}

// table returns a table of plain texts.
func table(titles []string, rows [][]string) document.Table {
	out := document.Table{}
	for _, title := range titles {
		out.Columns = append(out.Columns, document.Column{Title: title})
	}
	for _, row := range rows {
		cells := make([]document.Text, len(row))
		for i, words := range row {
			cells[i] = document.Plain(strings.Join(strings.Fields(words), " "))
		}
		out.Rows = append(out.Rows, document.Row{Cells: cells})
	}
	return out
}

// deeds are the words for what a participant did, in their order.
func deeds() [][2]string {
	return [][2]string{{ActionBreak, "injected"}, {ActionKill, "killed"}, {ActionPause, "paused"},
		{ActionRestart, "restarted"}, {ActionScale, "scaled"}, {ActionNotice, "noticed"}, {entryHealed, "healed"},
		{ActionReplay, "replayed"}, {ActionNote, "noted"}, {ActionStop, "ended the drill"}}
}

func (r Record) participantTable() document.Table {
	var rows [][]string
	for _, one := range r.Participants {
		var parts []string
		for _, deed := range deeds() {
			if n := one.Did[deed[0]]; n > 0 {
				parts = append(parts, fmt.Sprintf("%s %d ×", deed[1], n))
			}
		}
		rows = append(rows, []string{cmp.Or(one.Name, "unnamed"), string(one.Role), clockTime(one.Joined),
			cmp.Or(strings.Join(parts, ", "), "watched")})
	}
	return table([]string{"name", "role", "joined at", "actions"}, rows)
}

// curves returns the rates, the lag and the latency over time, with the faults shaded.
func (r Record) curves() []document.Block {
	if len(r.Course) < 2 {
		return nil
	}
	out := document.Timeline{InMarkdown: true, Windows: []document.Window{}, Phases: []document.Window{},
		Marks: []document.Moment{}}
	curve := func(label, colour string, of func(Point) float64) document.Curve {
		values := make(document.Numbers, len(r.Course))
		for i, point := range r.Course {
			values[i] = of(point)
		}
		return document.Curve{Label: document.Words(label), Column: document.Words(label), Colour: colour, Values: values}
	}
	latency := func(of func(Point) time.Duration) func(Point) float64 {
		return func(p Point) float64 {
			if of(p) == 0 {
				return math.NaN() // nothing succeeded, so there is no latency
			}
			return of(p).Seconds() * 1e3
		}
	}
	out.Charts = []document.Chart{
		{ID: "rates", Title: "Records per second", Unit: "/s", Height: 200, Curves: []document.Curve{
			curve("sent", "sent", func(p Point) float64 { return p.Sent }),
			curve("processed", "processed", func(p Point) float64 { return p.Processed }),
			curve("dead letters", "dead", func(p Point) float64 { return p.Dead })}},
		{ID: "lag", Title: "Lag and retries in flight", Height: 160, Curves: []document.Curve{
			curve("lag", "lag", func(p Point) float64 { return float64(p.Lag) }),
			curve("retries in flight", "retries", func(p Point) float64 { return float64(p.Retries) })}},
		{ID: "latency", Title: "Latency of success, ms", Unit: "ms", Height: 180, Log: true, Curves: []document.Curve{
			curve("p50", "p50", latency(func(p Point) time.Duration { return p.P50 })),
			curve("p99", "p99", latency(func(p Point) time.Duration { return p.P99 }))}},
	}
	for _, point := range r.Course {
		out.Time = append(out.Time, point.At.Seconds())
	}
	last := r.Course[len(r.Course)-1].At
	out.End = last.Seconds()
	out.Key = document.Text{{Text: "Shaded: a fault in force, paler until drained; "},
		{Text: "◆", Mark: document.Warning}, {Text: " noticed, "}, {Text: "▲", Mark: document.Fail},
		{Text: " a decision or an action"}}
	for i, f := range r.Faults {
		out.Windows = append(out.Windows, document.Window{Label: document.Words(fmt.Sprint(i + 1)),
			Name: document.Words(f.Name), From: f.Injected.Seconds(), To: cmp.Or(deref(f.Healed), last).Seconds(),
			Noticed: inSeconds(f.Noticed), Steady: inSeconds(f.Drained)})
	}
	for _, one := range r.Log {
		if one.Who != nil && one.Action != ActionNotice && one.Action != ActionBreak {
			out.Marks = append(out.Marks, document.Moment{At: max(one.At, 0).Seconds(),
				Name: document.Words(who(one.Who) + ": " + one.Action + ", " + one.Text)})
		}
	}
	return []document.Block{out}
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	seconds := d.Seconds()
	return &seconds
}

func (r Record) faultTable() document.Table {
	out := document.Table{Columns: []document.Column{{Title: "fault"}, {Title: "what"}, {Title: "injected by"},
		{Title: "injected at", Figure: true}, {Title: "noticed"}, {Title: "lifted"}, {Title: "drained after", Figure: true},
		{Title: "effects", Figure: true}}}
	for _, f := range r.Faults {
		what, by := document.Plain(f.What), "the script"
		if f.Failed != "" {
			what = document.Lines(what, document.Marked("failed: "+f.Failed, document.Fail))
		}
		if f.By != nil {
			by = who(f.By)
		}
		drained := "–"
		if f.Healed != nil && f.Drained != nil {
			drained = rounded(*f.Drained - *f.Healed)
		}
		effects := document.Plain(units.Count(f.Effects))
		if f.Idle != "" {
			effects = document.Marked("none", document.Unsure)
		}
		out.Rows = append(out.Rows, document.Row{Cells: []document.Text{document.Plain(f.Name), what, document.Plain(by),
			document.Plain(clockTime(f.Injected)), f.noticedText(), document.Plain(f.liftedText()), document.Plain(drained),
			effects}})
	}
	return out
}

// noticedText says when a fault was noticed and by whom, or why it doesn't count.
func (f Fault) noticedText() document.Text {
	switch {
	case f.Failed != "" || f.Idle != "" || !f.ToNotice:
		return document.Plain("does not count")
	case f.Noticed == nil:
		return document.Marked("not noticed", document.Fail)
	}
	return document.Plain("after " + rounded(*f.Noticed-f.Injected) + ", " + who(f.NoticedBy))
}

// liftedText says when a fault was lifted, in which way, and by whom.
func (f Fault) liftedText() string {
	if f.Healed == nil {
		return "–"
	}
	out := "after " + rounded(*f.Healed-f.Injected) + ", " + f.Lifted
	if f.HealedBy != nil {
		out += ", " + who(f.HealedBy)
	}
	return out
}

// noticeTable lists what people saw, beside the faults that were there to see.
func (r Record) noticeTable() document.Table {
	var rows [][]string
	for _, one := range r.Log {
		if one.Action != ActionNotice {
			continue
		}
		var there []string
		for _, f := range r.Faults {
			if f.Noticeable() && f.Noticed != nil && *f.Noticed == one.At {
				there = append(there, fmt.Sprintf("%s, %s after it was injected", f.Name, rounded(one.At-f.Injected)))
			}
		}
		rows = append(rows, []string{clockTime(one.At), who(one.Who), cmp.Or(one.Text, "–"),
			cmp.Or(strings.Join(there, "; "), "nothing new: a false alarm, or noticed before")})
	}
	for _, f := range r.Faults {
		if f.Noticeable() && f.Noticed == nil {
			rows = append(rows, []string{"–", "nobody", "–", fmt.Sprintf("%s: %s, from %s on", f.Name, f.What,
				clockTime(f.Injected))})
		}
	}
	return table([]string{"at", "who", "what they saw", "what it was"}, rows)
}

// actionTable lists what people decided and did, other than to notice and to inject faults.
func (r Record) actionTable() document.Table {
	var rows [][]string
	for _, one := range r.Log {
		if one.Who != nil && one.Action != ActionNotice && one.Action != ActionBreak {
			rows = append(rows, []string{clockTime(one.At), who(one.Who), actionWord(one.Action), one.Text})
		}
	}
	return table([]string{"at", "who", "action", "what"}, rows)
}

// actionWord is the word for an action in a table.
func actionWord(action string) string {
	switch action {
	case ActionNote:
		return "decision"
	case ActionBreak:
		return "inject"
	}
	return action
}

func (r Record) eventTable() document.Table {
	var rows [][]string
	for _, one := range r.Log {
		by := ""
		if one.Who != nil {
			by = who(one.Who)
		}
		rows = append(rows, []string{clockTime(one.At), by, actionWord(one.Action), one.Text})
	}
	return table([]string{"at", "who", "event", "what"}, rows)
}

func (r Record) verdict() []document.Block {
	findings := document.List{}
	for _, reason := range r.Result.Reasons {
		findings.Items = append(findings.Items, document.Item{Text: document.Plain(reason)})
	}
	if len(r.Result.Reasons) == 0 && r.Result.Verdict != "" {
		findings.Items = append(findings.Items,
			document.Item{Text: document.Plain("Every promise that was judged was kept.")})
	}
	if r.Result.Error != "" {
		findings.Items = append(findings.Items,
			document.Item{Text: document.Marked("besides the subject: "+r.Result.Error, document.Fail)})
	}
	for _, one := range r.Invariants {
		words := ": " + strings.Join(append([]string{string(one.Status)}, one.What...), "; ")
		findings.Items = append(findings.Items, document.Item{Text: slices.Concat(
			document.Link(one.Name, reports.InvariantPage(one.Name)), document.Plain(words))})
	}
	out := []document.Block{findings}
	if r.Result.Replay != "" {
		out = append(out, document.Paragraph{Text: document.Plain("To run it again without people:")},
			document.Code(r.Result.Replay))
	}
	return out
}

// actionItems suggests an item for every fault that nobody noticed and every invariant that was violated, and leaves
// room for those that only people know.
func (r Record) actionItems() document.List {
	const owner = " Owner: …, due: …"
	out := document.List{Tasks: true}
	add := func(words string) {
		out.Items = append(out.Items, document.Item{Text: document.Plain(words + owner)})
	}
	for _, f := range r.Faults {
		if f.Noticeable() && f.Noticed == nil {
			add(fmt.Sprintf("Alert on what %s looks like (%s): nobody noticed it.", f.Name, f.What))
		}
	}
	for _, one := range r.Invariants {
		if one.Status == assertions.Fail {
			add(fmt.Sprintf("Fix the consumer: %s (%s).", one.Name, strings.Join(one.What, "; ")))
		}
	}
	add("…")
	return out
}

// lessons are the questions of a postmortem that only people can answer.
func lessons() document.List {
	out := document.List{}
	for _, question := range []string{"What went well: …", "What went badly: …", "Where we were lucky: …",
		"What we will do differently: …"} {
		out.Items = append(out.Items, document.Item{Text: document.Plain(question)})
	}
	return out
}

// files lists the files of the drill, which are beside the debrief.
func (r Record) files() document.List {
	out := document.List{}
	if r.Result.Dir == "" || r.RunID == "" {
		return out
	}
	for _, one := range [][2]string{{"report.html", "the whole verdict, with the trace of each violation"},
		{"recorded.yaml", "the drill as a scenario, which repeats it without people"},
		{FileHTML, "this debrief as a page"}, {FileMarkdown, "this debrief as Markdown, to paste"},
		{FileJSON, "everything for programs"}} {
		out.Items = append(out.Items, document.Item{Text: slices.Concat(document.Link(one[0], one[0]),
			document.Plain(": "+one[1]))})
	}
	return out
}

func deref(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

// Noticeable reports whether the fault could be noticed, and so counts.
func (f Fault) Noticeable() bool { return f.ToNotice && f.Failed == "" && f.Idle == "" }

func who(a *Actor) string {
	if a == nil {
		return "–"
	}
	if a.Name == "" {
		return string(a.Role)
	}
	return a.Name + " (" + string(a.Role) + ")"
}

// rounded formats a duration for people, to a tenth of a second if it is longer than one.
func rounded(d time.Duration) string {
	if d < time.Second {
		return units.Text(d.Round(time.Millisecond))
	}
	return units.Text(d.Round(100 * time.Millisecond))
}

// clockTime formats a time of the drill like a stopwatch.
func clockTime(at time.Duration) string {
	sign := ""
	if at < 0 {
		sign, at = "-", -at
	}
	tenths := at.Round(100*time.Millisecond).Milliseconds() / 100
	return fmt.Sprintf("%s%d:%02d.%d", sign, tenths/600, tenths/10%60, tenths%10)
}
