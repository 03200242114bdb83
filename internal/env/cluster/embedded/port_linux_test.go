package embedded

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// A reserved port refuses connections, and is given to no socket that does not request it by number.
func TestReservedPortRefusesAndIsHeld(t *testing.T) {
	r := must.Get(reservePort())(t)
	bind := func() error {
		fd := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
		defer func() { _ = syscall.Close(fd) }()
		return syscall.Bind(fd, &syscall.SockaddrInet4{Port: r.port, Addr: [4]byte{127, 0, 0, 1}})
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port))
	for range 2 { // before and after a broker listened there
		if _, err := net.Dial("tcp4", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling: %v", err)
		}
		if err := bind(); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("binding another socket to it: %v", err)
		}
		listener, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatalf("listening on it: %v", err)
		}
		_ = listener.Close()
	}
	r.release()
	if err := bind(); err != nil {
		t.Errorf("binding another socket after it was released: %v", err)
	}
}
