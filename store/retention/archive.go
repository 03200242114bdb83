package retention

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/gofrs/flock"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/dlqbench/dlqbench/store"
)

// A file is completed when it has so many entries, or so many bytes of them: what is written and not yet marked is done
// again after a crash.
const (
	segmentEntries = 10_000
	segmentBytes   = 256 << 20
	// A row group is what the writer keeps in memory.
	groupEntries = 1000
	groupBytes   = 32 << 20
)

// Names in the folder: archive-YYYYMMDD-NNNNNN-SUM.parquet, where SUM is the XXH64 of all bytes of the file, by which a
// damaged one is known before anything is removed for its sake. Until it is complete a file is
// archive-YYYYMMDD-NNNNNN.part.
const (
	filePrefix = "archive-"
	fileSuffix = ".parquet"
	partSuffix = ".part"
	sumFormat  = "%016x"
	lockName   = "archive.lock"
)

// writable is the archive of one run, which has it alone.
type writable struct {
	folder string
	lock   *flock.Flock
	// versions of the entries that are in complete files, the highest of each; nil until they were looked for.
	versions map[string]int64
	number   int
	part     *part
}

// part is a file that isn't complete.
type part struct {
	file         *os.File
	name         string
	sum          *xxhash.Digest
	rows         *parquet.GenericWriter[row]
	added        []filed
	bytes, group int
}

// openWritable locks the folder, which is made if there is none, and deletes what a crash left half written.
func openWritable(folder string) (*writable, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the archive's folder: %w", err)
	}
	lock := flock.New(filepath.Join(folder, lockName))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("locking the archive %s: %w", folder, err)
	case !locked:
		return nil, errors.Join(fmt.Errorf("locking the archive %s: another run writes to it", folder), lock.Close())
	}
	opened := &writable{folder: folder, lock: lock}
	if err := opened.tidy(); err != nil {
		return nil, errors.Join(err, opened.close())
	}
	return opened, nil
}

func (w *writable) tidy() error {
	parts, err := filepath.Glob(filepath.Join(w.folder, filePrefix+"*"+partSuffix))
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Remove(part); err != nil {
			return fmt.Errorf("deleting what a run that was cut off left: %w", err)
		}
	}
	return nil
}

// look reads which entries are in the archive, once.
func (w *writable) look() error {
	if w.versions != nil {
		return nil
	}
	files, err := OpenArchive(w.folder).Files()
	if err != nil {
		return err
	}
	versions := map[string]int64{}
	for _, name := range files {
		err := eachKey(filepath.Join(w.folder, name), func(id string, version int64) {
			versions[id] = max(versions[id], version)
		})
		if err != nil {
			return fmt.Errorf("reading which entries are in the archive (nothing is removed while that isn't known): %w", err)
		}
		w.number = max(w.number, numberOf(name))
	}
	w.versions = versions
	return nil
}

// numberOf is the number in a file's name, 0 if it has none.
func numberOf(name string) int {
	parts := strings.Split(strings.TrimPrefix(name, filePrefix), "-")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return number
}

// has reports whether the entry is in a complete file as it is.
func (w *writable) has(entry store.Entry) bool {
	version, there := w.versions[entry.ID]
	return there && version >= entry.Version
}

// hasFailed reports whether an archived entry is in a complete file, perhaps as the failed one that it was one change
// before.
func (w *writable) hasFailed(entry store.Entry) bool {
	version, there := w.versions[entry.ID]
	return there && version >= entry.Version-1
}

// add writes an entry to the file that isn't complete yet. Which entries the archive has must be known.
func (w *writable) add(entry store.Entry, at time.Time) error {
	if w.part == nil {
		if err := w.begin(at); err != nil {
			return fmt.Errorf("beginning an archive file: %w", err)
		}
	}
	p := w.part
	written := rowOf(entry, at)
	if _, err := p.rows.Write([]row{written}); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", entry.ID, err)
	}
	size := written.bytes()
	p.added, p.bytes, p.group = append(p.added, filed{entry.ID, entry.Version}), p.bytes+size, p.group+size
	if p.group >= groupBytes {
		p.group = 0
		if err := p.rows.Flush(); err != nil {
			return fmt.Errorf("writing to the archive: %w", err)
		}
	}
	return nil
}

func (w *writable) begin(at time.Time) error {
	w.number++
	name := fmt.Sprintf("%s%s-%06d", filePrefix, at.UTC().Format("20060102"), w.number)
	file, err := os.OpenFile(filepath.Join(w.folder, name+partSuffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := xxhash.New()
	w.part = &part{file: file, name: name, sum: sum, rows: parquet.NewGenericWriter[row](io.MultiWriter(file, sum),
		parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(groupEntries),
		parquet.CreatedBy("dlqbench dead-letter archive", "1", ""))}
	return nil
}

func (w *writable) full() bool {
	return w.part != nil && (len(w.part.added) >= segmentEntries || w.part.bytes >= segmentBytes)
}

// complete puts the file that was written under its name, once it is on the disk; "" if none was.
func (w *writable) complete() (string, error) {
	p := w.part
	if p == nil {
		return "", nil
	}
	if err := errors.Join(p.rows.Close(), p.file.Sync()); err != nil {
		return "", fmt.Errorf("completing the archive file %s: %w", p.name, err)
	}
	if err := p.file.Close(); err != nil {
		return "", fmt.Errorf("completing the archive file %s: %w", p.name, err)
	}
	name := p.name + "-" + fmt.Sprintf(sumFormat, p.sum.Sum64()) + fileSuffix
	if err := os.Rename(p.file.Name(), filepath.Join(w.folder, name)); err != nil {
		return "", fmt.Errorf("completing the archive file %s: %w", p.name, err)
	}
	w.part = nil
	if err := syncFolder(w.folder); err != nil {
		return "", fmt.Errorf("completing the archive file %s: %w", p.name, err)
	}
	for _, one := range p.added {
		w.versions[one.id] = max(w.versions[one.id], one.version)
	}
	return name, nil
}

// syncFolder writes the names in a folder to the disk.
func syncFolder(folder string) error {
	directory, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// close gives the folder free; a file that isn't complete is deleted.
func (w *writable) close() error {
	var err error
	if w.part != nil {
		err = errors.Join(w.part.file.Close(), os.Remove(w.part.file.Name()))
		w.part = nil
	}
	return errors.Join(err, w.lock.Close()) // which unlocks it
}
