package procgroup

import (
	"syscall"
	"testing"
)

// A child is killed with its parent: the kernel is asked to.
func TestChildDiesWithParent(t *testing.T) {
	child := Child(syscall.SIGKILL, nil)
	if child.Pdeathsig != syscall.SIGKILL || !child.Setpgid {
		t.Error("a child would outlive its parent")
	}
}
