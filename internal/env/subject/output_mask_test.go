package subject

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestSecretsIn(t *testing.T) {
	got := secretsIn([]string{
		"PATH=/usr/bin", "DB_PASSWORD=correct-horse", "API_TOKEN=abcdefgh", "PASSWORD=short",
		"DLQBENCH_STORE_URL=postgres://user:p%40ssword1@127.0.0.1/db",
		"PASSWORD_AGAIN=correct-horse", "KEY_COUNT=1000000",
	})
	if want := []string{"correct-horse", "p%40ssword1", "p@ssword1", "abcdefgh"}; fmt.Sprintf("%s",
		got) != fmt.Sprint(want) {
		t.Errorf("secrets %s, want %s", got, want)
	}
}

// However the output is split, the result is the whole output with its secrets replaced.
func TestMaskProperty(t *testing.T) {
	secrets := [][]byte{[]byte("abcabd"), []byte("aabaab"), []byte("abcabcd"), []byte("bcabcabca")}
	all := secretsIn([]string{"A_SECRET=" + string(secrets[0]), "B_SECRET=" + string(secrets[1]),
		"C_SECRET=" + string(secrets[2]), "D_SECRET=" + string(secrets[3])})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[abcd]{0,6}`),
			rapid.SampledFrom([]string{"abcabd", "aabaab", "abcabcd", "bcabcabca"})), 0, 12).Draw(t, "pieces")
		text := strings.Join(pieces, "")
		m := newMask(all)
		var out bytes.Buffer
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 7).Draw(t, "n"))
			out.Write(m.next(rest[:n]))
			rest = rest[n:]
		}
		out.Write(m.rest())
		for _, one := range all {
			if bytes.Contains(out.Bytes(), one) {
				t.Fatalf("%q became %q, which has %s", text, out.String(), one)
			}
		}
		if got := strings.ReplaceAll(out.String(), masked, ""); len(got) > len(text) ||
			len(all) > 0 && !containsAny(text, all) && got != text {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}

func containsAny(text string, all [][]byte) bool {
	for _, one := range all {
		if strings.Contains(text, string(one)) {
			return true
		}
	}
	return false
}

// settable is a clock that shows the time set by the test.
type settable struct{ at time.Duration }

func (c *settable) Now() time.Duration { return c.at }

// The log and the lines passed to the callbacks are free of secrets, and the log's times say when the output
// arrived.
func TestOutputIsMaskedAndTimed(t *testing.T) {
	var seen []string
	clock := &settable{at: 2 * time.Second}
	out := must.Get(newOutput(filepath.Join(t.TempDir(), "log"), [][]byte{[]byte("hunter2hunter2")}, clock,
		func(line []byte) { seen = append(seen, string(line)) }, nil))(t)
	t.Cleanup(func() { _ = out.close() })
	out.copy(strings.NewReader("login hunter2hunter2\n"))
	clock.at += TimesEvery / 2
	out.copy(strings.NewReader("soon after\n"))
	clock.at += time.Second
	out.copy(strings.NewReader("later"))
	text, _ := os.ReadFile(out.file.Name())
	if want := "login *****\nsoon after\nlater"; string(text) != want || strings.Join(seen, "\n") != want {
		t.Errorf("the log has %q, the lines are %q, want %q", text, seen, want)
	}
	times, _ := os.ReadFile(out.file.Name() + TimesSuffix)
	if want := "0 2000000000\n23 3050000000\n"; string(times) != want {
		t.Errorf("the times are %q, want %q", times, want)
	}
}
