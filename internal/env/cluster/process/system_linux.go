package process

// Information from /proc about processes and connections.

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// standsStill reports whether a process is stopped by a signal (proc(5), field state).
func standsStill(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	return len(fields) > 0 && fields[0][0] == 'T'
}

// connections returns, from the system's table, the number of connections to a local port, and how many of them hold
// bytes that the process behind the port has not read. The latter is a lower bound of the unread requests.
func connections(port int) (open, unread int) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6 here
		}
		inTable, unreadInTable := countConnections(string(data), port)
		open, unread = open+inTable, unread+unreadInTable
	}
	return open, unread
}

// countConnections reads lines like those below. While other connections come and go, the system may list one twice.
//
//	sl  local_address rem_address   st tx_queue rx_queue …
//	0: 0100007F:71A4 0100007F:D2F0 01 00000000:0000002A …
func countConnections(table string, port int) (open, unread int) {
	const established = "01"
	local, seen := fmt.Sprintf(":%04X", port), map[string]bool{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[3] != established || !strings.HasSuffix(fields[1], local) || seen[fields[1]+fields[2]] {
			continue
		}
		seen[fields[1]+fields[2]] = true
		open++
		if _, received, found := strings.Cut(fields[4], ":"); found && strings.Trim(received, "0") != "" {
			unread++
		}
	}
	return open, unread
}
