package workload

// The memory of records on their way to the broker, which is used again once all records of a slab are answered.

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// slabBytes is the memory allocated at once for keys, values and headers, and slabRecords that for records. A slab
	// takes no further record when less than slabRest bytes are left.
	slabBytes   = 64 << 10
	slabRecords = 256
	slabRest    = 2 << 10
)

// slab is the memory of some records.
type slab struct {
	bytes   []byte
	records []outgoing
	headers []kgo.RecordHeader
	// open counts down with each answer, and is raised by the number of expected answers when the slab is full. So it is
	// 0 only after the last of them.
	open atomic.Int32
}

// outgoing is a record on its way to the broker.
type outgoing struct {
	kgo.Record
	seq   int32
	flags history.Flags // of the events about it
	// answered is the record's promise, made once for each place in a slab.
	answered func(*kgo.Record, error)
}

// slabs hands out the memory of records. Only release is safe for concurrent use.
type slabs struct {
	// answered takes the broker's answer about a record.
	answered func(*outgoing, error)
	current  *slab
	free     sync.Pool
}

// next returns the next record, which still has the contents of an earlier one.
func (s *slabs) next() *outgoing {
	if c := s.current; c == nil || len(c.records) == cap(c.records) || cap(c.bytes)-len(c.bytes) < slabRest {
		s.change()
	}
	c := s.current
	c.records = c.records[:len(c.records)+1]
	return &c.records[len(c.records)-1]
}

// change makes a free slab the current one, or a new one.
func (s *slabs) change() {
	if c := s.current; c != nil {
		s.release(c, -int32(len(c.records)))
	}
	c, _ := s.free.Get().(*slab)
	if c == nil {
		c = s.newSlab()
	}
	c.bytes, c.records, c.headers = c.bytes[:0], c.records[:0], c.headers[:0]
	s.current = c
}

func (s *slabs) newSlab() *slab {
	c := &slab{bytes: make([]byte, 0, slabBytes), records: make([]outgoing, slabRecords)}
	for i := range c.records {
		record := &c.records[i]
		record.answered = func(_ *kgo.Record, err error) {
			s.answered(record, err)
			s.release(c, 1)
		}
	}
	return c
}

// release counts answers about records of the slab.
func (s *slabs) release(c *slab, answers int32) {
	if c.open.Add(-answers) == 0 {
		s.free.Put(c)
	}
}

// take returns the result of fill applied to an empty slice with room for that many bytes.
func (s *slabs) take(room int, fill func([]byte) []byte) []byte {
	c := s.current
	if cap(c.bytes)-len(c.bytes) < room {
		c.bytes = make([]byte, 0, max(slabBytes, room))
	}
	start := len(c.bytes)
	c.bytes = fill(c.bytes)
	return c.bytes[start:len(c.bytes):len(c.bytes)]
}

// takeHeaders returns n headers, which still have the contents of earlier ones.
func (s *slabs) takeHeaders(n int) []kgo.RecordHeader {
	c := s.current
	if cap(c.headers)-len(c.headers) < n {
		c.headers = make([]kgo.RecordHeader, 0, slabRecords*n)
	}
	start := len(c.headers)
	c.headers = c.headers[:start+n]
	return c.headers[start : start+n : start+n]
}
