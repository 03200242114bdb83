package subject

// Process information from /proc.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit in which the kernel reports processor times: USER_HZ is 100 wherever Go runs.
const clockTick = time.Second / 100

// readStatus reads /proc/PID/stat.
func readStatus(pid int) (status, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, false
	}
	return parseStatus(data)
}

// parseStatus parses the fields of /proc/PID/stat (proc(5)) after the name, which is in brackets and may contain any
// character.
func parseStatus(data []byte) (status, bool) {
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 22 {
		return status{}, false
	}
	whole := true
	number := func(field int) int64 { // numbered from 1, as in proc(5), where the state is the third
		value, err := strconv.ParseInt(string(fields[field-3]), 10, 64)
		whole = whole && err == nil
		return value
	}
	found := status{state: fields[0][0], parent: int(number(4)), group: int(number(5)), start: string(fields[22-3])}
	// Children that have ended and were waited for count for their parent, so that their usage is kept.
	found.cpu = time.Duration(number(14)+number(15)+number(16)+number(17)) * clockTick
	found.rss = number(24) * int64(os.Getpagesize())
	return found, whole
}

// startToken identifies the process that has this id now; "" if there is none. Ids are reused, tokens are not: a
// token is a process's start in clock ticks, and the boot from which they are counted.
func startToken(pid int) string {
	found, ok := readStatus(pid)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if !ok || found.dead() || err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + found.start
}

// groupAlive reports whether a process of the group runs. A process that has ended counts as ended even if its
// parent has not waited for it: in a container, no parent may ever do so.
func groupAlive(group int) bool {
	return syscall.Kill(-group, 0) == nil && len(members(group)) > 0
}

// allProcesses returns the status of every running process, by its id.
func allProcesses() map[int]status {
	found := map[int]status{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if one, ok := readStatus(pid); err == nil && ok && !one.dead() {
			found[pid] = one
		}
	}
	return found
}

// used returns the processor time and the resident memory of a process.
func used(_ int, one status) (cpu time.Duration, rss int64) { return one.cpu, one.rss }

func stopped(pid int) bool {
	found, _ := readStatus(pid)
	return found.state == 'T'
}

// ofRun reports whether a process was started for the run, according to its environment.
func ofRun(pid int, runID string) bool {
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	variable := []byte(RunIDVariable + "=" + runID + "\x00")
	return bytes.HasPrefix(environment, variable) || bytes.Contains(environment, append([]byte{0}, variable...))
}

// runProcesses returns all processes of a run, whatever group they are in, except this one.
func runProcesses(runID string) (found []int) {
	for pid := range allProcesses() {
		if pid != os.Getpid() && ofRun(pid, runID) {
			found = append(found, pid)
		}
	}
	return found
}

// runDelays adds to delays, by thread, how long the threads of a process have waited for a processor, in ns
// (/proc/PID/task/TID/schedstat, second field).
func runDelays(pid int, delays map[int]int64) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return
	}
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		fields := bytes.Fields(data)
		if err != nil || len(fields) < 2 {
			continue
		}
		thread, _ := strconv.Atoi(task.Name())
		delays[thread], _ = strconv.ParseInt(string(fields[1]), 10, 64)
	}
}
