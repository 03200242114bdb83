package ports

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestFree(t *testing.T) {
	free, err := Free(400)
	if err != nil || len(free) != 400 || len(slices.Compact(slices.Sorted(slices.Values(free)))) != 400 {
		t.Fatalf("the ports are %v, %v", free, err)
	}
	if slices.Min(free) < first || slices.Max(free) > last {
		t.Errorf("ports that the system may give to connections: %v", free)
	}
}

func TestFreeLeavesOutWhatIsListenedOn(t *testing.T) {
	free, err := Free(1)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0])))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	all, err := Free((last - first) / 2)
	if err != nil || slices.Contains(all, free[0]) {
		t.Errorf("%d is listened on, and was found again: %v", free[0], err)
	}
}
