package history

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// row is an event as a row of the table. Its fields define the columns, their names, encodings and compression.
// Columns with few distinct values use dictionaries, counters use differences. None stays -1, so every event is read
// back exactly.
type row struct {
	Time          int64  `parquet:"time_ns,delta"`
	Kind          string `parquet:"kind,dict"`
	Outcome       string `parquet:"outcome,dict"`
	Flags         string `parquet:"flags,dict"`
	Instance      int32  `parquet:"instance,dict"`
	Run           int32  `parquet:"run,dict"`
	Topic         int32  `parquet:"topic,dict"`
	Partition     int32  `parquet:"partition,dict"`
	Offset        int64  `parquet:"offset,delta"`
	Record        int32  `parquet:"record,delta"`
	N             int32  `parquet:"n,dict"`
	Code          int32  `parquet:"code,dict"`
	Op            int64  `parquet:"op,delta"`
	Aux           int64  `parquet:"aux,delta"`
	KeyHash       uint64 `parquet:"key_hash,dict"`
	ValueHash     uint64 `parquet:"value_hash"`
	HeadersHash   uint64 `parquet:"headers_hash"`
	HeaderCount   int32  `parquet:"header_count,dict"`
	HeaderBytes   int32  `parquet:"header_bytes,dict"`
	ProducerID    int64  `parquet:"producer_id,dict"`
	ProducerEpoch int32  `parquet:"producer_epoch,dict"`
	Sequence      int32  `parquet:"sequence,delta"`
	ClaimPresent  bool   `parquet:"claim_present"`
	ClaimTopic    int32  `parquet:"claim_topic,dict"`
	ClaimPart     int32  `parquet:"claim_partition,dict"`
	ClaimOffset   int64  `parquet:"claim_offset,delta"`
	ClaimAttempts int32  `parquet:"claim_attempts,dict"`
	ClaimMissing  string `parquet:"claim_missing,dict"`
	Text          string `parquet:"text,dict"`
	ClaimMore     string `parquet:"claim_more,dict"`
}

// segmentWriter encodes events as segments. It is not safe for concurrent use. It keeps its buffers from segment to
// segment.
type segmentWriter struct {
	run      string
	parquet  *parquet.GenericWriter[row]
	out      bytes.Buffer
	rows     []row
	order    []timed
	kinds    [256]string
	outcomes [256]string
	flags    map[Flags]string
}

// timed is the position of an event in time.
type timed struct {
	at    time.Duration
	index int
}

func newSegmentWriter(run string) *segmentWriter {
	w := &segmentWriter{run: run, flags: map[Flags]string{}}
	for i := range w.kinds {
		w.kinds[i], w.outcomes[i] = Kind(i).String(), Outcome(i).String()
	}
	options := []parquet.WriterOption{
		// Pages are split by rows, below. This size only has to exceed a page of the widest column.
		parquet.PageBufferSize(2 * 8 * pageEvents),
		parquet.DataPageStatistics(false),
		// Measured on the events of a run (BenchmarkWrite): 15 bytes per event instead of 31, for a quarter more
		// time. Snappy has the same speed and larger output. The default level of zstd saves one more byte and makes
		// recording 20 % slower.
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.CreatedBy("dlqbench history", strconv.Itoa(segmentFormat), ""),
	}
	// The lowest and the highest value of each page let other programs skip pages by time or record. In the other
	// columns they would be of no use, and looking for them among words takes a tenth of the time.
	for _, path := range parquet.SchemaOf(row{}).Columns() {
		if name := path[0]; name != "time_ns" && name != "record" {
			options = append(options, parquet.SkipPageBounds(name))
		}
	}
	w.parquet = parquet.NewGenericWriter[row](&w.out, options...)
	return w
}

// encode returns the events as a finished segment, which is valid until the next call, and the segment's description.
// There must be at least one event.
func (w *segmentWriter) encode(events []Event) ([]byte, segmentInfo, error) {
	w.sort(events)
	return w.encodeSorted(events)
}

// cachedRows is the number of rows that are split into columns at a time. Each column is a pass over them, and they
// stay in the processor's cache.
const cachedRows = 1 << 10

// encodeSorted writes the events in w.order.
func (w *segmentWriter) encodeSorted(events []Event) ([]byte, segmentInfo, error) {
	w.out.Reset()
	w.parquet.Reset(&w.out)
	w.rows = sized(w.rows, cachedRows)
	for page := range slices.Chunk(w.order, pageEvents) {
		for some := range slices.Chunk(page, cachedRows) {
			for i, at := range some {
				w.fill(&w.rows[i], &events[at.index])
			}
			if _, err := w.parquet.Write(w.rows[:len(some)]); err != nil {
				return nil, segmentInfo{}, fmt.Errorf("encoding a segment: %w", err)
			}
		}
		for _, column := range w.parquet.ColumnWriters() {
			if err := column.Flush(); err != nil {
				return nil, segmentInfo{}, fmt.Errorf("encoding a segment: %w", err)
			}
		}
	}
	info := segmentInfo{Events: len(events), First: w.order[0].at, Last: w.order[len(w.order)-1].at}
	w.describe(info)
	if err := w.parquet.Close(); err != nil {
		return nil, segmentInfo{}, fmt.Errorf("encoding a segment: %w", err)
	}
	sum, err := sealSegment(w.out.Bytes())
	info.Bytes, info.Sum = w.out.Len(), sum
	return w.out.Bytes(), info, err
}

// describe writes the segment's description into its metadata. The checksum's place must come last, where readers
// look for it.
func (w *segmentWriter) describe(info segmentInfo) {
	w.parquet.SetKeyValueMetadata(metaFormat, strconv.Itoa(segmentFormat))
	w.parquet.SetKeyValueMetadata(metaRun, w.run)
	w.parquet.SetKeyValueMetadata(metaEvents, strconv.Itoa(info.Events))
	w.parquet.SetKeyValueMetadata(metaFirst, strconv.FormatInt(int64(info.First), 10))
	w.parquet.SetKeyValueMetadata(metaLast, strconv.FormatInt(int64(info.Last), 10))
	w.parquet.SetKeyValueMetadata(metaSum, sumMark+noSum)
}

// sort orders the events by time and keeps the recorded order for equal times. Observers stamp events before they
// record them, so events arrive nearly sorted, and checking the order is often enough.
func (w *segmentWriter) sort(events []Event) {
	w.order = sized(w.order, len(events))
	sorted := true
	for i := range events {
		w.order[i] = timed{events[i].Time, i}
		sorted = sorted && (i == 0 || events[i-1].Time <= events[i].Time)
	}
	if sorted {
		return
	}
	slices.SortFunc(w.order, func(a, b timed) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return cmp.Compare(a.index, b.index)
	})
}

// fill sets all fields of the row, one by one: a whole row would be made elsewhere and then copied.
func (w *segmentWriter) fill(r *row, e *Event) {
	r.Time = int64(e.Time)
	r.Kind, r.Outcome, r.Flags = w.kinds[e.Kind], w.outcomes[e.Outcome], w.flagWords(e.Flags)
	r.Instance, r.Run = int32(e.Instance), int32(e.Run)
	r.Topic, r.Partition, r.Offset = int32(e.Topic), e.Partition, e.Offset
	r.Record, r.N, r.Code, r.Op, r.Aux = e.Record, e.N, int32(e.Code), e.Op, e.Aux
	r.KeyHash, r.ValueHash, r.HeadersHash = e.KeyHash, e.ValueHash, e.HeadersHash
	r.HeaderCount, r.HeaderBytes = e.HeaderCount, e.HeaderBytes
	r.ProducerID, r.ProducerEpoch, r.Sequence = e.ProducerID, int32(e.ProducerEpoch), e.Sequence
	claim := e.Stated()
	r.ClaimPresent, r.ClaimTopic, r.ClaimPart = e.Claim != nil, int32(claim.Topic), claim.Partition
	r.ClaimOffset, r.ClaimAttempts = claim.Offset, claim.Attempts
	r.ClaimMissing, r.ClaimMore, r.Text = "", "", ""
	if claim.Missing != "" {
		r.ClaimMissing = encodeText(claim.Missing)
	}
	if claim.More != "" {
		r.ClaimMore = encodeText(claim.More)
	}
	if e.Text != "" {
		r.Text = encodeText(e.Text)
	}
}

func (w *segmentWriter) flagWords(f Flags) string {
	if f == 0 {
		return ""
	}
	words, known := w.flags[f]
	if !known {
		words = f.String()
		if len(w.flags) < 1<<10 { // real histories have few combinations; artificial ones must not fill the memory
			w.flags[f] = words
		}
	}
	return words
}
