package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rounds is what go test prints of three rounds, in which the tap costs as much as given.
func rounds(tap ...string) string {
	var text strings.Builder
	for _, cost := range tap {
		text.WriteString("goos: linux\nBenchmarkConsume/way=straight-2  1  0 ns/op  1.000 cpu-µs/record  9 records/s\n" +
			"BenchmarkConsume/way=tap-2  1  0 ns/op  " + cost + " cpu-µs/record  8 records/s\nPASS\n")
	}
	return text.String()
}

// A drop below all that was recorded is an error, and so is a ratio that was not measured.
func TestADropIsAnError(t *testing.T) {
	for name, one := range map[string]struct{ recorded, measured, want string }{
		"as recorded":           {"0.80 0.90", rounds("1.1", "1.2", "1.3"), ""},
		"faster":                {"0.80", rounds("1.0", "1.0", "0.9"), ""},
		"one slow round":        {"0.80", rounds("1.1", "1.2", "9"), ""},
		"slower":                {"0.80 0.90", rounds("1.1", "1.3", "1.3"), "tap has 0.77× of the speed of straight"},
		"too few rounds":        {"0.80", rounds("1.1", "1.1"), "measured in 2 rounds"},
		"nothing recorded":      {"", rounds("1.1", "1.1", "1.1"), "recorded in 0"},
		"a benchmark that ends": {"0.80", rounds("1", "1", "1") + "--- FAIL: BenchmarkConsume\n", "a benchmark failed"},
		"no ratio":              {"many", rounds("1", "1", "1"), "is not a ratio"},
	} {
		file := filepath.Join(t.TempDir(), "recorded.txt")
		if err := os.WriteFile(file, []byte("Consume tap straight "+one.recorded+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := run(strings.NewReader(one.measured), io.Discard, file, false)
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: %v, want %q", name, err, one.want)
		}
	}
}

func TestRoundsAreAdded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recorded.txt")
	if err := os.WriteFile(file, []byte("Consume tap straight 0.95\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(strings.NewReader(rounds("1.25", "1")), io.Discard, file, true); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "Consume tap straight 0.80 0.95 1.00\n" {
		t.Errorf("recorded is %q (%v)", data, err)
	}
}
