package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNotInstalled means that a version is not in the cache.
var ErrNotInstalled = errors.New("Apache Kafka is not installed")

// Installation is a Kafka that can be run.
type Installation struct {
	Version Version
	// Dir is the folder of the installation.
	Dir string
	// Jars are the paths of the class path, in order.
	Jars []string
	// Derived is a folder for files derived from the jars. It may not exist yet. Writers must hold the Lock of Derived
	// + ".lock".
	Derived string
}

// ClassPath returns the jars in the form of java's -cp.
func (i *Installation) ClassPath() string { return strings.Join(i.Jars, string(os.PathListSeparator)) }

// CacheDir returns the folder in which versions are installed: dlqbench/kafka in the user's cache.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the user's cache: %w", err)
	}
	return filepath.Join(dir, "dlqbench", "kafka"), nil
}

// Install has Maven resolve a version into the cache. An intact installation stays, unless force is set; a damaged
// one is replaced. If another process installs the same version, Install waits for it.
func Install(ctx context.Context, cache string, version Version, force bool) (*Installation, error) {
	installed, err := install(ctx, cache, version, force)
	if err != nil {
		return nil, fmt.Errorf("installing Apache Kafka %s: %w", version, err)
	}
	return installed, nil
}

func install(ctx context.Context, cache string, version Version, force bool) (*Installation, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, version.String())
	release, err := Lock(ctx, dir+".lock")
	if err != nil {
		return nil, err
	}
	defer release()
	if !force {
		if installed, err := open(cache, version); err == nil {
			return installed, nil
		}
	}
	if err := removeUnfinished(cache, version); err != nil {
		return nil, err
	}
	fresh, err := os.MkdirTemp(cache, unfinished(version))
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if err := fill(ctx, version, fresh); err != nil {
		return nil, err
	}
	// Running brokers have the old jars open, and keep them.
	if err := errors.Join(os.RemoveAll(dir), os.Chmod(fresh, 0o755)); err != nil {
		return nil, fmt.Errorf("removing what was installed before: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return nil, err
	}
	return open(cache, version)
}

// fill creates a complete installation in a folder.
func fill(ctx context.Context, version Version, dir string) error {
	if err := resolve(ctx, version, dir); err != nil {
		return err
	}
	libs := filepath.Join(dir, libsDir)
	manifest, err := newManifest(version, libs)
	if err != nil {
		return err
	}
	if found, err := versionOf(libs); err != nil || found != version {
		return fmt.Errorf("Maven copied %d jars, but no Kafka %s is among them", len(manifest.Jars), version)
	}
	return manifest.write(dir)
}

// unfinished returns the prefix of the folders in which a version is being assembled.
func unfinished(version Version) string { return "." + version.String() + ".new-" }

// removeUnfinished removes the remains of a killed installation. The caller holds the version's lock.
func removeUnfinished(cache string, version Version) error {
	left, err := filepath.Glob(filepath.Join(cache, unfinished(version)+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Find returns an installed version after checking every jar. The error is ErrNotInstalled if there is none, and
// ErrCorrupt if a jar has changed since its installation.
func Find(cache string, version Version) (*Installation, error) {
	installed, err := open(cache, version)
	if errors.Is(err, ErrCorrupt) {
		return nil, fmt.Errorf(
			"opening Apache Kafka %s in %s: %w; install it again with `dlqbench kafka install --version %s --force`",
			version, filepath.Join(cache, version.String()), err, version)
	}
	if err != nil {
		return nil, fmt.Errorf("opening Apache Kafka %s: %w", version, err)
	}
	return installed, nil
}

func open(cache string, version Version) (*Installation, error) {
	dir := filepath.Join(cache, version.String())
	manifest, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: run `dlqbench kafka install --version %s`, or set KAFKA_HOME to an unpacked release",
			ErrNotInstalled, version)
	}
	if err != nil {
		return nil, err
	}
	libs := filepath.Join(dir, libsDir)
	if err := manifest.check(libs); err != nil {
		return nil, err
	}
	installed := &Installation{Version: version, Dir: dir, Derived: filepath.Join(dir, derivedDir)}
	for _, jar := range manifest.Jars {
		installed.Jars = append(installed.Jars, filepath.Join(libs, jar.Name))
	}
	return installed, nil
}

// Listed is an installed version. Problem describes its damage, nil if it is intact.
type Listed struct {
	Version Version
	Dir     string
	Jars    int
	Problem error
}

// List returns the installed versions, each checked.
func List(cache string) ([]Listed, error) {
	entries, err := os.ReadDir(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for installed versions of Apache Kafka: %w", err)
	}
	var all []Listed
	for _, entry := range entries {
		version, err := ParseVersion(entry.Name())
		if err != nil || !entry.IsDir() {
			continue
		}
		one := Listed{Version: version, Dir: filepath.Join(cache, entry.Name())}
		installed, err := open(cache, version)
		if err != nil {
			one.Problem = err
		} else {
			one.Jars = len(installed.Jars)
		}
		all = append(all, one)
	}
	return all, nil
}

var kafkaJar = regexp.MustCompile(`^kafka_2\.\d+-(\d+\.\d+\.\d+)\.jar$`)

// versionOf derives the version of Kafka from the name of its jar.
func versionOf(libs string) (Version, error) {
	names, err := jarNames(libs)
	if err != nil {
		return Version{}, err
	}
	for _, name := range names {
		if found := kafkaJar.FindStringSubmatch(name); found != nil {
			return ParseVersion(found[1])
		}
	}
	return Version{}, fmt.Errorf("there is no kafka_2.13-*.jar in %s", libs)
}

// FromHome returns the Kafka of an unpacked release, such as the one that KAFKA_HOME names. It writes nothing there:
// derived files go to the cache.
func FromHome(cache, home string) (*Installation, error) {
	libs := filepath.Join(home, libsDir)
	version, err := versionOf(libs)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka at KAFKA_HOME=%s: %w; set it to the folder of an unpacked release",
			home, err)
	}
	names, err := jarNames(libs)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka at KAFKA_HOME=%s: %w", home, err)
	}
	if libs, err = filepath.Abs(libs); err != nil {
		return nil, fmt.Errorf("opening the Kafka at KAFKA_HOME: %w", err)
	}
	installed := &Installation{Version: version, Dir: filepath.Dir(libs)}
	hash := sha256.New()
	for _, name := range names {
		path := filepath.Join(libs, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("opening the Kafka at KAFKA_HOME=%s: %w", home, err)
		}
		fmt.Fprintln(hash, path, info.Size(), info.ModTime().UnixNano())
		installed.Jars = append(installed.Jars, path)
	}
	installed.Derived = filepath.Join(cache, "home-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	return installed, nil
}

// Open returns the Kafka to run. This is the release at KAFKA_HOME if that is set and version is empty or equals the
// release's, else the installed version, or DefaultVersion if version is empty.
func Open(version string) (*Installation, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	wanted, err := ParseVersion(cmp.Or(version, DefaultVersion))
	if err != nil {
		return nil, err
	}
	if home := os.Getenv("KAFKA_HOME"); home != "" {
		installed, err := FromHome(cache, home)
		if err != nil || version == "" || installed.Version == wanted {
			return installed, err
		}
	}
	return Find(cache, wanted)
}
