package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"

	"github.com/dlqbench/dlqbench/store"
)

// Archive reads archive files. It sees complete files only, and may be used during a run.
type Archive struct{ folder string }

// OpenArchive reads the archive in a folder. A folder that does not exist is an empty archive.
func OpenArchive(folder string) Archive { return Archive{folder: folder} }

// Archived is an entry with its content at the time of archiving.
type Archived struct {
	store.Entry
	// File is the name of its file, At the time at which it was written there.
	File string
	At   time.Time
}

// Files lists the names of the complete files, oldest first.
func (a Archive) Files() ([]string, error) {
	entries, err := os.ReadDir(a.folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the archive: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if ok, err := filepath.Match(filePrefix+"*"+fileSuffix, entry.Name()); err == nil && ok {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return numberOf(a) - numberOf(b) })
	return names, nil
}

// Each calls visit with every entry, file by file, oldest first. An error of visit ends it and is returned. An entry
// that was taken up again after it was written, and archived later, occurs once for each version.
func (a Archive) Each(ctx context.Context, visit func(Archived) error) error {
	names, err := a.Files()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := rows(filepath.Join(a.folder, name), func(r row) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return visit(Archived{Entry: r.entry(), File: name, At: r.ArchivedAt.UTC()})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Select returns the newest version of every entry if the query selects that version, in the query's order. It ignores
// the query's page.
func (a Archive) Select(ctx context.Context, query store.Query) ([]Archived, error) {
	newest := map[string]Archived{}
	err := a.Each(ctx, func(one Archived) error {
		if known, there := newest[one.ID]; !there || one.Version > known.Version {
			newest[one.ID] = one
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var selected []Archived
	for _, one := range newest {
		if query.Fits(one.Entry) {
			selected = append(selected, one)
		}
	}
	slices.SortFunc(selected, func(a, b Archived) int {
		if query.Descending {
			a, b = b, a
		}
		return inOrder(query.OrderBy, a.Entry, b.Entry)
	})
	return selected, nil
}

func inOrder(by string, a, b store.Entry) int {
	age := cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	switch by {
	case "updatedAt":
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
	case "priority":
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), age)
	}
	return age
}

// ErrInStore means that an entry needs no restoring, because the store has it.
var ErrInStore = errors.New("the store has it")

// Restore puts an entry back into a store as failed, with its id, its history and its counts. Workers do not retry it.
// The error is ErrInStore if the store has the entry, or another one of the same source. Restore makes a single write:
// if it is killed, the entry is either restored or not, and it can be repeated. At no time may a worker take the entry.
//
// The versions continue after the archived one. The archive identifies its contents by id and version, and must not
// mistake later states of the entry for the archived one.
func Restore(ctx context.Context, one Archived, db store.Store) error {
	now, err := db.Now(ctx)
	if err != nil {
		return fmt.Errorf("restoring %s: %w", one.ID, err)
	}
	entry := one.Entry
	entry.State, entry.Version, entry.UpdatedAt, entry.Resolution = store.Failed, one.Version+1, now,
		store.Resolution{Notes: "restored from " + one.File}
	fresh, err := db.Ingest(ctx, []store.Entry{entry})
	if err != nil {
		return fmt.Errorf("restoring %s: %w", one.ID, err)
	}
	if fresh > 0 {
		return nil
	}
	switch there, err := db.Get(ctx, one.ID); {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("restoring %s: %w: another entry is of %s/%d@%d", one.ID, ErrInStore, entry.Source.Topic,
			entry.Source.Partition, entry.Source.Offset)
	case err != nil:
		return fmt.Errorf("restoring %s: %w", one.ID, err)
	default:
		return fmt.Errorf("restoring %s: %w: it is %s", one.ID, ErrInStore, there.State)
	}
}

// key is the part of a row that identifies the entry.
type key struct {
	ID      string `parquet:"id"`
	Version int64  `parquet:"version"`
}

func eachKey(path string, visit func(id string, version int64)) error {
	return read(path, func(k key) error {
		visit(k.ID, k.Version)
		return nil
	})
}

func rows(path string, visit func(row) error) error { return read(path, visit) }

// read calls visit with the rows of a file, reduced to the columns that T has, after it has verified the file's
// checksum.
func read[T any](path string, visit func(T) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening an archive file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := intact(file)
	if err != nil {
		return err
	}
	opened, err := parquet.OpenFile(file, size)
	if err != nil {
		return fmt.Errorf("opening the archive file %s: %w", path, err)
	}
	reader := parquet.NewGenericReader[T](opened)
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		batch := make([]T, 16)
		n, err := reader.Read(batch)
		for _, one := range batch[:n] {
			if err := visit(one); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive file %s: %w", path, err)
		}
	}
}

// intact compares a file with the checksum in its name, and returns its length. The Parquet decoder must not read a
// damaged file, because it panics.
func intact(file *os.File) (int64, error) {
	sum := xxhash.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return 0, fmt.Errorf("reading the archive file %s: %w", file.Name(), err)
	}
	if want := "-" + fmt.Sprintf(sumFormat, sum.Sum64()) + fileSuffix; !strings.HasSuffix(file.Name(), want) {
		return 0, fmt.Errorf("reading the archive file %s: it is damaged, or was renamed: its content has the sum "+sumFormat,
			file.Name(), sum.Sum64())
	}
	return size, nil
}
