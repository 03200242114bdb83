package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// ErrCorrupt means that an installation has changed since it was made.
var ErrCorrupt = errors.New("the installation is damaged")

// Names in an installation's folder.
const (
	manifestFile = "manifest.json"
	libsDir      = "libs"
	derivedDir   = "derived"
)

// manifest says what was installed.
type manifest struct {
	Version string `json:"version"`
	// Jars in the order of the class path.
	Jars []jar `json:"jars"`
}

// jar is one file below libs.
type jar struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// newManifest records all jars in a folder.
func newManifest(version Version, libs string) (*manifest, error) {
	names, err := jarNames(libs)
	if err != nil {
		return nil, err
	}
	m := &manifest{Version: version.String()}
	for _, name := range names {
		sum, size, err := sumFile(filepath.Join(libs, name))
		if err != nil {
			return nil, err
		}
		m.Jars = append(m.Jars, jar{Name: name, Size: size, SHA256: sum})
	}
	return m, nil
}

// jarNames returns the jars in a folder, sorted.
func jarNames(libs string) (names []string, err error) {
	entries, err := os.ReadDir(libs)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".jar") && !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), append(data, '\n'), 0o644)
}

// readManifest reads the manifest. It fails with fs.ErrNotExist if there is none.
func readManifest(dir string) (*manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %s can't be read: %w", ErrCorrupt, filepath.Join(dir, manifestFile), err)
	}
	if len(m.Jars) == 0 {
		return nil, fmt.Errorf("%w: %s names no jars", ErrCorrupt, filepath.Join(dir, manifestFile))
	}
	return &m, nil
}

// check compares every jar with its checksum, several concurrently, and names the first that differs.
func (m *manifest) check(libs string) error {
	next := make(chan int, len(m.Jars))
	for i := range m.Jars {
		next <- i
	}
	close(next)
	problems := make([]error, len(m.Jars))
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), 4) {
		workers.Go(func() {
			for i := range next {
				problems[i] = m.Jars[i].check(libs)
			}
		})
	}
	workers.Wait()
	for _, problem := range problems {
		if problem != nil {
			return problem
		}
	}
	return nil
}

func (j jar) check(libs string) error {
	if j.Name != filepath.Base(j.Name) {
		return fmt.Errorf("%w: the manifest names %q, which is no file of its own folder", ErrCorrupt, j.Name)
	}
	sum, size, err := sumFile(filepath.Join(libs, j.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, j.Name)
	case err != nil:
		return err
	case size != j.Size:
		return fmt.Errorf("%w: %s has %d bytes instead of %d", ErrCorrupt, j.Name, size, j.Size)
	case sum != j.SHA256:
		return fmt.Errorf("%w: %s has other content than when it was installed", ErrCorrupt, j.Name)
	}
	return nil
}

func sumFile(path string) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, file)
	if err != nil {
		return "", 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}
