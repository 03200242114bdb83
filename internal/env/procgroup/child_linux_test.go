package procgroup

import (
	"syscall"
	"testing"
)

// The kernel is asked to kill a child together with its parent.
func TestChildDiesWithParent(t *testing.T) {
	child := Child(syscall.SIGKILL, nil)
	if child.Pdeathsig != syscall.SIGKILL || !child.Setpgid {
		t.Error("a child would outlive its parent")
	}
}
