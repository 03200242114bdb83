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

// These are the limits of a file's entries and bytes at which it is completed. Entries that are written but not marked
// are processed again after a crash.
const (
	segmentEntries = 10_000
	segmentBytes   = 256 << 20
	// The writer keeps a row group in memory.
	groupEntries = 1000
	groupBytes   = 32 << 20
)

// The names in the folder are archive-YYYYMMDD-NNNNNN-SUM.parquet. SUM is the XXH64 of all bytes of the file, which
// reveals a damaged file before any entry is removed on its account. An incomplete file is named
// archive-YYYYMMDD-NNNNNN.part.
const (
	filePrefix = "archive-"
	fileSuffix = ".parquet"
	partSuffix = ".part"
	sumFormat  = "%016x"
	lockName   = "archive.lock"
)

// writable is the archive of one run, which has exclusive access.
type writable struct {
	folder string
	lock   *flock.Flock
	// versions holds the highest version of each entry in complete files, or is nil before they are read.
	versions map[string]int64
	number   int
	part     *part
}

// part is an incomplete file.
type part struct {
	file         *os.File
	name         string
	sum          *xxhash.Digest
	rows         *parquet.GenericWriter[row]
	added        []filed
	bytes, group int
}

// openWritable locks the folder, which it creates if necessary, and deletes partial files left by a crash.
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

// look reads the entries of the archive, once.
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

// numberOf is the number in a file's name, or 0.
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

// has reports whether a complete file contains the entry in its present version.
func (w *writable) has(entry store.Entry) bool {
	version, there := w.versions[entry.ID]
	return there && version >= entry.Version
}

// hasFailed reports whether a complete file contains an archived entry, in its present version or in the failed one
// just before it.
func (w *writable) hasFailed(entry store.Entry) bool {
	version, there := w.versions[entry.ID]
	return there && version >= entry.Version-1
}

// add writes an entry to the incomplete file. The entries of the archive must have been read.
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

// complete syncs the written file to disk and renames it to its final name. It returns "" if there is none.
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

// syncFolder syncs the names in a folder to disk.
func syncFolder(folder string) error {
	directory, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// close releases the folder and deletes an incomplete file.
func (w *writable) close() error {
	var err error
	if w.part != nil {
		err = errors.Join(w.part.file.Close(), os.Remove(w.part.file.Name()))
		w.part = nil
	}
	return errors.Join(err, w.lock.Close()) // also unlocks it
}
