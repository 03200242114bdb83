package kube

// This file calls kubectl.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kubectl is the user's kubectl with the cluster and the namespace to use.
type Kubectl struct {
	// Program is the path of kubectl, or its name on the PATH.
	Program string
	// Flags select the cluster and the namespace.
	Flags []string
	// Call takes the place of the program in tests.
	Call func(stdin []byte, args []string) ([]byte, error)
}

// requestLimit bounds one request to the API server; callLimit one call of kubectl, which may begin with a login.
const (
	requestLimit = 20 * time.Second
	callLimit    = time.Minute
)

// Failure is what kubectl said when it failed.
type Failure struct{ Command, Text string }

func (e Failure) Error() string { return fmt.Sprintf("kubectl %s: %s", e.Command, e.Text) }

// Said reports whether an error is one of kubectl that contains one of the words.
func Said(err error, words ...string) bool {
	failed, ok := errors.AsType[Failure](err)
	return ok && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(failed.Text, word) })
}

// NotFound reports whether there is no such object, as kubectl prints the reason that the API server gives.
func NotFound(err error) bool { return Said(err, "(NotFound)") }

// Forbidden reports whether the user lacks a right or a login.
func Forbidden(err error) bool {
	return Said(err, "(Forbidden)", "(Unauthorized)", "must be logged in")
}

// denied reports whether kubectl auth can-i has answered no.
func denied(err error) bool {
	var failed Failure
	return errors.As(err, &failed) && (failed.Text == "no" || strings.HasPrefix(failed.Text, "no\n") ||
		strings.HasPrefix(failed.Text, "no - "))
}

// Away reports whether the API server could not be reached, or could not answer now. It is worth asking again.
func Away(err error) bool {
	return Said(err, "Unable to connect to the server", "The connection to the server", "(ServiceUnavailable)",
		"(InternalError)", "(Timeout)", "(ServerTimeout)", "(TooManyRequests)", "etcdserver", "i/o timeout",
		"connection refused", "connection reset", "TLS handshake timeout", "unexpected EOF", "Client.Timeout",
		"context deadline exceeded", "dial tcp", "net/http", "it did not end within")
}

// kubectlLog matches the lines of kubectl's own log, and warnings, which stand before what it has to say.
var kubectlLog = regexp.MustCompile(`(?m)^([EWIF][0-9]{4} |Warning: ).*\n?`)

// Run calls kubectl and returns what it printed.
func (k Kubectl) Run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	if k.Call != nil {
		return k.Call(stdin, args)
	}
	var stdout bytes.Buffer
	args = append([]string{"--request-timeout=" + requestLimit.String()}, args...)
	err := k.start(ctx, callLimit, stdin, &stdout, args)
	return stdout.Bytes(), err
}

// Stream calls kubectl and writes to stdout what it prints, for at most the limit.
func (k Kubectl) Stream(ctx context.Context, limit time.Duration, stdout io.Writer, args ...string) error {
	if k.Call != nil {
		data, err := k.Call(nil, args)
		if err == nil {
			_, err = stdout.Write(data)
		}
		return err
	}
	return k.start(ctx, limit, nil, stdout, args)
}

func (k Kubectl) start(ctx context.Context, limit time.Duration, stdin []byte, stdout io.Writer, args []string) error {
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	command := exec.CommandContext(limited, k.Program, append(append([]string(nil), k.Flags...), args...)...)
	command.WaitDelay = time.Second
	var stderr bytes.Buffer
	kept := &ending{to: stdout}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(stdin), kept, &stderr
	err := command.Run()
	args = slices.DeleteFunc(slices.Clone(args), func(one string) bool { return strings.HasPrefix(one, "--request-") })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("calling kubectl: there is no %s on the PATH: install it, and check that `kubectl get pods` "+
			"answers (https://kubernetes.io/docs/tasks/tools)", k.Program)
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return Failure{strings.Join(args, " "), fmt.Sprintf("it did not end within %s", limit)}
	}
	text := strings.TrimSpace(kubectlLog.ReplaceAllString(stderr.String(), ""))
	if text == "" {
		text = strings.TrimSpace(string(kept.last) + "\n" + err.Error())
	}
	return Failure{strings.Join(args, " "), text}
}

// ending passes on what is written, and keeps the end of it for an error.
type ending struct {
	to   io.Writer
	last []byte
}

func (e *ending) Write(data []byte) (int, error) {
	const kept = 1 << 10
	e.last = append(e.last, data...)
	e.last = e.last[max(0, len(e.last)-kept):]
	return e.to.Write(data)
}

// Get decodes what kubectl gets.
func (k Kubectl) Get(ctx context.Context, into any, args ...string) error {
	data, err := k.Run(ctx, nil, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading what kubectl get %s said: %w", strings.Join(args, " "), err)
	}
	return nil
}
