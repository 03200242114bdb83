package subject

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func containsVariable(environment []byte, variable string) bool {
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if string(entry) == variable {
			return true
		}
	}
	return false
}

func parentOf(pid int) (int, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

func TestRunDelaysCoverEveryThread(t *testing.T) {
	delays := map[int]int64{}
	runDelays(os.Getpid(), delays)
	if _, own := delays[os.Getpid()]; !own || len(delays) < 2 {
		t.Errorf("found the run delays of %d threads, the main one's: %v", len(delays), own)
	}
}

func TestSampleNotesTheLongestDelay(t *testing.T) {
	g, sink := group(t, nil, "obedient")
	g.up(t, 0)
	p, s := g.process(0), &sampler{}
	g.sample(p, s)
	if len(s.delays) == 0 {
		t.Fatal("no run delays were read")
	}
	g.sample(p, s)
	for thread := range s.delays {
		s.delays[thread] -= int64(stallNoted) * 3
	}
	before := len(sink.of(history.KindStall))
	g.sample(p, s)
	stalls := sink.of(history.KindStall)[before:]
	if len(stalls) == 0 || stalls[0].Instance != 0 || stalls[0].Aux < 3*int64(stallNoted) {
		t.Errorf("a delay of 60ms was noted as %+v", stalls)
	}
	if held := p.heldUp.Load(); held < 3*int64(stallNoted) {
		t.Errorf("the instance was held up for %d ns", held)
	}
	// Another process's figures do not affect this one.
	s.process = nil
	before = len(sink.of(history.KindStall))
	g.sample(p, s)
	if got := sink.of(history.KindStall)[before:]; len(got) != 0 && got[0].Aux >= 3*int64(stallNoted) {
		t.Errorf("noted %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.sampleProcesses(ctx)
}

func TestParseStatus(t *testing.T) {
	const rest = " 1 4194304 100 200 0 0 250 50 30 20 20 0 4 0 987654 1234567 321 18446744073709551615"
	want := status{state: 'S', parent: 7, group: 42, start: "987654", cpu: 3500 * time.Millisecond,
		rss: 321 * int64(os.Getpagesize())}
	sleeping, dead := want, want
	dead.state = 'Z'
	for line, expected := range map[string]*status{
		"42 (java) S 7 42 1 0 -1" + rest[2:]:                                &sleeping,
		"42 (tmux: client) S 7 42 1 0 -1" + rest[2:]:                        &sleeping,
		"42 (a) R 9 9 (b) S 7 42 1 0 -1" + rest[2:] + "\n":                  &sleeping,
		"42 (sh) Z 7 42 1 0 -1" + rest[2:]:                                  &dead,
		"42 (java) S 7 42 1 0 -1":                                           nil,
		"42 (java) S seven 42 1 0 -1" + rest[2:]:                            nil,
		strings.Replace("42 (x) S 7 42 1 0 -1"+rest[2:], " 321 ", " - ", 1): nil,
		"":  nil,
		")": nil,
	} {
		got, ok := parseStatus([]byte(line))
		if ok != (expected != nil) || ok && got != *expected {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}
