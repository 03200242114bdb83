package campaign

// This file talks to a cluster by the user's kubectl, which has their contexts, their logins and their proxies.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Kubectl is the user's kubectl with the cluster and the namespace to use.
type Kubectl struct {
	// Program is the path of kubectl, or its name on the PATH.
	Program string
	// Flags select the cluster and the namespace.
	Flags []string
	// call takes the place of the program in tests.
	call func(stdin []byte, args []string) ([]byte, error)
}

// requestLimit bounds one request to the API server; callLimit one call of kubectl, which may begin with a login.
const (
	requestLimit = 20 * time.Second
	callLimit    = time.Minute
)

// kubectlError is what kubectl said when it failed.
type kubectlError struct{ command, said string }

func (e kubectlError) Error() string { return fmt.Sprintf("kubectl %s: %s", e.command, e.said) }

// said reports whether an error is one of kubectl that contains one of the words.
func said(err error, words ...string) bool {
	var failed kubectlError
	if !errors.As(err, &failed) {
		return false
	}
	for _, word := range words {
		if strings.Contains(failed.said, word) {
			return true
		}
	}
	return false
}

// These are the reasons that an API server gives, as kubectl prints them.
func notFound(err error) bool { return said(err, "(NotFound)") }
func forbidden(err error) bool {
	return said(err, "(Forbidden)", "(Unauthorized)", "must be logged in")
}

// denied reports whether kubectl auth can-i has answered no.
func denied(err error) bool {
	var failed kubectlError
	return errors.As(err, &failed) && (failed.said == "no" || strings.HasPrefix(failed.said, "no\n") ||
		strings.HasPrefix(failed.said, "no - "))
}

// away reports whether the API server could not be reached, or could not answer now. It is worth asking again.
func away(err error) bool {
	return said(err, "Unable to connect to the server", "The connection to the server", "(ServiceUnavailable)",
		"(InternalError)", "(Timeout)", "(ServerTimeout)", "(TooManyRequests)", "etcdserver", "i/o timeout",
		"connection refused", "connection reset", "TLS handshake timeout", "unexpected EOF", "Client.Timeout",
		"context deadline exceeded", "dial tcp", "net/http", "it did not end within")
}

// kubectlLog matches the lines of kubectl's own log, and warnings, which stand before what it has to say.
var kubectlLog = regexp.MustCompile(`(?m)^([EWIF][0-9]{4} |Warning: ).*\n?`)

// run calls kubectl.
func (k Kubectl) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	if k.call != nil {
		return k.call(stdin, args)
	}
	limited, stop := context.WithTimeout(ctx, callLimit)
	defer stop()
	all := append(append([]string(nil), k.Flags...), "--request-timeout="+requestLimit.String())
	command := exec.CommandContext(limited, k.Program, append(all, args...)...)
	command.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	err := command.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("calling kubectl: there is no %s on the PATH: install it, and check that `kubectl get pods` "+
			"answers (https://kubernetes.io/docs/tasks/tools)", k.Program)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, kubectlError{strings.Join(args, " "), fmt.Sprintf("it did not end within %s", callLimit)}
	}
	text := strings.TrimSpace(kubectlLog.ReplaceAllString(stderr.String(), ""))
	if text == "" {
		text = strings.TrimSpace(stdout.String() + "\n" + err.Error())
	}
	return nil, kubectlError{strings.Join(args, " "), text}
}

// get decodes what kubectl gets.
func (k Kubectl) get(ctx context.Context, into any, args ...string) error {
	data, err := k.run(ctx, nil, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading what kubectl get %s said: %w", strings.Join(args, " "), err)
	}
	return nil
}

// These are the parts of the cluster's objects that a campaign reads.
type (
	condition struct{ Type, Status, Reason, Message string }

	job struct {
		Metadata struct{ Annotations map[string]string }
		Status   struct {
			Active                          int
			CompletedIndexes, FailedIndexes string
			Conditions                      []condition
		}
	}

	pod struct {
		Metadata struct {
			Name, UID   string
			Annotations map[string]string
		}
		Status struct {
			Phase, Reason, Message string
			Conditions             []condition
			ContainerStatuses      []containerStatus
		}
	}

	containerStatus struct {
		Name, Image string
		State       struct {
			Waiting    *struct{ Reason, Message string }
			Running    *struct{}
			Terminated *struct {
				Reason, Message string
				ExitCode        int
			}
		}
	}

	event struct {
		Reason, Message string
		InvolvedObject  struct{ Kind, Name string }
	}

	list[T any] struct{ Items []T }
)

// find returns the condition of a type that is true, nil if there is none.
func find(conditions []condition, of, status string) *condition {
	for i, one := range conditions {
		if one.Type == of && one.Status == status {
			return &conditions[i]
		}
	}
	return nil
}

// cell returns the status of the container that runs the cell, nil if it has none yet.
func (p pod) cell() *containerStatus {
	for i, one := range p.Status.ContainerStatuses {
		if one.Name == containerName {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}
