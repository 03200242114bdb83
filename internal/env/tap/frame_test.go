package tap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
)

// Large buffers outlive garbage collections, are not spent on small frames, and do not pile up.
func TestLargeBuffersAreKeptForLargeFrames(t *testing.T) {
	var pool frames
	read := func(size int) *frame {
		t.Helper()
		data := binary.BigEndian.AppendUint32(nil, uint32(size))
		fr, err := pool.read(bufio.NewReader(bytes.NewReader(append(data, make([]byte, size)...))))
		if err != nil || len(fr.payload()) != size {
			t.Fatalf("read %d bytes of %d: %v", len(fr.payload()), size, err)
		}
		return fr
	}
	large := read(3 << 20)
	pool.put(large)
	runtime.GC()
	runtime.GC() // a sync.Pool is empty after two
	if small := read(100); small == large {
		t.Error("a small frame took the large buffer")
	}
	if again := read(2 << 20); again != large {
		t.Error("a large frame did not get the large buffer")
	}
	for range 2 * keptLarge {
		pool.put(&frame{data: make([]byte, 0, largeFrame+1)})
	}
	pool.put(&frame{data: make([]byte, 0, mostKept+1)})
	if len(pool.large) != keptLarge {
		t.Errorf("%d large buffers are kept, want %d", len(pool.large), keptLarge)
	}
	var huge frames
	huge.put(&frame{data: make([]byte, 0, mostKept+1)})
	if len(huge.large) != 0 {
		t.Error("a huge buffer is kept")
	}
}
