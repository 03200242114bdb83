package procgroup

import "syscall"

// Child starts a process in its own group, as the user unless that is nil. The process receives the signal when the
// thread that started it ends.
func Child(end syscall.Signal, as *User) *syscall.SysProcAttr {
	attributes := group()
	attributes.Pdeathsig = end
	if as != nil {
		attributes.Credential = &syscall.Credential{Uid: as.UID, Gid: as.GID}
	}
	return attributes
}
