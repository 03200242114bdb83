package tui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/reports"
)

// compareGolden compares a screen with its golden file.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", name+".txt"), got+"\n")
}

// at is a snapshot of a run after the given number of seconds, with a fault in force.
func at(second int) reports.Snapshot {
	now := time.Duration(second) * time.Second
	wave := 1 + math.Sin(float64(second)/3)/4
	s := reports.Snapshot{
		Scenario: "checkout", RunID: "20260211-120000-checkout-1a2b3c", Seed: 42, Subject: "reference",
		Now:   now + 4*time.Second,
		Phase: "fault", Elapsed: now, Total: time.Minute, SentRate: 2000 * wave, ProcessedRate: 1874 * wave,
		AttemptRate: 2100, DeadLetterRate: 3.3,
		Totals: reports.Totals{Sent: 40_120, Acknowledged: 40_100, Processed: 38_012, Attempts: 41_000, DeadLetters: 1033},
		Lag:    int64(100 * second), DeadLetters: 1033, RetriesInFlight: 12, Rebalances: 2, FaultsInjected: 3,
		Latency: reports.LiveLatency{
			Window: 5 * time.Second,
			Success: reports.LiveLatencies{Count: 9500, P50: 4200 * time.Microsecond, P99: 87 * time.Millisecond,
				Max: 1300 * time.Millisecond},
			FirstAttempt: reports.LiveLatencies{Count: 9800, P50: 812 * time.Microsecond, P99: 9 * time.Millisecond,
				Max: 125 * time.Second},
		},
		Instances: []reports.InstanceState{
			{Kind: "instance", Name: "instance 0", Status: reports.InstanceRunning, Since: 3 * time.Second, Partitions: 4,
				FetchRate: 1900, AttemptRate: 2100},
			{Kind: "instance", Number: 1, Name: "instance 1", Status: reports.InstanceKilled, Since: now, Errors: 7,
				LastError: "it hurts"},
			{Kind: "worker", Name: "worker 0", Status: reports.InstancePaused, Since: now},
		},
		Registry: &reports.RegistryFigures{Requests: 7},
		Store: &reports.StoreFigures{Changes: 90, ByState: map[history.StoreState]int64{history.StorePending: 12,
			history.StoreResolved: 30}},
		ActiveFaults: []reports.FaultState{
			{Name: "dlq-refuses", Kind: "kafka", What: "Produce to dlq answered NOT_ENOUGH_REPLICAS", Since: 10 * time.Second},
			{Name: "hostile\x1b[2J\n漢字", Kind: "network", What: "a name that moves the cursor \x1b[H", Since: 12 * time.Second},
		},
		Events: []reports.LiveEvent{
			{Sequence: 1, At: 0, Kind: reports.EventPhase, Text: "warm-up"},
			{Sequence: 2, At: 3 * time.Second, Kind: reports.EventInstance, Text: "instance 0 is ready"},
			{Sequence: 3, At: 14 * time.Second, Kind: reports.EventFault,
				Text: "dlq-refuses: Produce to dlq answered NOT_ENOUGH_REPLICAS"},
			{Sequence: 4, At: 20 * time.Second, Kind: reports.EventInstance, Text: "instance 1 ended: signal KILL"},
		},
	}
	for i := range 6 {
		s.Partitions = append(s.Partitions, reports.PartitionState{Topic: "in", Partition: int32(i), Lag: int64(i * i * 10),
			Instance: 0})
	}
	return s
}

// played is a drill without a system.
type played struct {
	state drill.State
	did   []drill.Action
	err   error
}

func (p *played) State() drill.State { return p.state }

func (p *played) Catalogue() []drill.Breakable {
	return []drill.Breakable{
		{Name: "network.latency", Summary: "answers come late",
			Spec: map[string]any{"network": map[string]any{"link": "brokers", "latency": "250ms"}},
			Parameters: []drill.Parameter{
				{Path: "network.link", Default: "brokers", Required: true, Choices: []string{"brokers", "downstream", "dlq"}},
				{Path: "network.latency", Type: drill.TypeDuration, Default: "250ms", Required: true},
				{Path: "for"},
			}},
		{Name: "broker.kill", Summary: "a broker is killed", Refused: "there is one broker only"},
		{Name: "downstream.outage", Summary: "every attempt is answered 503",
			Spec:       map[string]any{"downstream": map[string]any{"outage": true}},
			Parameters: []drill.Parameter{{Path: "downstream.outage", Type: drill.TypeFlag, Fixed: true}}},
	}
}

func (p *played) Do(_ context.Context, action drill.Action) (string, error) {
	p.did = append(p.did, action)
	return action.Name + " done", p.err
}

// shown is a model in a window, after that many seconds of a run.
func shown(width, height int, session *played) *model {
	options := Options{Interrupt: func() {}}
	if session != nil {
		options.Drill = session
	}
	m := newModel(&mailbox{}, newActing(), options)
	m.now = func() time.Time { return time.Unix(1000, 0) }
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for second := 1; second <= 40; second++ {
		if session != nil {
			live := at(second)
			session.state.Live = &live
		}
		m.mail.put(at(second))
		m.Update(tick{})
	}
	return m
}

func running() *played {
	return &played{state: drill.State{
		Stage: "open", At: 30 * time.Second, Until: 5 * time.Minute,
		May: []string{drill.ActionBreak, drill.ActionHeal, drill.ActionHealAll, drill.ActionKill, drill.ActionPause,
			drill.ActionResume, drill.ActionScale, drill.ActionNotice, drill.ActionNote, drill.ActionStop},
		Faults: []drill.Fault{
			{ID: "2", Name: "healed", Healed: new(time.Second)}, {ID: "4", Name: "failed", Failed: "no such broker"},
			{ID: "3", Name: "dlq-refuses", What: "Produce to dlq answered NOT_ENOUGH_REPLICAS", ToNotice: true,
				Injected: 10 * time.Second},
		},
		Log: []drill.Entry{
			{At: 10 * time.Second, Who: &drill.Actor{Role: drill.RoleInjector}, Action: "break", Text: "dlq-refuses"},
			{At: 12 * time.Second, Who: &drill.Actor{Name: "Ada"}, Action: "note", Text: "we wait"},
		},
	}}
}

// press presses keys one after another and executes their actions. A key with more than one letter is named.
func press(t *testing.T, m *model, keys ...string) {
	t.Helper()
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace}
	for _, key := range keys {
		message := tea.KeyPressMsg{Text: key, Code: []rune(key)[0]}
		if code, is := named[key]; is {
			message = tea.KeyPressMsg{Code: code}
		}
		if key == "ctrl+c" {
			message = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		if _, command := m.Update(message); command != nil {
			m.Update(command())
		}
	}
}

func TestScreens(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int
		session       *played
		keys          []string
	}{
		{"run-110x40", 110, 40, nil, nil},
		{"run-80x24", 80, 24, nil, nil},
		{"run-40x10", 40, 10, nil, nil},
		{"run-12x4", 12, 4, nil, nil},
		{"run-help", 80, 24, nil, []string{"?"}},
		{"drill-100x40", 100, 40, running(), nil},
		{"drill-80x24", 80, 24, running(), nil},
		{"drill-40x10", 40, 10, running(), nil},
		{"drill-break", 100, 40, running(), []string{"b"}},
		{"drill-break-search", 80, 24, running(), []string{"b", "n", "e", "t"}},
		{"drill-parameters", 80, 24, running(), []string{"b", "enter", "right", "down", "backspace", "s"}},
		{"drill-instances", 80, 24, running(), []string{"k", "down"}},
		{"drill-refused", 80, 24, running(), []string{"r"}},
		{"drill-help", 80, 24, running(), []string{"?"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := shown(test.width, test.height, test.session)
			press(t, m, test.keys...)
			compareGolden(t, test.name, m.View().Content)
		})
	}
}

// The screen before the first snapshot, and just after the view was opened.
func TestScreenAtFirst(t *testing.T) {
	m := newModel(&mailbox{}, newActing(), Options{})
	if got := m.View().Content; got != "" {
		t.Errorf("without a window it shows %q", got)
	}
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m.Update(tick{})
	if got := m.View().Content; !strings.Contains(got, "is being started") {
		t.Errorf("at first it shows\n%s", got)
	}
}

// In any window, any content fits, and foreign text cannot move the cursor.
func TestScreenFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var session *played
		if rapid.Bool().Draw(rt, "drill") {
			session = running()
			session.state.Log = append(session.state.Log,
				drill.Entry{Action: rapid.String().Draw(rt, "kind"), Text: rapid.String().Draw(rt, "text")})
		}
		m := shown(rapid.IntRange(0, 200).Draw(rt, "width"), rapid.IntRange(0, 60).Draw(rt, "height"), session)
		m.mail.log([]byte(rapid.String().Draw(rt, "logged")+"\n"), nil)
		m.Update(tick{})
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"b", "k", "s", "n", "d", "?", "enter", "esc", "down", "up", "right",
			"backspace", "漢", " "}), 0, 6).Draw(rt, "keys")
		press(t, m, keys...)
		lines := strings.Split(m.View().Content, "\n")
		if len(lines) > max(m.height, 1) {
			rt.Fatalf("%d lines in a window of %d", len(lines), m.height)
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > m.width {
				rt.Fatalf("a line of %d columns in a window of %d: %q", ansi.StringWidth(line), m.width, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				rt.Fatalf("control characters are shown: %q", line)
			}
		}
	})
}

// Keys request the right actions.
func TestKeys(t *testing.T) {
	for name, test := range map[string]struct {
		keys []string
		want []drill.Action
	}{
		"break with other values": {[]string{"b", "enter", "right", "down", "backspace", "backspace", "s", "down", "9", "s",
			"enter"}, []drill.Action{{
			Name: drill.ActionBreak, Spec: map[string]any{"network": map[string]any{"link": "downstream", "latency": "250s"},
				"for": "9s"},
		}}},
		"break, searched": {[]string{"b", "o", "u", "t", "a", "g", "enter", "enter"},
			[]drill.Action{{Name: drill.ActionBreak,
				Spec: map[string]any{"downstream": map[string]any{"outage": true}}}}},
		"break what can't be": {[]string{"b", "down", "enter", "enter"}, nil},
		"break, and leave":    {[]string{"b", "enter", "esc", "enter"}, nil},
		"a required value is missing": {append(append([]string{"b", "enter", "down"},
			slices.Repeat([]string{"backspace"}, 5)...), "enter"), nil},
		"choices go round": {[]string{"b", "enter", "left", "enter"},
			[]drill.Action{{Name: drill.ActionBreak,
				Spec: map[string]any{"network": map[string]any{"link": "dlq", "latency": "250ms"}}}}},
		"heal":            {[]string{"h", "enter"}, []drill.Action{{Name: drill.ActionHeal, Fault: "3"}}},
		"heal all":        {[]string{"H"}, []drill.Action{{Name: drill.ActionHealAll}}},
		"kill the second": {[]string{"k", "1", "enter"}, []drill.Action{{Name: drill.ActionKill, Instance: 1}}},
		"pause":           {[]string{"p", "enter"}, []drill.Action{{Name: drill.ActionPause}}},
		"scale": {[]string{"s", "x", "enter", "backspace", "3", "enter"},
			[]drill.Action{{Name: drill.ActionScale, Instances: 3}}},
		"replay is not allowed":  {[]string{"r"}, nil},
		"restart is not allowed": {[]string{"t"}, nil},
		"notice without words":   {[]string{"n", "enter"}, []drill.Action{{Name: drill.ActionNotice}}},
		"decision, with blanks": {[]string{"d", "h", "i", " ", "q", "enter"},
			[]drill.Action{{Name: drill.ActionNote, Text: "hi q"}}},
		"stop is asked about":         {[]string{"q", "enter"}, nil},
		"stop":                        {[]string{"q", "down", "enter"}, []drill.Action{{Name: drill.ActionStop}}},
		"what is no key does nothing": {[]string{"z", "enter", "left"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			session := running()
			m := shown(80, 24, session)
			press(t, m, test.keys...)
			if len(session.did) != len(test.want) {
				t.Fatalf("it did %+v, want %+v", session.did, test.want)
			}
			for i := range session.did {
				if fmt.Sprint(session.did[i]) != fmt.Sprint(test.want[i]) {
					t.Errorf("it did %+v, want %+v", session.did[i], test.want[i])
				}
			}
			m.acting.stop()
		})
	}
}

// The same key resumes a paused instance.
func TestPauseResumes(t *testing.T) {
	session := running()
	m := shown(80, 24, session)
	m.live.Instances[0].Status = reports.InstancePaused
	press(t, m, "p", "enter")
	if len(session.did) != 1 || session.did[0].Name != drill.ActionResume {
		t.Errorf("it did %+v", session.did)
	}
}

// If no fault can ever be injected, the key shows the reason.
func TestBreakingThatCanNeverBe(t *testing.T) {
	session := running()
	session.state.Unbreakable = "this Kafka is another's"
	m := shown(80, 24, session)
	press(t, m, "b", "enter", "enter")
	if got := m.View().Content; !strings.Contains(got, session.state.Unbreakable) || len(session.did) > 0 {
		t.Errorf("it did %+v and shows\n%s", session.did, got)
	}
}

// The result of an action is shown for a while. A failure is marked as such.
func TestActionsAreAnswered(t *testing.T) {
	session := running()
	m := shown(80, 24, session)
	press(t, m, "H")
	if got := m.View().Content; !strings.HasSuffix(got, "heal-all done") || m.busy != 0 {
		t.Errorf("it shows\n%s", got)
	}
	session.err = errors.New("not now\x1b[2J")
	press(t, m, "H")
	if got := m.View().Content; !strings.HasSuffix(got, `not now\x1b[2J`) {
		t.Errorf("it shows\n%s", got)
	}
	m.now = func() time.Time { return time.Unix(1000, 0).Add(saidFor + time.Second) }
	m.Update(tick{})
	if got := m.View().Content; strings.Contains(got, "not now") {
		t.Errorf("it still shows\n%s", got)
	}
}

// Ctrl-C interrupts the run, in any dialog.
func TestInterruptKey(t *testing.T) {
	interrupts := 0
	m := shown(80, 24, running())
	m.interrupt = func() { interrupts++ }
	press(t, m, "ctrl+c", "b", "ctrl+c")
	if interrupts != 2 {
		t.Errorf("%d interrupts", interrupts)
	}
}

// Events can be scrolled, but not past the first or last one.
func TestScroll(t *testing.T) {
	m := newModel(&mailbox{}, newActing(), Options{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	s := at(1)
	for i := range reports.MaxLiveEvents {
		s.Events = append(s.Events, reports.LiveEvent{Sequence: int64(10 + i), Text: fmt.Sprintf("event %d", i)})
	}
	m.mail.put(s)
	m.Update(tick{})
	if !strings.Contains(m.View().Content, "event 199") {
		t.Errorf("the newest is not shown:\n%s", m.View().Content)
	}
	press(t, m, "down", "down", "up", "down") // there is no line after the newest
	if !strings.Contains(m.View().Content, "event 199") {
		t.Errorf("the newest is not shown any more:\n%s", m.View().Content)
	}
	press(t, m, slices.Repeat([]string{"up"}, 500)...)
	if got := m.View().Content; !strings.Contains(got, "warm-up") || strings.Contains(got, "event 199") {
		t.Errorf("the oldest is not shown:\n%s", got)
	}
	press(t, m, "esc")
	if !strings.Contains(m.View().Content, "event 199") {
		t.Errorf("the newest is not shown again:\n%s", m.View().Content)
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"–": brief(0), "812µs": brief(812 * time.Microsecond), "4.2ms": brief(4200 * time.Microsecond),
		"87ms": brief(87 * time.Millisecond), "1.3s": brief(1300 * time.Millisecond),
		"2:05": brief(125 * time.Second), "1:02:03": clock(3723 * time.Second), "-0:04": clock(-4 * time.Second),
		"▁▄█ ": spark([]float64{9, 1, 4, 8, 0}, 4), "": spark(nil, 5),
		"   ": spark([]float64{0, 0, 0}, 9),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
