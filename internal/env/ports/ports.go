// Package ports finds TCP ports of 127.0.0.1 for programs that bind theirs later, and again after a restart.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from below those that systems give out by themselves (Linux from 32768 on, macOS from 49152 on). Of
// those, one that its program does not hold just now can become the local port of any outgoing connection, of one to
// that very port, too; the program then finds its address in use.
const (
	first = 15000
	last  = 31999
)

// draws is how many ports are tried for each that is needed.
const draws = 200

// Free returns ports, no two the same, that nobody listens on now.
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
