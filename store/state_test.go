package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/store"
)

// TestTheDiagram compares the state machine with an independent copy of the state diagram of "Dead Letter Queue
// Lifecycle" and the additions of the management schema.
func TestTheDiagram(t *testing.T) {
	legal := map[store.State]string{
		store.New:        "pending failed",
		store.Pending:    "processing pending archived resolved gone",
		store.Processing: "resolved pending failed manual",
		store.Manual:     "processing archived resolved manual gone",
		store.Failed:     "archived processing resolved failed gone",
		store.Resolved:   "gone",
		store.Archived:   "gone",
		store.Gone:       "",
		"nonsense":       "",
	}
	for from, next := range legal {
		for _, to := range append(store.States(), store.New, store.Gone, "nonsense") {
			want := to != store.New && strings.Contains(" "+next+" ", " "+string(to)+" ")
			err := store.Check(from, to)
			if (err == nil) != want {
				t.Errorf("from %q to %q: %v, legal: %t", from, to, err, want)
			}
			var illegal *store.IllegalTransition
			if err != nil && (!errors.As(err, &illegal) || illegal.From != from || illegal.To != to ||
				len(illegal.Legal) != len(strings.Fields(next))) {
				t.Errorf("from %q to %q: %#v", from, to, err)
			}
			if err != nil && errors.Is(err, store.ErrUnknownStatus) != (from == "nonsense" || from == store.Gone) {
				t.Errorf("from %q to %q: %v", from, to, err)
			}
		}
	}
}

func TestIllegalTransitionSaysWhatIsLegal(t *testing.T) {
	for want, err := range map[string]error{
		"a dead letter that is resolved can't become pending: it may become gone": store.Check(store.Resolved, store.Pending),
		"a new dead letter can't become resolved: it may become pending, failed":  store.Check(store.New, store.Resolved),
		"a dead letter whose status is \"weird\" can't become \"pending\": that status is unknown; set it right in the " +
			"table first": store.Check("weird", store.Pending),
		"a dead letter that is manual can't become failed: it may become processing, archived, resolved, manual, gone": store.Check(store.Manual, store.Failed),
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}

func TestVocabularies(t *testing.T) {
	words := map[string]string{
		store.VocabularyLifecycle:  "dlq_pending dlq_processing dlq_resolved dlq_failed dlq_manual dlq_archived",
		store.VocabularyManagement: "pending reprocessing resolved pending/failed pending/manual discarded",
	}
	for name, want := range words {
		vocabulary, err := store.NamedVocabulary(name)
		if err != nil || vocabulary.Name() != name {
			t.Fatalf("%s: %v", vocabulary.Name(), err)
		}
		var got []string
		for _, state := range store.States() {
			status, held := vocabulary.Write(state)
			if back, err := vocabulary.Read(status, held); err != nil || back != state {
				t.Errorf("%s: %s is written %q/%q, which is read as %s (%v)", name, state, status, held, back, err)
			}
			if held != "" {
				status += "/" + held
			}
			got = append(got, status)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		for _, unknown := range [][2]string{{"weird", ""}, {"", ""}, {"failed", ""}, {"gone", ""}, {"pending", "odd"},
			{"PENDING", ""}} {
			state, err := vocabulary.Read(unknown[0], unknown[1])
			if !errors.Is(err, store.ErrUnknownStatus) || state.Known() || state == store.New || state == store.Gone {
				t.Errorf("%s: %q is read as %q (%v)", name, unknown, state, err)
			}
			if back, _ := vocabulary.Write(state); unknown[1] == "" && back != unknown[0] {
				t.Errorf("%s: %q is written %q", name, unknown, back)
			}
			if entry := (store.Entry{State: state}); !errors.Is(entry.Problem(), store.ErrUnknownStatus) {
				t.Errorf("%s: an entry whose status is %q has no problem", name, unknown)
			}
		}
	}
	if _, err := store.NamedVocabulary("klingon"); err == nil {
		t.Error("there is a vocabulary of any name")
	}
	if problem := (store.Entry{State: store.Failed}).Problem(); problem != nil {
		t.Error(problem)
	}
}

// TestTextIsKept checks that any bytes are stored as UTF-8 without NUL and come back unchanged.
func TestTextIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune{0, 'a', 0xFFFD, 0x10EFFF, 0x10F000, 0x10F0FF, 0x10F100, '日'})),
				func(s string) []byte { return []byte(s) })).Draw(t, "text"))
		kept := store.EncodeText(text)
		if !utf8.ValidString(kept) || strings.Contains(kept, "\x00") {
			t.Fatalf("%q is kept as %q", text, kept)
		}
		if back := store.DecodeText(kept); back != text {
			t.Fatalf("%q comes back as %q", text, back)
		}
	})
}

func TestOriginalEvent(t *testing.T) {
	cases := map[string]struct{ value, pattern, id, want string }{
		"JSON":                     {`{"a":1}`, "", "e", `{"a":1}`},
		"its own pattern":          {`{"pattern":"a.b"}`, "a.b", "e", `{"pattern":"a.b"}`},
		"its own pattern, unasked": {`{"pattern":"a.b"}`, "", "e", `{"pattern":"a.b"}`},
		"another pattern": {`{"pattern":"a.b"}`, "c.d", "e",
			`{"eventId":"e","pattern":"c.d","payload":{"pattern":"a.b"}}`},
		"a pattern from elsewhere":  {`[1]`, "c.d", "", `{"pattern":"c.d","payload":[1]}`},
		"no JSON":                   {"\xff", "c.d", "e", `{"eventId":"e","pattern":"c.d","payloadBase64":"/w=="}`},
		"nothing":                   {"", "", "", `{}`},
		"NUL in a text":             {`{"a":"\u0000\\u0000"}`, "", "", "{\"a\":\"\U0010F000\\\\u0000\"}"},
		"half a surrogate":          {`"\ud800x"`, "", "", "\"\uFFFDx\""},
		"the other half first":      {`"\udc00\ud800"`, "", "", "\"\uFFFD\uFFFD\""},
		"a whole surrogate":         {`"\ud834\udd1e"`, "", "", `"\ud834\udd1e"`},
		"a number no database has":  {`1e99999`, "", "", `{"payloadBase64":"MWU5OTk5OQ=="}`},
		"a number they have":        {`[1e300,-1.5E-3]`, "", "", `[1e300,-1.5E-3]`},
		"digits in a text":          {`"1e99999"`, "", "", `"1e99999"`},
		"a pattern that is no text": {`{"pattern":5}`, "", "", `{"pattern":5}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := store.OriginalEvent([]byte(c.value), c.pattern, c.id)
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.pattern != "" && store.EventPattern(got) != c.pattern {
				t.Errorf("its pattern is %q", store.EventPattern(got))
			}
		})
	}
}

// FuzzOriginalEvent checks that the event of any value is JSON that a database can store, and that it is its own event.
func FuzzOriginalEvent(f *testing.F) {
	for _, seed := range []string{`{"a":"\u0000"}`, `"\ud800\u"`, `{"pattern":"x"}`, strings.Repeat("[", 300),
		`-0.1e+1000`, "\xff", `"\\\u0000"`} {
		f.Add([]byte(seed), "a.*", "id")
	}
	f.Fuzz(func(t *testing.T, value []byte, pattern, id string) {
		event := store.OriginalEvent(value, pattern, id)
		if !json.Valid(event) || !utf8.Valid(event) || strings.Contains(string(event), `\ud8`) && !json.Valid(value) {
			t.Fatalf("the event of %q is %q", value, event)
		}
		if again := store.OriginalEvent(event, store.EventPattern(event), id); string(again) != string(event) {
			t.Fatalf("%q becomes %q the second time", event, again)
		}
	})
}
