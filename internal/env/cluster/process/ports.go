package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// accepts reports whether a port accepts connections, refused whether it refuses them.
func accepts(port int) (accepted, refused bool) {
	conn, err := net.DialTimeout("tcp", address(port), dialLimit)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	conn.Close()
	return true, false
}
