package agreement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/verify/generate"
)

// TestShardsAreJudgedAsOneHistory distributes the events of a history at random over several recorders, as if each had
// observed a part of the run, and puts their segments into one folder. The verdict is that of the whole history, byte
// for byte.
func TestShardsAreJudgedAsOneHistory(t *testing.T) {
	for seed := range max(seeds()/20, 5) {
		c := generate.NewSeeded(seed)
		h := generate.Consumer(c)
		for _, one := range []*generate.History{h, generate.Scramble(h, c)} {
			shards := 1 + c.Intn(5)
			reader, err := history.Open(sharded(t, one, shards, rand.New(rand.NewPCG(seed, 2))))
			if err != nil {
				t.Fatal(err)
			}
			if whole, got := verdict(t, one.Source()), verdict(t, reader); !bytes.Equal(whole, got) {
				t.Errorf("seed %d in %d shards is judged\n%s\nand as one history\n%s", seed, shards, got, whole)
			}
		}
	}
}

// seal is the part of sealed.json that says which segments there are.
type seal struct {
	Format   int               `json:"format"`
	RunID    string            `json:"run_id"`
	Events   int64             `json:"events"`
	Segments []json.RawMessage `json:"segments"`
}

// sharded returns the folder of a history whose segments several recorders wrote.
func sharded(t *testing.T, h *generate.History, shards int, random *rand.Rand) string {
	t.Helper()
	source := h.Source()
	whole := seal{RunID: source.Header().RunID}
	dir := filepath.Join(t.TempDir(), "whole")
	recorders := make([]*history.Recorder, shards)
	for i := range recorders {
		var err error
		recorders[i], err = history.NewRecorder(shardDir(dir, i), source.Header(), history.NewClock())
		must(t, err)
	}
	must(t, source.Each(func(e *history.Event) error {
		recorders[random.IntN(shards)].Record(*e)
		return nil
	}))
	must(t, os.Mkdir(dir, 0o700))
	for i, r := range recorders {
		must(t, r.Seal())
		whole.add(t, dir, shardDir(dir, i))
	}
	must(t, os.Rename(filepath.Join(shardDir(dir, 0), "header.json"), filepath.Join(dir, "header.json")))
	data, err := json.Marshal(whole)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "sealed.json"), data, 0o600))
	return dir
}

func shardDir(dir string, shard int) string { return fmt.Sprintf("%s-%d", dir, shard) }

// add moves the segments of a shard into the folder of the whole history, with numbers that follow those before.
func (s *seal) add(t *testing.T, dir, shard string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shard, "sealed.json"))
	must(t, err)
	var part seal
	must(t, json.Unmarshal(data, &part))
	for _, segment := range part.Segments {
		var info map[string]any
		decoder := json.NewDecoder(bytes.NewReader(segment))
		decoder.UseNumber()
		must(t, decoder.Decode(&info))
		from := filepath.Join(shard, info["file"].(string))
		info["file"] = fmt.Sprintf("%06d.parquet", len(s.Segments)+1)
		must(t, os.Rename(from, filepath.Join(dir, info["file"].(string))))
		renamed, err := json.Marshal(info)
		must(t, err)
		s.Segments = append(s.Segments, renamed)
	}
	s.Format, s.Events = part.Format, s.Events+part.Events
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
