package run

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The files of a run directory.
const (
	fileScenario = "scenario.yaml"
	fileSubject  = "subject.yaml"
	fileRecorded = "recorded.yaml"
	fileIDs      = "replay-ids.txt"
	fileLedger   = "kafka-ledger.json"
	fileStore    = "dead-letters.db"
	dirArchive   = "dead-letter-archive"
	dirHistory   = "history"
	dirAuthority = "authority"
	dirLogs      = "logs"
	dirKafka     = "kafka"
	dirHDR       = "hdr"
	dirWork      = "work"
	linkLatest   = "latest"
)

// runDir is the folder in which a run keeps everything it leaves behind.
type runDir struct {
	path string
	id   string
}

// newRunDir creates runs/<time>-<scenario>/, accessible to the user alone because it contains payloads and logs. Two
// runs started in the same second get different folders.
func newRunDir(root, scenario string, now time.Time) (runDir, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return runDir{}, fmt.Errorf("making the folder for runs: %w (choose another with --out)", err)
	}
	name := now.Format("20060102-150405") + "-" + scenario
	for try := 1; ; try++ {
		path := filepath.Join(root, name)
		if try > 1 {
			path = fmt.Sprintf("%s-%d", path, try)
		}
		err := os.Mkdir(path, 0o700)
		switch {
		case err == nil:
			return runDir{path: path, id: filepath.Base(path) + "-" + randomSuffix()}, nil
		case !errors.Is(err, fs.ErrExist) || try == 1000:
			return runDir{}, fmt.Errorf("making the run directory: %w", err)
		}
	}
}

// randomSuffix separates the ids of runs whose folders have the same name. Nothing in a run depends on it, so it
// does not come from the seed.
func randomSuffix() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return hex.EncodeToString(b[:])
}

func (d runDir) file(name string) string { return filepath.Join(d.path, name) }

// PointLatest makes the link latest beside a run directory point to it. It replaces the link in one step, so that two
// simultaneous runs leave a valid link.
func PointLatest(dir string) error {
	link := filepath.Join(filepath.Dir(dir), linkLatest)
	temporary := link + "-" + randomSuffix()
	if err := os.Symlink(filepath.Base(dir), temporary); err != nil {
		return fmt.Errorf("pointing %s to this run: %w", link, err)
	}
	if err := os.Rename(temporary, link); err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("pointing %s to this run: %w (is there a folder of that name?)", link, err)
	}
	return nil
}
