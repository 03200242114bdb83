//go:build !linux

package postgrestest

import "syscall"

func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
