package procgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// commandLimit bounds a command.
const commandLimit = time.Minute

// keptOutput is how much of a command's output is returned.
const keptOutput = 2 << 10

// Command is a command that the user configured, to act on something that dlqbench does not run itself.
type Command struct {
	Args []string
	// Dir is the working directory. Env replaces this process's own environment; nil keeps it.
	Dir string
	Env []string
	// Redact removes secrets from its output; nil keeps it as it is.
	Redact func(string) string
}

// Run runs the command to its end, and kills it after a minute or when ctx ends. The error repeats the end of the
// output. Processes that the command leaves behind continue.
func (c Command) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	// A file, not a pipe: a process that the command leaves running may continue to write to it.
	output, err := os.CreateTemp("", "dlqbench-command-*")
	if err != nil {
		return fmt.Errorf("keeping the output of %s: %w", c.Args[0], err)
	}
	defer func() { _, _ = output.Close(), os.Remove(output.Name()) }()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	KillOnCancel(cmd)
	cmd.Stdout, cmd.Stderr = output, output
	if err = cmd.Run(); err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %s", commandLimit)
	}
	return fmt.Errorf("%w; it said: %s", err, c.said(output.Name()))
}

// said returns the end of the output, without secrets.
func (c Command) said(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(string(data))
	if c.Redact != nil {
		text = c.Redact(text) // before it is cut, which could leave a part of a secret
	}
	if text == "" {
		return "nothing"
	}
	return text[max(0, len(text)-keptOutput):]
}
