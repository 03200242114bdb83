package tap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

const (
	// maxFrame bounds a frame, well above any sane message.max.bytes or fetch.max.bytes (50 MiB by default).
	maxFrame = 128 << 20
	// maxDecoded bounds the size of the subject's requests that kmsg decodes (a Produce is walked first). Decoding a
	// frame with false array lengths takes up to a hundred times its memory. An honest frame has a few hundred
	// kilobytes.
	maxDecoded = 4 << 20
	// firstRead is the memory reserved for a frame because of its stated size alone. More is reserved as bytes arrive.
	firstRead = 1 << 20
	// smallest is the size of the smallest buffer, so that small frames do not create buffers of all sizes.
	smallest = 4 << 10
	sizeLen  = 4
	// Buffers larger than largeFrame are kept separately, up to keptLarge of them and none above mostKept. Frames with
	// a few megabytes of fetched records arrive hundreds of times a second, and every buffer that the garbage collector
	// removes from a pool would have to be allocated and grown again.
	largeFrame = 256 << 10
	keptLarge  = 8
	mostKept   = 16 << 20
)

// frame is one size-prefixed message, prefix included, in a reusable buffer.
type frame struct{ data []byte }

// payload returns the frame without its size prefix.
func (f *frame) payload() []byte { return f.data[sizeLen:] }

// frames reads frames into reusable buffers. The zero value is ready.
type frames struct {
	pool sync.Pool

	mu    sync.Mutex
	large []*frame
}

// read returns the next frame, to be returned with put. It holds no buffer while it waits. io.EOF means that the
// peer closed the connection between two frames.
func (f *frames) read(from *bufio.Reader) (*frame, error) {
	head, err := from.Peek(sizeLen)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < 0 || size > maxFrame {
		return nil, fmt.Errorf("a frame claims a size of %d bytes; the limit is %d: is the peer speaking Kafka?", size,
			maxFrame)
	}
	fr := f.get(sizeLen + size)
	if err := fr.fill(from, sizeLen+size); err != nil {
		f.put(fr)
		return nil, err
	}
	return fr, nil
}

// fill reads total bytes. A buffer that is too small grows as the bytes arrive.
func (f *frame) fill(from io.Reader, total int) error {
	f.data = f.data[:0]
	for len(f.data) < total {
		have := len(f.data)
		upTo := min(total, max(cap(f.data), firstRead, 2*have))
		if upTo > cap(f.data) {
			grown := make([]byte, have, max(smallest, 1<<bits.Len(uint(upTo-1))))
			copy(grown, f.data)
			f.data = grown
		}
		f.data = f.data[:upTo]
		if _, err := io.ReadFull(from, f.data[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// get returns a frame, with a large buffer only for a large read.
func (f *frames) get(total int) *frame {
	if total > largeFrame {
		f.mu.Lock()
		defer f.mu.Unlock()
		if last := len(f.large) - 1; last >= 0 {
			fr := f.large[last]
			f.large = f.large[:last]
			return fr
		}
	}
	if fr, _ := f.pool.Get().(*frame); fr != nil {
		return fr
	}
	return &frame{}
}

// put takes back a frame. Its content must not be used any more.
func (f *frames) put(fr *frame) {
	if cap(fr.data) <= largeFrame {
		f.pool.Put(fr)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.large) < keptLarge && cap(fr.data) <= mostKept {
		f.large = append(f.large, fr)
	}
}

// header contains the fields of a request's header that the tap needs.
type header struct {
	key, version int16
	correlation  int32
	// known says that kmsg can decode this key at this version. Only then is body set.
	known bool
	// flexible says that the response's header ends in tags.
	flexible bool
	// body is the offset of the request's body in the payload.
	body int
}

var errShort = errors.New("it ends too early")

// parseHeader reads the header of a request.
func (a *apis) parseHeader(payload []byte) (header, error) {
	w := wire{rest: payload}
	h := header{key: w.int16(), version: w.int16(), correlation: w.int32()}
	if w.bad {
		return header{}, fmt.Errorf("reading a request header of %d bytes: %w", len(payload), errShort)
	}
	h.known = h.version >= 0 && h.version <= a.maxVersion(h.key)
	if !h.known {
		return h, nil
	}
	h.flexible = a.isFlexible(h.key, h.version)
	w.nullableString() // client id: never compact in any version
	if h.flexible {
		w.tags()
	}
	if w.bad {
		return header{}, fmt.Errorf("reading the header of a %s request: %w", apiName(h.key), errShort)
	}
	h.body = len(payload) - len(w.rest)
	return h, nil
}
