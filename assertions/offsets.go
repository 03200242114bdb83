package assertions

// The records at the offsets of a partition. Offsets are nearly dense and nearly ascending, but a topic may start
// anywhere and have gaps, so they are kept in pages.

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

// offsets maps the offsets of one partition to records.
type offsets struct {
	pages map[int64]*[pageSize]int32 // record + 1, so that zero means empty
	page  *[pageSize]int32           // the page used last
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
				o.pages = map[int64]*[pageSize]int32{}
			}
			page = new([pageSize]int32)
			o.pages[key] = page
		}
		o.key, o.page = key, page
	}
	o.page[offset&(pageSize-1)] = record + 1
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
	return o.page[offset&(pageSize-1)] - 1
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
