package retention

import (
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

	"github.com/dlqbench/dlqbench/deadletter/store"
)

// ErrNotArchived says that no complete file of the archive has an entry with this id.
var ErrNotArchived = errors.New("the archive has no such dead letter")

// Archive reads archive files. It sees complete files only, and may read while a run writes.
type Archive struct{ folder string }

// OpenArchive reads the archive in a folder, which may not exist yet: it is empty then.
func OpenArchive(folder string) Archive { return Archive{folder: folder} }

// Archived is an entry as it was when it was archived.
type Archived struct {
	store.Entry
	// File is the name of the file that has it, At when it was written there.
	File string
	At   time.Time
}

// Files are the names of the complete files, oldest first.
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

// Each hands over every entry, file by file, oldest first; an error of visit ends it and is returned. An entry that was taken up again after it was
// written, and archived later, is there once for each version.
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

// Get returns the newest version of an entry. ErrNotArchived.
func (a Archive) Get(ctx context.Context, id string) (Archived, error) {
	var newest Archived
	err := a.Each(ctx, func(one Archived) error {
		if one.ID == id && one.Version > newest.Version {
			newest = one
		}
		return nil
	})
	if err == nil && newest.ID == "" {
		err = fmt.Errorf("%w with the id %q", ErrNotArchived, id)
	}
	return newest, err
}

// Restorer is the store that an entry goes back to.
type Restorer interface {
	store.Ingester
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
}

// Restore puts an entry back into a store: pending, with its id, its history and its counts, and not tried again of its own accord. An entry whose
// source is in the store still is not touched, which is an error.
func (a Archive) Restore(ctx context.Context, id string, db Restorer) (store.Entry, error) {
	archived, err := a.Get(ctx, id)
	if err != nil {
		return store.Entry{}, err
	}
	now, err := db.Now(ctx)
	if err != nil {
		return store.Entry{}, fmt.Errorf("restoring %s: %w", id, err)
	}
	entry := archived.Entry
	entry.State, entry.NextRetryAt, entry.UpdatedAt = store.Pending, time.Time{}, now
	fresh, err := db.Ingest(ctx, []store.Entry{entry})
	if err != nil {
		return store.Entry{}, fmt.Errorf("restoring %s: %w", id, err)
	}
	if fresh == 0 {
		return store.Entry{}, fmt.Errorf("restoring %s: the store has the entry of %s/%d@%d still", id, entry.Source.Topic, entry.Source.Partition, entry.Source.Offset)
	}
	return entry, nil
}

// key is the part of a row that says which entry it is.
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

// read hands over the rows of a file, or the columns of them that T has, after it made sure that the file is as it was written.
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

// intact compares a file with the sum in its name, and returns its length. The decoder of Parquet must not see a damaged one: it panics.
func intact(file *os.File) (int64, error) {
	sum := xxhash.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return 0, fmt.Errorf("reading the archive file %s: %w", file.Name(), err)
	}
	if want := "-" + fmt.Sprintf(sumFormat, sum.Sum64()) + fileSuffix; !strings.HasSuffix(file.Name(), want) {
		return 0, fmt.Errorf("reading the archive file %s: it is damaged, or was renamed: its content has the sum "+sumFormat, file.Name(), sum.Sum64())
	}
	return size, nil
}
