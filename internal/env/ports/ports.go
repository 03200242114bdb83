// Package ports finds TCP ports of 127.0.0.1 for programs that bind their port later, and again after a restart.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from below the range that systems assign by themselves (Linux from 32768 on, macOS from 49152 on).
// A port in that range that its program does not hold at the moment can become the local port of any outgoing
// connection, even of one to that very port. The program then finds its address in use.
const (
	first = 15000
	last  = 31999
)

// draws is the number of ports that are tried for each required port.
const draws = 200

// Free returns distinct ports on which no program listens now.
func Free(count int) ([]int, error) {
	taken := map[int]bool{}
	var found []int
	for range count * draws {
		if len(found) == count {
			break
		}
		port := first + rand.IntN(last-first+1)
		if taken[port] {
			continue
		}
		taken[port] = true
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		listener.Close()
		found = append(found, port)
	}
	if len(found) < count {
		return nil, fmt.Errorf("looking for %d free ports between %d and %d of 127.0.0.1: only %d were found", count,
			first, last, len(found))
	}
	return found, nil
}
