package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// processes lists the running processes, without zombies.
func processes() (found []process) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		command, unreadable := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || unreadable != nil || len(command) == 0 || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(folder, "environ"))
		found = append(found, process{
			pid: pid, command: string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})), environ: string(environ),
		})
	}
	return found
}
