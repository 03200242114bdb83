package cluster

import (
	"strings"
	"testing"
)

func TestNewID(t *testing.T) {
	for range 200 {
		if id := NewID(); len(id) != 22 || strings.HasPrefix(id, "-") {
			t.Fatal(id)
		}
	}
}
