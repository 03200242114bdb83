package kafkaio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxRecords is the maximum number of records in a batch. A few kilobytes of compressed data can hold tens of
// millions of empty records, each of which costs its reader far more than its bytes. Clients stay far below the
// limit: librdkafka's batch.num.messages allows a million.
const MaxRecords = 1 << 20

// Inflater decompresses the records of a batch, up to Limit bytes. It is safe for concurrent use.
type Inflater struct {
	Limit           int
	gzip, lz4, zstd sync.Pool
}

// ErrTooLong is the error for a batch whose decompressed size exceeds the limit.
var ErrTooLong = errors.New("it is too long when decompressed")

var errCut = errors.New("it is cut off")

// The codecs that HTTP knows, too.
const (
	CodecGzip = 1
	CodecZstd = 4
)

// Inflate decompresses data with codec (the lowest three bits of a batch's attributes). It returns ErrTooLong if the
// result exceeds the limit.
func (f *Inflater) Inflate(data []byte, codec int16) ([]byte, error) {
	switch codec {
	case 0:
		return data, nil
	case CodecGzip:
		return f.gunzip(data)
	case 2:
		return f.unsnappy(data)
	case 3:
		from, _ := f.lz4.Get().(*lz4.Reader)
		if from == nil {
			from = lz4.NewReader(nil)
		}
		defer f.lz4.Put(from)
		from.Reset(bytes.NewReader(data))
		return f.readLimited(from)
	case CodecZstd:
		return f.unzstd(data)
	}
	return nil, fmt.Errorf("compression codec %d is not known", codec)
}

func (f *Inflater) gunzip(data []byte) ([]byte, error) {
	from, _ := f.gzip.Get().(*gzip.Reader)
	if from == nil {
		from = new(gzip.Reader)
	}
	defer f.gzip.Put(from)
	if err := from.Reset(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return f.readLimited(from)
}

func (f *Inflater) unzstd(data []byte) ([]byte, error) {
	// The decoder allocates the size that a frame claims to hold. At best 4 bytes stand for a block, which holds up
	// to 128 KiB (RFC 8878, 3.1.1.2). A frame that claims more is invalid and gets no memory.
	var head zstd.Header
	if head.Decode(data) == nil && head.HasFCS && head.FrameContentSize > uint64(1+len(data)/4)*(128<<10) {
		return nil, ErrTooLong
	}
	from, _ := f.zstd.Get().(*zstd.Decoder)
	if from == nil {
		var err error
		if from, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(uint64(f.Limit))); err != nil {
			return nil, err
		}
	}
	defer f.zstd.Put(from)
	out, err := from.DecodeAll(data, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = ErrTooLong
	}
	return out, err
}

// unsnappy decodes a plain snappy block, or the sequence of blocks that Java's snappy library writes: an 8-byte
// magic, two 4-byte versions, then blocks, each after its 4-byte length.
func (f *Inflater) unsnappy(data []byte) ([]byte, error) {
	mark := []byte("\x82SNAPPY\x00")
	if !bytes.HasPrefix(data, mark) {
		return f.snappyBlock(nil, data)
	}
	var out []byte
	for rest := data[min(len(mark)+8, len(data)):]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, errCut
		}
		size := binary.BigEndian.Uint32(rest)
		if rest = rest[4:]; uint64(size) > uint64(len(rest)) {
			return nil, errCut
		}
		block := rest[:size]
		rest = rest[size:]
		var err error
		if out, err = f.snappyBlock(out, block); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *Inflater) snappyBlock(out, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	// The maximum ratio of snappy is 64 bytes for 3. A block that claims more is invalid and gets no memory.
	if n > f.Limit-len(out) || n > 64*len(block) {
		return nil, ErrTooLong
	}
	decoded, err := s2.Decode(nil, block)
	if out == nil {
		return decoded, err
	}
	return append(out, decoded...), err
}

func (f *Inflater) readLimited(from io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(from, int64(f.Limit)+1))
	if len(out) > f.Limit {
		return nil, ErrTooLong
	}
	return out, err
}
