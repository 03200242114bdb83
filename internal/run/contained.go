package run

// Subjects in containers. The started process is this program again; it stays in the foreground as long as the
// container runs (engine.Run) and forwards signals to the container.

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// environmentSubject is the name of the subject's kind in a history's environment.
const environmentSubject = "subject_kind"

// contained reports whether the subject runs in containers.
func (r *run) contained() bool {
	return r.options.Subject != nil && r.options.Subject.Kind == scenarios.KindContainer
}

// openEngine finds the container engine if the subject needs one.
func (r *run) openEngine(ctx context.Context) error {
	if !r.contained() {
		return nil
	}
	if runtime.GOOS != "linux" {
		// On other systems the engine runs in a virtual machine with its own loopback, not the one that the taps listen
		// on.
		return fmt.Errorf("subject %s runs in containers, which must share this machine's network, and on %s they can't: "+
			"run it as kind: process", r.header.Subject, runtime.GOOS)
	}
	var err error
	if r.engine, err = engine.Connect(ctx); err != nil {
		return fmt.Errorf("running subject %s in containers: %w", r.header.Subject, err)
	}
	return nil
}

func (r *run) haveImage(ctx context.Context) error {
	if r.engine == nil {
		return nil
	}
	r.busy("looking for the image "+r.options.Subject.Image, 0)
	return engine.HaveImage(ctx, r.engine, r.options.Subject.Image, r.options.Log)
}

// contain wraps a launch in a container. Only the settings meant for the subject go in, nothing of dlqbench's own
// environment.
func (r *run) contain(launch *subject.Launch, image string, instance int, process uint16) {
	c := engine.Container{
		Name: fmt.Sprintf("dlqbench-%s-instance-%d-%d", r.dir.id, instance, process), Image: image, RunID: r.dir.id,
		Command: launch.Command,
	}
	if len(launch.Files) > 0 {
		c.Mounts = append(c.Mounts, launch.WorkDir)
	}
	if r.authority != nil {
		c.Mounts = append(c.Mounts, filepath.Dir(r.values.CAFile))
	}
	names := []string{subject.RunIDVariable}
	for _, variable := range launch.Env {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	launch.Command = append([]string{r.options.Executable}, engine.Arguments(c, names)...)
	launch.Dir, launch.Elsewhere = "", engine.NewHandle(r.engine, c.Name)
}
