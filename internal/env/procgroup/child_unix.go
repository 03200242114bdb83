//go:build unix && !linux

package procgroup

import "syscall"

// Child starts a process in its own group, as the user unless that is nil. Only Linux can signal it when its parent
// ends.
func Child(_ syscall.Signal, as *User) *syscall.SysProcAttr {
	attributes := group()
	if as != nil {
		attributes.Credential = &syscall.Credential{Uid: as.UID, Gid: as.GID}
	}
	return attributes
}
