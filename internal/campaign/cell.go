package campaign

// This file names the cells of a suite.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Cell is one run of a campaign.
type Cell struct {
	gate.Entry
	// Name is short, a valid name of a folder, and the same as long as nothing changes that the run depends on.
	Name string
	// Key is the SHA-256 of everything in dlqbench's hands that the run depends on: its version, the scenario, the
	// subject's file and those that it names, the Kafka, the settings and the seed. The consumer itself is not part of it.
	Key string
	// Files are the paths of the files that the run reads.
	Files []string
}

// mostCells is the maximum number of cells that one campaign can have.
const mostCells = 10_000

// Cells returns the cells of a suite in its order. version is that of dlqbench. The error reports too many cells, or a
// file that can't be read.
func Cells(suite *gate.Suite, version string) ([]Cell, error) {
	if n := len(suite.Entries); n > mostCells {
		return nil, fmt.Errorf("the campaign has %d cells, and %d are the most: name fewer seeds, and run it in parts", n,
			mostCells)
	}
	cluster, err := json.Marshal(suite.Cluster)
	if err != nil {
		return nil, fmt.Errorf("describing the Kafka: %w", err)
	}
	inputs := map[string]input{}
	var cells []Cell
	for _, entry := range suite.Entries {
		of := strings.Join(append([]string{entry.Arg, entry.Subject}, entry.Sets...), "\x00")
		in, known := inputs[of]
		if !known {
			if in, err = read(entry); err != nil {
				return nil, fmt.Errorf("reading what %s needs: %w", entry.Label(), err)
			}
			inputs[of] = in
		}
		sum := sha256.New()
		add(sum, []byte(version), cluster, in.digest)
		for _, set := range entry.Sets {
			add(sum, []byte(set))
		}
		if entry.Seed != nil {
			add(sum, strconv.AppendUint(nil, *entry.Seed, 10))
		}
		key := hex.EncodeToString(sum.Sum(nil))
		cells = append(cells, Cell{Entry: entry, Name: slug(entry.Label()) + "-" + key[:8], Key: key, Files: in.files})
	}
	return cells, nil
}

// add adds texts with their lengths, so that moving text from one into another changes the sum.
func add(sum hash.Hash, texts ...[]byte) {
	for _, text := range texts {
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
	}
}

// notInSlug matches what a name of a folder, and of Kubernetes, does without.
var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// longestSlug is the maximum length of the part of a name that is for people.
const longestSlug = 72

func slug(label string) string {
	words := notInSlug.ReplaceAllString(strings.ToLower(label), "-")
	return strings.Trim(words[:min(len(words), longestSlug)], "-")
}

// input is what a run reads.
type input struct {
	files  []string
	digest []byte
}

// read lists and reads the files of a run.
func read(entry gate.Entry) (in input, err error) {
	name, text, err := scenarios.Find(entry.Arg)
	if err != nil {
		return in, err
	}
	scenario, _, err := scenarios.ParseForSubject(name, text, entry.Sets, entry.Subject)
	if err != nil {
		return in, err
	}
	subject := entry.Subject
	if subject == "" && scenario.Subject.File != "" {
		subject = scenarios.Beside(name, scenario.Subject.File)
	}
	if in.files, err = scenarios.FilesOf(name, subject); err != nil {
		return in, err
	}
	sum := sha256.New()
	add(sum, text)
	for _, path := range in.files {
		if path == name {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return in, err
		}
		add(sum, data)
	}
	in.digest = sum.Sum(nil)
	return in, nil
}

// Select returns the cells with the numbers in a text such as "1-40,43"; "" means all.
func Select(cells []Cell, numbers string) ([]Cell, error) {
	if numbers == "" {
		return cells, nil
	}
	wanted, err := gate.ParseRanges(numbers, mostCells)
	if err != nil {
		return nil, err
	}
	var selected []Cell
	for _, number := range wanted {
		if number < 1 || number > uint64(len(cells)) {
			return nil, fmt.Errorf("there is no cell %d: the campaign has %d", number, len(cells))
		}
		cell := cells[number-1]
		if slices.ContainsFunc(selected, func(one Cell) bool { return one.Number == cell.Number }) {
			return nil, fmt.Errorf("cell %d is named twice", number)
		}
		selected = append(selected, cell)
	}
	return selected, nil
}

// Numbers writes the numbers of cells as Select reads them.
func Numbers(cells []Cell) string {
	var parts []string
	for i := 0; i < len(cells); {
		last := i
		for last+1 < len(cells) && cells[last+1].Number == cells[last].Number+1 {
			last++
		}
		part := strconv.Itoa(cells[i].Number)
		if last > i {
			part += "-" + strconv.Itoa(cells[last].Number)
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ",")
}

// digestOf is short, and the same for the same cells.
func digestOf(cells []Cell) string {
	sum := sha256.New()
	for _, cell := range cells {
		add(sum, []byte(cell.Name))
	}
	return hex.EncodeToString(sum.Sum(nil))[:8]
}
