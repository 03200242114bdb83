package tap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

func control(data []byte) []byte {
	data = bytes.Clone(data)
	data[22] |= attrControl
	return data
}

func TestOffsetsOfFetchedBatches(t *testing.T) {
	three, two := makeBatch(10, "a", "b", "c"), makeBatch(13, "d", "e")
	old := bytes.Clone(three)
	old[batchMagic] = 1
	empty := bytes.Clone(two)
	copy(empty[57:61], []byte{0, 0, 0, 0})
	joined := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		data        []byte
		from        int64
		first, last int64
		found       bool
	}{
		"nothing":                     {nil, 10, 0, 0, false},
		"one":                         {three, 10, 10, 12, true},
		"asked from the middle":       {three, 11, 11, 12, true},
		"asked from not known":        {three, -1, 10, 12, true},
		"two":                         {joined(three, two), 12, 12, 14, true},
		"the first is below":          {joined(three, two), 13, 13, 14, true},
		"all below":                   {three, 13, 0, 0, false},
		"cut off":                     {joined(three, two[:len(two)-1]), 10, 10, 12, true},
		"cut off header":              {joined(three, two[:30]), 10, 10, 12, true},
		"control last":                {joined(three, control(two)), 10, 10, 12, true},
		"control first":               {joined(control(three), two), 10, 13, 14, true},
		"only control":                {control(two), 13, 0, 0, false},
		"compacted to nothing":        {joined(three, empty), 10, 10, 12, true},
		"a gap after what was asked":  {two, 5, 13, 14, true},
		"format 1, one message":       {old, 10, 10, 10, true},
		"format 1, wrapper ends here": {old, 8, 8, 10, true},
	} {
		first, last, found := offsets(c.data, c.from)
		if found != c.found || found && (first != c.first || last != c.last) {
			t.Errorf("%s: %d to %d, %v; want %d to %d, %v", name, first, last, found, c.first, c.last, c.found)
		}
	}
}

func TestSequenceNumbersWrap(t *testing.T) {
	for _, c := range [][3]int32{{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0},
		{math.MaxInt32 - 1, 3, 1}} {
		if got := sequence(c[0], c[1]); got != c[2] {
			t.Errorf("sequence(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// xerial frames blocks as Java's snappy library does.
func xerial(data []byte) []byte {
	out := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for chunk := range slices.Chunk(data, 100) {
		block := s2.EncodeSnappy(nil, chunk)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

func TestIDsAreFoundWhereverTheyAre(t *testing.T) {
	r := newRig(t, nil, nil)
	r.ids.KnowValue([]byte("garbage"), 7)
	header := func(key, value string) []byte {
		out := binary.AppendVarint([]byte{4}, int64(len(key)))
		out = binary.AppendVarint(append(out, key...), int64(len(value)))
		out = append(out, value...)
		out = binary.AppendVarint(out, 1)
		return append(append(out, 'k'), 1)
	}
	token := []byte(r.ids.Token(5))
	for name, c := range map[string]struct {
		record
		want int32
	}{
		"value":            {record{value: token, key: []byte(r.ids.Token(6))}, 5},
		"own header":       {record{headers: header(history.IDHeader, r.ids.Token(5)), key: []byte(r.ids.Token(6))}, 5},
		"other header":     {record{headers: header("original", r.ids.Token(5))}, 5},
		"key":              {record{key: token, headers: header("x", "y")}, 5},
		"nowhere":          {record{key: []byte("k"), value: []byte("v")}, history.None},
		"another run's":    {record{value: []byte(history.NewIDs("other").Token(5))}, history.None},
		"headers cut off":  {record{key: token, headers: []byte{8, 200}}, 5},
		"no headers field": {record{key: token}, 5},
		"its whole value":  {record{value: []byte("garbage"), key: []byte("k")}, 7},
		"the key counts":   {record{value: []byte("garbage"), key: token}, 5},
		"another value":    {record{value: []byte("garbage+"), key: []byte("k")}, history.None},
	} {
		if got := r.identify(c.record); got != c.want {
			t.Errorf("%s: record %d, want %d", name, got, c.want)
		}
	}
}

// Walking any Produce gives the same result as decoding it.
func TestWalkAgreesWithKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := kmsg.NewPtrProduceRequest()
		request.SetVersion(rapid.Int16Range(3, request.MaxVersion()).Draw(t, "version"))
		request.Acks = rapid.Int16Range(-1, 1).Draw(t, "acks")
		var want [][]byte
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = rapid.StringN(0, 5, 20).Draw(t, "name")
			topic.UnknownTags.Set(uint32(rapid.IntRange(5, 9).Draw(t, "tag")), []byte("tag"))
			for number := range rapid.Int32Range(0, 3).Draw(t, "partitions") {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Partition, p.Records = number, rapid.SliceOf(rapid.Byte()).Draw(t, "records")
				topic.Partitions = append(topic.Partitions, p)
				want = append(want, p.Records)
			}
			request.Topics = append(request.Topics, topic)
		}
		body := request.AppendTo(nil)
		var got [][]byte
		acks, err := walkProduce(body, request.Version, request.IsFlexible(),
			func(_ []byte, _ [16]byte, _ int32, data []byte) error {
				got = append(got, data)
				return nil
			})
		if err != nil || acks != request.Acks || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("acks %d, %v, %x; want %d, %x", acks, err, got, request.Acks, want)
		}
		if len(body) > 0 {
			cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
			if _, err := walkProduce(body[:cut], request.Version, request.IsFlexible(),
				func([]byte, [16]byte, int32, []byte) error { return nil }); err == nil {
				t.Fatalf("cut at %d of %d and not noticed", cut, len(body))
			}
		}
	})
}

func TestFramesOfAllSizes(t *testing.T) {
	var pool frames
	var sent []byte
	sizes := []int{0, 1, smallest - sizeLen, smallest, firstRead - sizeLen, firstRead, 3*firstRead + 7, 10}
	for i, size := range sizes {
		sent = binary.BigEndian.AppendUint32(sent, uint32(size))
		sent = append(sent, bytes.Repeat([]byte{byte(i)}, size)...)
	}
	for _, from := range []io.Reader{bytes.NewReader(sent), iotest.HalfReader(bytes.NewReader(sent))} {
		buffered := bufio.NewReader(from)
		for i, size := range sizes {
			fr, err := pool.read(buffered)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(fr.payload(), bytes.Repeat([]byte{byte(i)}, size)) {
				t.Errorf("frame %d of %d bytes is another", i, size)
			}
			pool.put(fr)
		}
		if _, err := pool.read(buffered); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
	// A frame that claims a large size and sends little gets little memory.
	var claim frame
	err := claim.fill(strings.NewReader("little"), maxFrame)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cap(claim.data) > 2*firstRead {
		t.Errorf("%v, %d bytes were set aside", err, cap(claim.data))
	}
}
