//go:build !linux

package pods

import "errors"

// SharedProcesses are the processes of a pod, which runs Linux.
type SharedProcesses struct{}

// Signal fails: this is not a pod.
func (SharedProcesses) Signal(string) error { return errors.New("a sidecar runs on Linux only") }
