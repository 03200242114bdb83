package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
)

// This file creates, once for each installation, two things that let brokers start quickly: a formatted storage, and
// an archive of class data.

// formattedDir contains everything that formatting writes besides meta.properties: the cluster's initial features,
// as bootstrap.checkpoint, from 4.4 on as the first snapshot of the metadata. With the voters in the settings it is
// the same for every node of every cluster.
const formattedDir = "formatted"

// archiveFrom is the first Java version that writes an archive of its loaded classes when it ends (JEP 350).
const archiveFrom = 13

const (
	formatLimit = time.Minute
	dumpLimit   = 2 * time.Minute
)

// Prepare creates what Start needs of an installation and Java, if it does not exist yet. This is 10 s of work, done
// once, and halves the time of every later start. Start does it by itself.
func Prepare(ctx context.Context, kafka *install.Installation, log zerolog.Logger) error {
	_, err := prepare(ctx, Options{Kafka: kafka, Log: log})
	if err != nil {
		return fmt.Errorf("preparing Apache Kafka %s: %w", kafka.Version, err)
	}
	return nil
}

// prepare returns a config with the parts that all clusters of the installation have in common.
func prepare(ctx context.Context, options Options) (*config, error) {
	kafka := options.Kafka
	java, err := install.FindJava(ctx, kafka.Version.MinJava())
	if err != nil {
		return nil, err
	}
	c := &config{kafka: kafka, version: kafka.Version, java: java, starter: options.Starter}
	if c.starter == nil {
		c.starter = direct{}
	}
	if err := os.MkdirAll(kafka.Derived, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder in the cache: %w", err)
	}
	formatted := filepath.Join(kafka.Derived, formattedDir)
	archive := filepath.Join(kafka.Derived, "classes-"+java.Build+".jsa")
	if c.load(formatted, archive) {
		return c, nil
	}
	release, err := install.Lock(ctx, kafka.Derived+".lock")
	if err != nil {
		return nil, err
	}
	defer release()
	if c.load(formatted, archive) { // another process has created them meanwhile
		return c, nil
	}
	work, err := os.MkdirTemp(kafka.Derived, "new-")
	if err != nil {
		return nil, fmt.Errorf("making a folder in the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if c.formatted == nil {
		if err := c.format(ctx, work, formatted); err != nil {
			return nil, fmt.Errorf("formatting storage: %w", err)
		}
	}
	options.Log.Info().Str("version", kafka.Version.String()).Msg(
		"making an archive of class data, once, so that brokers start quickly")
	if err := c.archiveClasses(ctx, work, archive, options); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		// Only time is lost.
		options.Log.Warn().Err(err).Msg("brokers start slowly: no archive of class data could be made")
	}
	return c, nil
}

// load reads the prepared files, and reports whether all exist.
func (c *config) load(formatted, archive string) bool {
	files, err := readFiles(formatted)
	if err != nil || len(files) == 0 {
		return false
	}
	c.formatted = files
	if c.java.Major < archiveFrom {
		return true
	}
	if _, err := os.Stat(archive); err != nil {
		return false
	}
	c.archive = archive
	return true
}

// format has StorageTool format a folder, and keeps the result.
func (c *config) format(ctx context.Context, work, keep string) error {
	nodes := makeNodes(1, work)
	nodes[0].clients, nodes[0].internal, nodes[0].quorum = 20000, 20001, 20002 // no process listens there
	sample := *c
	sample.brokers, sample.nodes = 1, nodes
	settings := filepath.Join(work, settingsFile)
	if err := os.WriteFile(settings, []byte(properties(nodes[0].settings(&sample))), 0o600); err != nil {
		return err
	}
	args := []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", c.kafka.ClassPath(),
		"kafka.tools.StorageTool", "format", "-t", cluster.NewID(), "-c", settings}
	if sharePreview(c.version) {
		args = append(args, "--feature", "share.version=1")
	}
	said, err := c.runJava(ctx, work, args)
	if err != nil {
		return fmt.Errorf("%w: %q", err, said)
	}
	data := filepath.Join(nodes[0].dir, dataDir)
	if err := os.Remove(filepath.Join(data, metaFile)); err != nil {
		return err
	}
	if c.formatted, err = readFiles(data); err != nil {
		return err
	}
	if len(c.formatted) == 0 {
		return fmt.Errorf("StorageTool wrote nothing but %s", metaFile)
	}
	if err := os.RemoveAll(keep); err != nil {
		return err
	}
	return os.Rename(data, keep)
}

// readFiles returns the files below a folder, by their paths in it.
func readFiles(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(tree, path)
		return err
	})
	return files, err
}

// runJava runs Java to its end and returns its last lines.
func (c *config) runJava(ctx context.Context, work string, args []string) (said string, err error) {
	n := &node{log: filepath.Join(work, "tool.log")}
	if err := n.startJava(c, args); err != nil {
		return "", err
	}
	err = n.process.wait(ctx, formatLimit)
	if err != nil {
		return "", errors.Join(err, n.process.kill(context.WithoutCancel(ctx)))
	}
	return strings.Join(telling(lastLines(n.log)), "\n"), n.process.err
}

// archiveClasses runs a broker briefly and keeps an archive of the classes that it loaded.
func (c *config) archiveClasses(ctx context.Context, work, keep string, options Options) error {
	if c.java.Major < archiveFrom {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dumpLimit)
	defer cancel()
	sample := *c
	sample.dump = filepath.Join(work, "classes.jsa")
	options.Brokers, options.Dir, options.Settings = 1, filepath.Join(work, "kafka"), nil
	kafka, err := launch(ctx, &sample, options)
	if err != nil {
		return err
	}
	err = kafka.CreateTopics(ctx, []cluster.Topic{{Name: "classes", Partitions: 1}})
	if err == nil {
		err = kafka.exercise(ctx, "classes")
	}
	if err == nil {
		_, err = kafka.StopBroker(ctx, 1)
	}
	if err := errors.Join(err, kafka.Close()); err != nil {
		return err
	}
	if err := os.Rename(sample.dump, keep); err != nil {
		return err
	}
	c.archive = keep
	return nil
}
