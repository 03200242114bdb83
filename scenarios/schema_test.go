package scenarios

import (
	"fmt"
	"sync"
	"testing"
)

// A schema is compiled once and used by everybody, also at the same time.
func TestFilesAreCheckedConcurrently(t *testing.T) {
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			text := fmt.Sprintf("name: s\ndescription: d.\nworkload: {rate: %d/s, duration: %dms}\n", n+1, n+1)
			if _, err := Parse("s.yaml", []byte(text)); err != nil {
				t.Error(err)
			}
			if _, err := Parse("s.yaml", []byte("name: s\ndescription: d.\nworkload: {rate: fast, duration: 1s}\n")); err == nil {
				t.Error("a rate that is none was taken")
			}
		})
	}
	group.Wait()
}
