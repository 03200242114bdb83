package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// This file decodes the columns of a segment into typed slices, one page of all columns at a time, and assembles
// events from them. Reading row by row through reflection is ten times slower.

// column is one column being read.
type column interface {
	// open starts at the first page of the chunk. rows is the maximum number of rows in a page.
	open(chunk parquet.ColumnChunk, rows int) error
	// next reads the next page, which must have exactly this number of rows.
	next(rows int) error
	close()
}

// paged holds the state common to all columns. A column whose dictionary has one entry is constant, so its pages need
// not be read.
type paged struct {
	pages    parquet.Pages
	dict     parquet.Dictionary
	constant bool
}

func (p *paged) open(chunk parquet.ColumnChunk, _ int) error {
	p.pages, p.dict = chunk.Pages(), nil
	if reader, ok := p.pages.(interface {
		ReadDictionary() (parquet.Dictionary, error)
	}); ok {
		dict, err := reader.ReadDictionary()
		if err != nil {
			return fmt.Errorf("reading a dictionary: %w", err)
		}
		p.dict = dict
	}
	p.constant = p.dict != nil && p.dict.Len() == 1
	return nil
}

func (p *paged) page(rows int) (parquet.Page, error) {
	page, err := p.pages.ReadPage()
	if err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	if page.NumValues() != int64(rows) || page.NumNulls() != 0 {
		found := page.NumValues()
		parquet.Release(page)
		return nil, fmt.Errorf("a page has %d values where %d belong", found, rows)
	}
	return page, nil
}

func (p *paged) close() {
	if p.pages != nil {
		_ = p.pages.Close() // reading from memory: closing cannot fail
		p.pages = nil
	}
}

// numbers is a column of integers.
type numbers[T int32 | int64] struct {
	paged
	raw    func(encoding.Values) []T
	values []T
}

func (c *numbers[T]) open(chunk parquet.ColumnChunk, rows int) error {
	c.values = sized(c.values, rows)
	if err := c.paged.open(chunk, rows); err != nil || !c.constant {
		return err
	}
	value := c.raw(c.dict.Page().Data())[0]
	for i := range c.values {
		c.values[i] = value
	}
	return nil
}

func (c *numbers[T]) next(rows int) error {
	if c.constant {
		return nil
	}
	page, err := c.page(rows)
	if err != nil {
		return err
	}
	defer parquet.Release(page)
	if c.dict == nil {
		copy(c.values, c.raw(page.Data()))
		return nil
	}
	data, known := page.Data(), c.raw(c.dict.Page().Data())
	for i, index := range data.Int32() {
		c.values[i] = known[index]
	}
	return nil
}

// sized returns a slice of this length and reuses old if it is large enough. The caller overwrites the contents
// before it reads them.
func sized[T any](old []T, length int) []T {
	if cap(old) >= length {
		return old[:length]
	}
	return make([]T, length)
}

func raw32(v encoding.Values) []int32 { return v.Int32() }
func raw64(v encoding.Values) []int64 { return v.Int64() }

// words is a column of strings with a dictionary. Each dictionary entry is translated once per segment.
type words[T any] struct {
	paged
	parse   func(string) (T, error)
	meaning []T
	indexes []int32
}

func (c *words[T]) open(chunk parquet.ColumnChunk, rows int) error {
	c.indexes = sized(c.indexes, rows)
	if err := c.paged.open(chunk, rows); err != nil {
		return err
	}
	if c.dict == nil {
		return errors.New("the column has no dictionary")
	}
	c.meaning = c.meaning[:0]
	for i := range c.dict.Len() {
		meaning, err := c.parse(string(c.dict.Index(int32(i)).ByteArray()))
		if err != nil {
			return err
		}
		c.meaning = append(c.meaning, meaning)
	}
	if c.constant {
		clear(c.indexes)
	}
	return nil
}

// absent marks the column as missing from the segment: every row has the zero value.
func (c *words[T]) absent(rows int) {
	var zero T
	c.paged = paged{constant: true}
	c.meaning = append(c.meaning[:0], zero)
	c.indexes = sized(c.indexes, rows)
	clear(c.indexes)
}

func (c *words[T]) next(rows int) error {
	if c.constant {
		return nil
	}
	page, err := c.page(rows)
	if err != nil {
		return err
	}
	defer parquet.Release(page)
	data := page.Data()
	for i, index := range data.Int32() {
		if uint32(index) >= uint32(len(c.meaning)) {
			return fmt.Errorf("word %d is not in its dictionary, which has %d", index, len(c.meaning))
		}
		c.indexes[i] = index
	}
	return nil
}

// truths is a column of booleans.
type truths struct {
	paged
	bits []byte
}

func (c *truths) open(chunk parquet.ColumnChunk, rows int) error {
	c.bits = sized(c.bits, rows/8+1)
	return c.paged.open(chunk, rows)
}

func (c *truths) next(rows int) error {
	page, err := c.page(rows)
	if err != nil {
		return err
	}
	defer parquet.Release(page)
	data := page.Data()
	copy(c.bits, data.Boolean())
	return nil
}

func (c *truths) at(i int) bool { return c.bits[i/8]>>(i%8)&1 == 1 }

// columns are the columns of a segment, by the Event field they fill.
type columns struct {
	time, offset, op, aux, producerID, claimOffset    numbers[int64]
	keyHash, valueHash, headersHash                   numbers[int64]
	instance, run, topic, partition, record, n, code  numbers[int32]
	headerCount, headerBytes, producerEpoch, sequence numbers[int32]
	claimTopic, claimPartition, claimAttempts         numbers[int32]
	claimPresent                                      truths
	kind                                              words[Kind]
	outcome                                           words[Outcome]
	flags                                             words[Flags]
	text, claimMissing, claimMore                     words[string]
}

func newColumns(v *vocabulary) *columns {
	c := &columns{}
	c.kind.parse = lookup(v.kinds, "kind")
	c.outcome.parse = lookup(v.outcomes, "outcome")
	c.flags.parse = v.parseFlags
	c.text.parse, c.claimMissing.parse, c.claimMore.parse = decodeText, decodeText, decodeText
	for _, column := range []*numbers[int64]{
		&c.time, &c.offset, &c.op, &c.aux, &c.producerID, &c.claimOffset, &c.keyHash, &c.valueHash, &c.headersHash,
	} {
		column.raw = raw64
	}
	for _, column := range []*numbers[int32]{
		&c.instance, &c.run, &c.topic, &c.partition, &c.record, &c.n, &c.code, &c.headerCount, &c.headerBytes,
		&c.producerEpoch, &c.sequence, &c.claimTopic, &c.claimPartition, &c.claimAttempts,
	} {
		column.raw = raw32
	}
	return c
}

func lookup[T any](known map[string]T, what string) func(string) (T, error) {
	return func(word string) (T, error) {
		meaning, found := known[word]
		if !found {
			return meaning, fmt.Errorf("%q is no %s", word, what)
		}
		return meaning, nil
	}
}

// named is a column and its name in the file.
type named struct {
	name string
	column
}

func (c *columns) all() []named {
	return []named{
		{"time_ns", &c.time}, {"kind", &c.kind}, {"outcome", &c.outcome}, {"flags", &c.flags}, {"instance", &c.instance},
		{"run", &c.run}, {"topic", &c.topic}, {"partition", &c.partition}, {"offset", &c.offset}, {"record", &c.record},
		{"n", &c.n},
		{"code", &c.code}, {"op", &c.op}, {"aux", &c.aux}, {"key_hash", &c.keyHash}, {"value_hash", &c.valueHash},
		{"headers_hash", &c.headersHash}, {"header_count", &c.headerCount}, {"header_bytes", &c.headerBytes},
		{"producer_id", &c.producerID}, {"producer_epoch", &c.producerEpoch}, {"sequence", &c.sequence},
		{"claim_present", &c.claimPresent}, {"claim_topic", &c.claimTopic}, {"claim_partition", &c.claimPartition},
		{"claim_offset", &c.claimOffset}, {"claim_attempts", &c.claimAttempts}, {"claim_missing", &c.claimMissing},
		{"text", &c.text}, {claimMoreColumn, &c.claimMore},
	}
}

// claimMoreColumn is missing from histories that predate the field.
const claimMoreColumn = "claim_more"

// event assembles the event in row i of the current page.
func (c *columns) event(e *Event, i int) {
	e.Time = time.Duration(c.time.values[i])
	e.Kind = c.kind.meaning[c.kind.indexes[i]]
	e.Outcome = c.outcome.meaning[c.outcome.indexes[i]]
	e.Flags = c.flags.meaning[c.flags.indexes[i]]
	e.Instance = int16(c.instance.values[i])
	e.Run = uint16(c.run.values[i])
	e.Topic = int16(c.topic.values[i])
	e.Code = int16(c.code.values[i])
	e.Partition = c.partition.values[i]
	e.Record = c.record.values[i]
	e.N = c.n.values[i]
	e.Offset = c.offset.values[i]
	e.Op = c.op.values[i]
	e.Aux = c.aux.values[i]
	e.KeyHash = uint64(c.keyHash.values[i])
	e.ValueHash = uint64(c.valueHash.values[i])
	e.HeadersHash = uint64(c.headersHash.values[i])
	e.HeaderCount = c.headerCount.values[i]
	e.HeaderBytes = c.headerBytes.values[i]
	e.ProducerID = c.producerID.values[i]
	e.ProducerEpoch = int16(c.producerEpoch.values[i])
	e.Sequence = c.sequence.values[i]
	e.Claim = nil
	if c.claimPresent.at(i) {
		e.Claim = &Claim{
			Topic: int16(c.claimTopic.values[i]), Partition: c.claimPartition.values[i], Offset: c.claimOffset.values[i],
			Attempts: c.claimAttempts.values[i], Missing: c.claimMissing.meaning[c.claimMissing.indexes[i]],
			More: c.claimMore.meaning[c.claimMore.indexes[i]],
		}
	}
	e.Text = c.text.meaning[c.text.indexes[i]]
}
