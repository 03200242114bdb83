package run

import (
	"strconv"
	"testing"
)

// Each program has ports of its own, one for each name, and no two ports are the same.
func TestPortsOfPrograms(t *testing.T) {
	t.Parallel()
	all, err := freePorts(3, []string{"grpc", "metrics"})
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	seen := map[string]bool{}
	for _, one := range all {
		for _, port := range []string{strconv.Itoa(one.port), one.named["grpc"], one.named["metrics"]} {
			if port == "" || seen[port] {
				t.Errorf("port %q is missing, or given twice: %v", port, all)
			}
			seen[port] = true
		}
		if len(one.named) != 2 {
			t.Errorf("ports %v", one.named)
		}
	}
}
