package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports are drawn from below those that systems give out by themselves (Linux from 32768 on, macOS from 49152 on):
// nobody gets the port of a broker that is stopped by asking for any.
const (
	firstPort = 20000
	lastPort  = 32000
)

// portDraws is how many ports are tried for each that is needed.
const portDraws = 200

// freePorts returns ports of 127.0.0.1 that nobody listens on now.
func freePorts(count int) ([]int, error) {
	taken := map[int]bool{}
	var ports []int
	for range count * portDraws {
		if len(ports) == count {
			break
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if taken[port] {
			continue
		}
		taken[port] = true
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		listener.Close()
		ports = append(ports, port)
	}
	if len(ports) < count {
		return nil, fmt.Errorf("looking for %d free ports between %d and %d of 127.0.0.1: only %d were found", count,
			firstPort, lastPort, len(ports))
	}
	return ports, nil
}

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
