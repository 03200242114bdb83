package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// ErrNoMaven means that there is no Maven to resolve the jars with.
var ErrNoMaven = errors.New("no Maven")

// copyGoal is pinned, so that every Maven behaves the same.
const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

// mavenLimit bounds a download of about 45 MB.
const mavenLimit = 15 * time.Minute

// pom returns the project whose dependencies are a Kafka of the version: the core, which formats storage and starts
// brokers, and the backend of its logging, which the core does not include. All versions log through slf4j 1.7: from
// 4.0 on to Log4j 2, before to reload4j. The tools besides the core are not needed, and not every release has them
// in the repository.
func pom(version Version) string {
	dependency := func(group, artifact, version string) string {
		return fmt.Sprintf(
			"    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n", group,
			artifact, version)
	}
	logs := dependency("org.slf4j", "slf4j-reload4j", "1.7.36")
	if version.AtLeast(4, 0) {
		logs = dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dlqbench</groupId>
  <artifactId>kafka</artifactId>
  <version>` + version.String() + `</version>
  <packaging>pom</packaging>
  <dependencies>
` + dependency("org.apache.kafka", "kafka_2.13", version.String()) + logs + `  </dependencies>
</project>
`
}

// resolve has Maven copy the jars of a version into libs, below dir.
func resolve(ctx context.Context, version Version, dir string) error {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf(
			"%w: there is no mvn in the PATH; install Maven, or unpack a release of Apache Kafka and set KAFKA_HOME to it",
			ErrNoMaven)
	}
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, []byte(pom(version)), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mavenLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, maven, "--batch-mode", "--quiet", "--file", file, copyGoal,
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, libsDir))
	// mvn is a script: its Java process is in the same group.
	procgroup.KillOnCancel(cmd)
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return mavenError(version, err, string(said))
	}
	return nil
}

// mavenError summarises Maven's long output.
func mavenError(version Version, err error, said string) error {
	if strings.Contains(said, "Could not find artifact org.apache.kafka:kafka_2.13:jar:"+version.String()) {
		return fmt.Errorf("Maven finds no Apache Kafka %s: is there such a release?", version)
	}
	for line := range strings.Lines(said) {
		if _, problem, found := strings.Cut(line, "[ERROR] "); found {
			return fmt.Errorf("resolving the jars with Maven (%w): %s", err, strings.TrimSpace(problem))
		}
	}
	return fmt.Errorf("resolving the jars with Maven (%w): %q", err, firstLine([]byte(said)))
}
