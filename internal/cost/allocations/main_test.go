package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const measured = `goos: linux
pkg: github.com/dlqbench/dlqbench/history
BenchmarkRead-2   	       2	 207830645 ns/op	   4860688 events/s	22696956 B/op	   17969 allocs/op
pkg: github.com/dlqbench/dlqbench/internal/env/tap
BenchmarkRoundTrip/passed_on-2  	 2000	 147099 ns/op	 190 B/op	 2 allocs/op
BenchmarkRoundTrip/passed_on-2  	 2000	 150000 ns/op	 220 B/op	 3 allocs/op
PASS
`

// Each allocation that is added to a hot path is an error, and so is a benchmark that nobody runs any more.
func TestMoreThanTheBoundIsAnError(t *testing.T) {
	const read, pass = "history.BenchmarkRead 17969 22696956\n", "internal/env/tap.BenchmarkRoundTrip/passed_on 2 190\n"
	for name, one := range map[string]struct{ bounds, want string }{
		"as recorded":        {read + pass, ""},
		"less than recorded": {"history.BenchmarkRead 20000 30000000\n" + pass, ""},
		"noise":              {"history.BenchmarkRead 17700 21000000\n" + pass, ""},
		"an allocation more": {read + strings.Replace(pass, " 2 ", " 1 ", 1),
			"makes 2 allocations per operation; its bound is 1"},
		"two in a hundred records": {"history.BenchmarkRead 17600 22696956\n" + pass, "makes 17969 allocations"},
		"larger":                   {"history.BenchmarkRead 17969 20000000\n" + pass, "allocates 22696956 bytes"},
		"new":                      {read, "passed_on has no bound"},
		"gone": {read + pass + "history.BenchmarkWrite 1 1\n",
			"BenchmarkWrite has a bound and did not run"},
		"no table": {"history.BenchmarkRead many\n", "is not a benchmark"},
	} {
		file := filepath.Join(t.TempDir(), "bounds.txt")
		if err := os.WriteFile(file, []byte(one.bounds), 0o600); err != nil {
			t.Fatal(err)
		}
		err := run(strings.NewReader(measured), io.Discard, file, false)
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: %v, want %q", name, err, one.want)
		}
	}
}

func TestWhatIsRecordedIsTheBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bounds.txt")
	for _, update := range []bool{true, false} {
		if err := run(strings.NewReader(measured), io.Discard, file, update); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), "passed_on      2       190") {
		t.Errorf("recorded is\n%s(%v)", data, err)
	}
	if err := run(strings.NewReader(measured+"--- FAIL: BenchmarkRead\n"), io.Discard, file, false); err == nil {
		t.Error("a benchmark that fails passes")
	}
}
