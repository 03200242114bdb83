package process

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

func TestCountConnections(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:71A4 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 1 1 0
   1: 0100007F:71A4 0100007F:D2F0 01 00000000:0000002A 00:00000000 00000000     0        0 2 1 0
   2: 0100007F:71A4 0100007F:D2F2 01 00000001:00000000 00:00000000 00000000     0        0 3 1 0
   3: 0100007F:D2F0 0100007F:71A4 01 00000000:0000002A 00:00000000 00000000     0        0 4 1 0
   4: 0100007F:71A4 0100007F:D2F4 06 00000000:00000001 00:00000000 00000000     0        0 0 1 0
`
	for what, listed := range map[string]string{"as it is": table, "with its rows twice": table + table} {
		if open, unread := countConnections(listed, 0x71A4); open != 2 || unread != 1 {
			t.Errorf("%s: %d connections, %d with something unread, want 2 and 1", what, open, unread)
		}
	}
	if open, unread := countConnections("", 1); open != 0 || unread != 0 {
		t.Error("an empty table has connections")
	}
}

// Counts of real connections: a connection that was not accepted yet counts, and so do the bytes sent to it.
func TestConnections(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	if open, _ := connections(port); open != 0 {
		t.Fatalf("there are %d connections before the first", open)
	}
	conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	defer conn.Close()
	if open, unread := connections(port); open != 1 || unread != 0 {
		t.Errorf("%d connections, %d unread, want 1 and 0", open, unread)
	}
	must.Get(conn.Write([]byte("request")))(t)
	if open, unread := connections(port); open != 1 || unread != 1 {
		t.Errorf("%d connections, %d unread, want 1 and 1", open, unread)
	}
}

func TestStandsStill(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60")
	ended := must.Get(direct{}.Start(cmd))(t)
	pid := cmd.Process.Pid
	if standsStill(pid) {
		t.Error("it stands still")
	}
	must.Do(t, cmd.Process.Signal(syscall.SIGSTOP))
	wait.Until(t, "the process stands still", func() bool { return standsStill(pid) })
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
	ended()
	if standsStill(pid) {
		t.Error("a process that is gone stands still")
	}
}
