package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

var (
	// ErrNotAllowed means that the role, or the ownership of the cluster, forbids the action.
	ErrNotAllowed = errors.New("not allowed")
	// ErrNotOpen means that it is too early or too late for the action.
	ErrNotOpen = run.ErrNotOpen
	// ErrRefused means that the action is impossible in this drill, or in general.
	ErrRefused = run.ErrRefused
)

const (
	// callLimit bounds every call. It is longer than lifting faults may take.
	callLimit = 105 * time.Second
	// maxLog is the maximum number of log entries in a state; it has the newest ones.
	maxLog = 400
	// maxText is the maximum length of a text, maxName that of a name, in characters.
	maxText = 2000
	maxName = 60
	// maxPeople is the maximum number of participants that are listed.
	maxPeople = 100
	// spare is the number of instances that can be added at a time.
	spare = 4
	// awayLimit is the time for which a drill that had viewers continues without any.
	awayLimit = 30 * time.Second
)

// Options configure a drill.
type Options struct {
	Scenario *scenarios.Scenario
	// Source is the scenario's text. SubjectFile is the file of its subject, or "" for the reference consumer.
	Source      []byte
	SubjectFile string
	// Foreign means that the Kafka is the user's own. No fault may be injected there unless the user has declared
	// ownership.
	Foreign bool
	// CanBreak, if set, returns why an action on a broker of this Kafka is impossible. action is the scenario's word
	// ("kill").
	CanBreak func(action string) error
	// Links means that people can break links only, during a run. A recording is written only if they did.
	Links bool
	// Scripted means that only the script injects faults, and people do not.
	Scripted bool
	// Rerun is the command line that runs a recording, with %s for its file.
	Rerun string
	// Limit is the maximum duration of the load, regardless of the scenario. 0 means one hour.
	Limit time.Duration
	// Away is the time for which a drill that had viewers continues without any. 0 means 30 s.
	Away time.Duration
}

// Session is a drill. All methods are safe for concurrent use. Every call is bounded in time, with or without a
// deadline of its own.
type Session struct {
	options Options
	clock   func() time.Time
	breaks  breaking
	ending  func()

	catalogue func() []Breakable
	subject   func() *scenarios.SubjectFile
	done      chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed by the next change
	version uint64
	stage   Stage
	opened  time.Time // when the steady load began
	ended   time.Duration
	until   time.Duration
	live    *reports.Snapshot
	told    int64 // index of the run's last event in the log
	faults  []*fault
	log     []line
	entries int
	lags    []lag
	why     string
	false   int
	here    int           // the number of viewers
	arrived chan struct{} // closed when the first viewer comes
	people  []Participant
	course  course
	away    *time.Timer
	limit   *time.Timer
	result  *Result
	written debrief
}

// fault is a Fault with the data that only the session knows.
type fault struct {
	Fault
	index int
	// spec is the fault as a scenario writes it; planned holds its settings as the run carries them out.
	spec    catalogue.Spec
	planned faults.Fault
	// before is the lag at which the fault counts as drained.
	before int64
	// leaves means that lifting has begun, so that nobody else can lift it any more.
	leaves bool
	// open means that it stays in force until somebody lifts it.
	open bool
}

// line is an entry, with its visibility before the drill is over.
type line struct {
	Entry
	hidden bool // from the responder
	// plain is the text for a responder if the full text reveals too much.
	plain string
}

// lag is the lag at a point in time.
type lag struct {
	at  time.Duration
	lag int64
}

// breaking injects and lifts faults: the harness's manual control, or a test's.
type breaking interface {
	Break(ctx context.Context, written catalogue.Spec, by fmt.Stringer) (faults.Planned, error)
	Heal(ctx context.Context, index int) error
	Alive(instance int) bool
	Replay(ctx context.Context) (letters int, err error)
}

// New returns a session that waits for its run, and the manual control to pass in that run's options.
func New(options Options) (*Session, *run.Manual) {
	s := newSession(options)
	room := spare
	if options.Links {
		room = 0
	}
	manual := run.NewManual(run.ManualOptions{Spare: room, Rerun: options.Rerun, Unattended: options.Links,
		Opened: s.begin, Told: s.hear})
	s.breaks, s.ending = manual, manual.EndLoad
	return s, manual
}

func newSession(options Options) *Session {
	options.Away, options.Limit = cmp.Or(options.Away, awayLimit), cmp.Or(options.Limit, time.Hour)
	s := &Session{
		options: options, clock: time.Now, done: make(chan struct{}), changed: make(chan struct{}),
		arrived: make(chan struct{}), stage: StageSetUp,
		until: min(options.Scenario.Workload.Duration.D(), options.Limit),
	}
	s.catalogue, s.subject = sync.OnceValue(s.listCatalogue), sync.OnceValue(s.loadSubject)
	return s
}

// Catalogue lists the faults, and why unavailable ones are unavailable in this drill.
func (s *Session) Catalogue() []Breakable { return s.catalogue() }

// Done is closed when the drill is over and its debrief has been written.
func (s *Session) Done() <-chan struct{} { return s.done }

// Next waits until the state has changed since the version, or ctx ends.
func (s *Session) Next(ctx context.Context, after uint64) error {
	for {
		s.mu.Lock()
		version, changed := s.version, s.changed
		s.mu.Unlock()
		if version > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Attend counts a viewer until leave is called. If there are no viewers for Options.Away, all faults are lifted and the
// drill ends, because the person who injected them has gone.
func (s *Session) Attend() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here++
	s.arrive()
	if s.away != nil {
		s.away.Stop()
		s.away = nil
	}
	return sync.OnceFunc(s.leave)
}

// Arrive lets a drill that waits for its first viewer begin, for clients that come and go. It counts no viewer.
func (s *Session) Arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrive()
}

// arrive ends the wait for the first viewer. The caller holds s.mu.
func (s *Session) arrive() {
	select {
	case <-s.arrived:
	default:
		close(s.arrived)
	}
}

// AwaitViewer waits until the first viewer comes, or ctx ends.
func (s *Session) AwaitViewer(ctx context.Context) error {
	select {
	case <-s.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Join names a participant before they do anything. Everyone who acts is a participant as well.
func (s *Session) Join(who Actor) error {
	_, err := s.may(ActionJoin, &who)
	return err
}

// meet adds a participant unless they are known. The caller holds s.mu.
func (s *Session) meet(who Actor) {
	if !slices.ContainsFunc(s.people, func(p Participant) bool { return p.Actor == who }) && len(s.people) < maxPeople {
		s.people = append(s.people, Participant{Actor: who, Joined: s.now()})
		s.change()
	}
}

// Attended reports whether there are viewers.
func (s *Session) Attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here > 0
}

func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here--; s.here == 0 && s.stage != StageOver {
		s.away = time.AfterFunc(s.options.Away, s.deserted)
	}
}

// deserted ends a drill without viewers.
func (s *Session) deserted() {
	s.mu.Lock()
	gone := s.here == 0
	s.mu.Unlock()
	if gone {
		s.end(fmt.Sprintf("no viewer for %s", s.options.Away))
	}
}

// Stop ends the load now: all faults are lifted, the consumer finishes its work, and the drill is judged. Stop does not
// wait for that.
func (s *Session) Stop(who Actor) error {
	if _, err := s.may(ActionStop, &who); err != nil {
		return err
	}
	s.mu.Lock()
	s.say(line{Entry: Entry{Who: &who, Action: ActionStop, Text: "ends the drill"}})
	s.mu.Unlock()
	s.end("stopped by " + who.Title())
	return nil
}

// Interrupted ends the drill like Stop, without naming a person.
func (s *Session) Interrupted() { s.end("stopped from the terminal") }

func (s *Session) end(why string) {
	s.mu.Lock()
	if s.why == "" && s.stage != StageOver {
		s.why = why
		s.change()
	}
	s.mu.Unlock()
	s.ending()
}

// Notice handles the button "I noticed". It counts for every noticeable fault that is in force, or that ended recently
// and has not drained.
func (s *Session) Notice(who Actor, text string) error {
	now, err := s.may(ActionNotice, &who)
	if err != nil {
		return err
	}
	text = trimmed(text, maxText)
	s.mu.Lock()
	defer s.mu.Unlock()
	noticed := false
	for _, f := range s.faults {
		if f.ToNotice && f.Noticed == nil && f.Failed == "" && (f.Healed == nil || f.Drained == nil) {
			f.Noticed, f.NoticedBy, noticed = &now, &who, true
		}
	}
	if !noticed {
		s.false++
	}
	s.say(line{Entry: Entry{At: now, Who: &who, Action: ActionNotice, Text: text}})
	return nil
}

// Note logs a decision or a remark.
func (s *Session) Note(who Actor, text string) error {
	if _, err := s.may(ActionNote, &who); err != nil {
		return err
	}
	if text = trimmed(text, maxText); text == "" {
		return fmt.Errorf("%w: a note needs some text", ErrRefused)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(line{Entry: Entry{Who: &who, Action: ActionNote, Text: text}, hidden: who.Role == RoleInjector})
	return nil
}

// Title is how a sentence names an actor.
func (a Actor) Title() string {
	return cmp.Or(a.Name, "the "+string(a.Role))
}

// trimmed returns a person's text without terminal control sequences, shortened to the maximum length.
func trimmed(text string, most int) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// may returns the time of the drill, or an error if the actor may not do something now. It cleans the actor's name for
// display.
func (s *Session) may(action string, who *Actor) (time.Duration, error) {
	who.Name = trimmed(strings.Join(strings.Fields(who.Name), " "), maxName)
	s.mu.Lock()
	defer s.mu.Unlock()
	if who.Role != RoleInjector && who.Role != RoleResponder {
		return 0, fmt.Errorf("%w: there is no role %q in a drill", ErrNotAllowed, who.Role)
	}
	if why := s.forbidden(action, who.Role); why != "" {
		return 0, fmt.Errorf("%w: %s", ErrNotAllowed, why)
	}
	if why := s.untimely(action); why != "" {
		return 0, fmt.Errorf("%w: %s", ErrNotOpen, why)
	}
	if action == ActionJoin && who.Name == "" {
		return 0, fmt.Errorf("%w: a participant needs a name", ErrRefused)
	}
	s.meet(*who)
	return s.now(), nil
}

// forbidden returns why a role may never do something, or "" if it may. The caller holds s.mu.
func (s *Session) forbidden(action string, role Role) string {
	breaks := slices.Contains([]string{ActionBreak, ActionKill, ActionPause, ActionRestart, ActionScale}, action)
	switch {
	case breaks && s.options.Foreign:
		return "this Kafka is not dlqbench's own; who owns it may start the drill with --i-own-this-cluster"
	case action == ActionBreak && s.options.Scripted:
		return "this drill follows its script: no faults are injected by hand"
	case role == RoleResponder && (action == ActionBreak || action == ActionHeal):
		return "a responder injects no faults and can only heal all of them: finding out which there are is the task"
	}
	return ""
}

// untimely returns why something is impossible at this stage, or "" if it is possible. The caller holds s.mu.
func (s *Session) untimely(action string) string {
	switch {
	case s.stage == StageOver:
		return "the drill is over"
	case action == ActionJoin || action == ActionNote || action == ActionStop || action == ActionHealAll ||
		action == ActionNotice && s.stage == StageDrain:
		return ""
	case s.stage == StageSetUp || s.stage == StageWarm:
		return "the load has not begun yet"
	case s.stage != StageOpen:
		return "the load has ended"
	}
	return ""
}

// now is the time of the drill. The caller holds s.mu.
func (s *Session) now() time.Duration {
	if s.opened.IsZero() {
		return 0
	}
	return s.clock().Sub(s.opened)
}

// change makes a new version. The caller holds s.mu.
func (s *Session) change() {
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// say adds a line to the log. The caller holds s.mu.
func (s *Session) say(one line) {
	s.entries++
	one.Number = s.entries
	if one.At == 0 {
		one.At = s.now()
	}
	s.log = append(s.log, one)
	s.change()
}
