package assertions

// The records at the offsets of a partition. Offsets are nearly dense and nearly ascending, but a topic may start
// anywhere and have gaps, so they are kept in pages.

import "math"

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

// offsetPage is a part of them. Records that lie near each other were sent about the same time, so their numbers mostly
// differ by less than fits in two bytes.
type offsetPage struct {
	base int32
	near [pageSize]uint16 // record - base + 1, so that zero means empty
	// far is nil as long as near has room for all of the differences. Then it holds record + 1.
	far *[pageSize]int32
}

// newPage returns a page that has room for records a little before this one, and many after it.
func newPage(record int32) *offsetPage { return &offsetPage{base: max(0, record-pageSize)} }

func (p *offsetPage) put(at int64, record int32) {
	if near := int64(record) - int64(p.base) + 1; p.far == nil && near > 0 && near <= math.MaxUint16 {
		p.near[at] = uint16(near)
		return
	}
	if p.far == nil {
		far := new([pageSize]int32)
		for i := range far {
			far[i] = p.at(int64(i)) + 1
		}
		p.far = far
	}
	p.far[at] = record + 1
}

func (p *offsetPage) at(at int64) int32 {
	switch {
	case p.far != nil:
		return p.far[at] - 1
	case p.near[at] == 0:
		return none
	}
	return p.base + int32(p.near[at]) - 1
}

// offsets maps the offsets of one partition to records.
type offsets struct {
	pages map[int64]*offsetPage
	page  *offsetPage // the one used last
	key   int64
	first int64
	last  int64
}

func newOffsets() offsets { return offsets{key: none, first: none, last: none} }

// reach is the largest distance between the offsets of one partition, so that iterating over them always ends. No topic
// of a run comes near it.
const reach = 1 << 26

// put notes that the record lies at the offset, and reports whether the offset is valid. It rejects negative and
// implausible offsets.
func (o *offsets) put(offset int64, record int32) bool {
	if offset < 0 || o.first >= 0 && (offset-o.first > reach || o.last-offset > reach) {
		return false
	}
	key := offset >> pageBits
	if key != o.key || o.page == nil {
		page := o.pages[key]
		if page == nil {
			if o.pages == nil {
				o.pages = map[int64]*offsetPage{}
			}
			page = newPage(record)
			o.pages[key] = page
		}
		o.key, o.page = key, page
	}
	o.page.put(offset&(pageSize-1), record)
	if o.first < 0 || offset < o.first {
		o.first = offset
	}
	o.last = max(o.last, offset)
	return true
}

// at returns the record at the offset, or none if it is unknown.
func (o *offsets) at(offset int64) int32 {
	if offset < 0 {
		return none
	}
	if key := offset >> pageBits; key != o.key || o.page == nil {
		page := o.pages[key]
		if page == nil {
			return none
		}
		o.key, o.page = key, page
	}
	return o.page.at(offset & (pageSize - 1))
}

// next returns the first offset at or after from at which a record is known to lie, or the one after the last record if
// there is none.
func (o *offsets) next(from int64) int64 {
	from = max(from, o.first)
	for from <= o.last && o.at(from) == none {
		from++
	}
	return from
}
