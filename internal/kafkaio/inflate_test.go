package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func xerial(data []byte) []byte {
	out := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for chunk := range slices.Chunk(data, 100) {
		block := s2.EncodeSnappy(nil, chunk)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

func TestJavaSnappy(t *testing.T) {
	want := []byte(strings.Repeat("a dead letter ", 50))
	f := Inflater{Limit: len(want)}
	if got, err := f.unsnappy(xerial(want)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := f.unsnappy(xerial(want)[:60]); err == nil {
		t.Error("a block that is cut off was read")
	}
}

func TestBombsAreRefused(t *testing.T) {
	f := Inflater{Limit: 1 << 20}
	encoder := must.Get(zstd.NewWriter(nil))(t)
	bomb := encoder.EncodeAll(make([]byte, f.Limit+1), nil)
	_ = encoder.Close()
	if data, err := f.Inflate(bomb, 4); err == nil {
		t.Errorf("zstd gave %d bytes", len(data))
	}
	if _, err := f.readLimited(zeros{}); !errors.Is(err, ErrTooLong) {
		t.Errorf("gzip and lz4: %v", err)
	}
	if _, err := f.unsnappy(binary.AppendUvarint(nil, 1<<20)); !errors.Is(err, ErrTooLong) {
		t.Errorf("snappy: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
