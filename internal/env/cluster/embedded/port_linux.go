package embedded

import (
	"fmt"
	"os"
	"syscall"
)

// A stopped broker must refuse connections at a port that it still owns. A closed port could be given to another
// socket before the broker is back: to a listening one, or as the local port of an outgoing connection, which on the
// loopback can even end up connected to itself. So a second socket is bound to the port for the whole run and never
// listens. The kernel then gives the port to no other socket, and answers connections with a reset, as for a closed
// port. Both sockets have SO_REUSEADDR (package net sets it on listeners), which lets them share the port because
// only one of them listens.

// reservation holds a port of 127.0.0.1.
type reservation struct {
	fd   int
	port int
}

// reservePort reserves a port that the system chooses.
func reservePort() (*reservation, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", os.NewSyscallError("socket", err))
	}
	r := &reservation{fd: fd}
	if err := r.bind(); err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return r, nil
}

func (r *reservation) bind() error {
	err := os.NewSyscallError("setsockopt", syscall.SetsockoptInt(r.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(r.fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	}
	if err != nil {
		r.release()
		return err
	}
	name, err := syscall.Getsockname(r.fd)
	if err != nil {
		r.release()
		return os.NewSyscallError("getsockname", err)
	}
	r.port = name.(*syscall.SockaddrInet4).Port
	return nil
}

func (r *reservation) release() { _ = syscall.Close(r.fd) }
