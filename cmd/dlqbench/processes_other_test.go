//go:build !linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// processes lists the running processes. On these systems ps prints the command and the environment as one text.
func processes() (found []process) {
	list, err := exec.Command("ps", "-axEww", "-o", "pid=,stat=,command=").Output()
	if err != nil {
		panic(err) // without a list the test would wrongly find nothing
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil && pid != os.Getpid() {
			text := strings.Join(fields[2:], " ")
			found = append(found, process{pid: pid, command: text, environ: text})
		}
	}
	return found
}
