package postgres

import "syscall"

// attributes let the server die with the thread that started it, by the signal that makes it end its own processes.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT, Credential: as}
}
