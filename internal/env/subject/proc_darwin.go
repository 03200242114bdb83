package subject

// Process information on macOS: the output of ps and, for usage, the kernel. Run delays are not available.

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	gops "github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"
)

// ps returns one column of a process, "" if there is no such process.
func ps(pid int, column string) string {
	out, err := exec.Command("/bin/ps", "-ww", "-o", column+"=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// startToken identifies the process that has this id now; "" if there is none. Ids are reused, start times are not.
func startToken(pid int) string {
	if strings.HasPrefix(ps(pid, "state"), "Z") {
		return ""
	}
	return ps(pid, "lstart")
}

// groupAlive reports whether a process of the group runs. A group of ended processes gives EPERM.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }

func stopped(pid int) bool { return strings.HasPrefix(ps(pid, "state"), "T") }

// ofRun reports whether a process was started for the run, according to its environment.
func ofRun(pid int, runID string) bool {
	out, err := exec.Command("/bin/ps", "-E", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out)+" ", " "+RunIDVariable+"="+runID+" ")
}

// runProcesses finds nothing here, because the environments of all processes cannot be read.
func runProcesses(string) []int { return nil }

// zombie is the state of a process that has ended (SZOMB in sys/proc.h).
const zombie = 5

// allProcesses returns the relations of every running process to others, by its id.
func allProcesses() map[int]status {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	found := make(map[int]status, len(list))
	for i := range list {
		if one := &list[i]; one.Proc.P_stat != zombie {
			found[int(one.Proc.P_pid)] = status{parent: int(one.Eproc.Ppid), group: int(one.Eproc.Pgid)}
		}
	}
	return found
}

// used returns the processor time and the resident memory of a process. Its ended children do not count: the kernel
// reports their usage only to their parent.
func used(pid int, _ status) (cpu time.Duration, rss int64) {
	one := gops.Process{Pid: int32(pid)}
	if times, err := one.Times(); err == nil {
		cpu = time.Duration((times.User + times.System) * float64(time.Second))
	}
	if memory, err := one.MemoryInfo(); err == nil {
		rss = int64(memory.RSS)
	}
	return cpu, rss
}

func runDelays(int, map[int]int64) {}
