package main

// Section 4 measures the cost of writing, reading and judging a history.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

func measureHistory(ctx context.Context, o options) (section, error) {
	const records, rounds = 200_000, 5
	// The figure is per core, so no other core may do part of the work.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	events := story{records: records, attempts: 1}.events()
	figures := &historyFigures{dir: o.dir, header: story{records: records, attempts: 1}.Header(), events: events}
	all, err := inTurns(rounds, []func() (sample, error){
		figures.write, figures.read,
		func() (sample, error) { return figures.judge(history.FromEvents(figures.header, events)) },
		func() (sample, error) {
			reader, err := history.Open(figures.path())
			if err != nil {
				return sample{}, err
			}
			return figures.judge(reader)
		},
	})
	if err != nil {
		return section{}, err
	}
	if err := ctx.Err(); err != nil {
		return section{}, err
	}
	found := section{
		Title: "History: writing, reading, judging, on one core",
		How: []string{
			fmt.Sprintf("%d rounds in turns, %d events of %d records (%.1f each), a fiftieth dead-lettered; events per second "+
				"of processor time.",
				rounds, len(events), records, float64(len(events))/records),
			"Judging holds all invariants and all measurements.",
		},
		Rows: []row{
			summary("writing", "events/s", each(all[0], sample.cpuPerSecond)),
			{Name: "on disk", Unit: "bytes/event", Value: float64(figures.size) / float64(len(events))},
			summary("reading", "events/s", each(all[1], sample.cpuPerSecond)),
			summary("judging", "events/s", each(all[2], sample.cpuPerSecond)),
			summary("reading and judging", "events/s", each(all[3], sample.cpuPerSecond)),
		},
	}
	found.Rows[0].Detail = fmt.Sprintf("20,000 records/s are %.1f %% of one core",
		20_000*float64(len(events))/records/found.Rows[0].Value*100)
	found.Rows[3].Goal = "≥ 5 M/s"
	memory, err := measureMemory()
	found.Rows = append(found.Rows, memory...)
	if err != nil {
		return found, err
	}
	curve, err := measureCurve(ctx)
	found.Rows = append(found.Rows, curve...)
	return found, err
}

// measureCurve judges histories of 10⁵, 10⁶ and 10⁷ records that are generated during judging. The time for generating
// them is subtracted.
func measureCurve(ctx context.Context) (rows []row, err error) {
	for _, records := range []int{100_000, 1_000_000, 10_000_000} {
		if ctx.Err() != nil {
			return rows, ctx.Err()
		}
		making, err := take(1, func() error {
			return story{records: records, attempts: 1}.Each(func(*history.Event) error { return nil })
		})
		if err != nil {
			return rows, err
		}
		var whole held
		judging, err := take(1, func() (err error) {
			whole, err = holding(story{records: records, attempts: 1})
			return err
		})
		if err != nil {
			return rows, err
		}
		seconds := (judging.cpuMicros() - making.cpuMicros()) / 1e6
		rows = append(rows, row{
			Name: fmt.Sprintf("judging %d records", records), Unit: "events/s", Value: float64(whole.events) / seconds,
			Detail: fmt.Sprintf("%.1f s of processor time for %d events, %.0f MB", seconds, whole.events, whole.bytes/1e6),
		})
	}
	rows[len(rows)-1].Goal = "≥ 5 M/s, ≤ 15 s, ≤ 2 GB"
	return rows, nil
}

// historyFigures measures one history. Each measurement of writing writes it anew; the measurements of reading read the
// last one.
type historyFigures struct {
	dir    string
	header history.Header
	events []history.Event
	rounds int
	size   int64
}

func (f *historyFigures) path() string {
	return filepath.Join(f.dir, fmt.Sprintf("history-%d", f.rounds))
}

// write records all events and seals the history. It hands over events no faster than they are written, because the
// recorder drops the excess.
func (f *historyFigures) write() (sample, error) {
	if err := os.RemoveAll(f.path()); err != nil {
		return sample{}, err
	}
	f.rounds++
	recorder, err := history.NewRecorder(f.path(), f.header, history.NewClock())
	if err != nil {
		return sample{}, err
	}
	one, err := take(len(f.events), func() error {
		for i := range f.events {
			recorder.Record(f.events[i])
			if i%writeBreath == 0 {
				runtime.Gosched()
			}
		}
		return recorder.Seal()
	})
	if err != nil {
		return sample{}, err
	}
	f.size = 0
	files, err := filepath.Glob(filepath.Join(f.path(), "*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			f.size += info.Size()
		}
	}
	return one, err
}

// writeBreath is the number of events after which the writing goroutine gets its turn on the single core.
const writeBreath = 1 << 14

func (f *historyFigures) read() (sample, error) {
	reader, err := history.Open(f.path())
	if err != nil {
		return sample{}, err
	}
	count := 0
	one, err := take(len(f.events), func() error {
		return reader.Each(func(*history.Event) error { count++; return nil })
	})
	if err == nil && count != len(f.events) {
		err = fmt.Errorf("read %d events of %d", count, len(f.events))
	}
	return one, err
}

func (f *historyFigures) judge(source history.Source) (sample, error) {
	var verdict *assertions.Verdict
	one, err := take(len(f.events), func() (err error) {
		verdict, _, err = assertions.Judge(source)
		return err
	})
	if err == nil && verdict.Verdict != assertions.Pass {
		err = fmt.Errorf("the history is one of a correct run, yet judged %s: %v", verdict.Verdict, verdict.Reasons)
	}
	return one, err
}

// measureMemory compares the memory of judging at the end of three histories. The second and third have ten times the
// events of the first, for the same number of records and for ten times as many.
func measureMemory() ([]row, error) {
	const records = 20_000
	small, err := holding(story{records: records, attempts: 1})
	if err != nil {
		return nil, err
	}
	long, err := holding(story{records: records, attempts: 23})
	if err != nil {
		return nil, err
	}
	wide, err := holding(story{records: 10 * records, attempts: 1})
	if err != nil {
		return nil, err
	}
	compare := func(name string, than held) row {
		return row{
			Name: name, Unit: "×", Value: than.bytes / small.bytes,
			Detail: fmt.Sprintf("%.1f MB for %d events against %.1f MB for %d", than.bytes/1e6, than.events, small.bytes/1e6,
				small.events),
		}
	}
	perRecord := row{
		Name: "memory of judging, per record", Unit: "bytes", Value: (wide.bytes - small.bytes) / (9 * records),
		Detail: "in dense arrays, finished or not",
	}
	return []row{
		compare("memory of judging, 10 × the events, same records", long),
		compare("memory of judging, 10 × events and records", wide), perRecord,
	}, nil
}

// held is the memory of judging after the last event.
type held struct {
	bytes  float64
	events int
}

func holding(s story) (held, error) {
	before := heapInUse()
	watched := &watchedStory{story: s}
	verdict, _, err := assertions.Judge(watched)
	if err == nil && verdict.Verdict != assertions.Pass {
		err = fmt.Errorf("the history is one of a correct run, yet judged %s: %v", verdict.Verdict, verdict.Reasons)
	}
	return held{bytes: float64(watched.heap) - float64(before), events: watched.count}, err
}

// watchedStory measures the memory after the last event, while all data gathered by judging is still in use.
type watchedStory struct {
	story
	count int
	heap  uint64
}

// Each implements history.Source.
func (w *watchedStory) Each(see func(*history.Event) error) error {
	err := w.story.Each(func(e *history.Event) error { w.count++; return see(e) })
	w.heap = heapInUse()
	return err
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // frees the memory of finalizers and pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
