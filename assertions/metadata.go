package assertions

// Finished offsets beyond the committed one, carried in a commit's metadata (Contract.OffsetMetadata). An offset named
// there is committed like the offsets below the commit: it must be finished when the commit is read, and the next
// holder of the partition skips it. Only the metadata of the last accepted commit counts: offsets that it no longer
// names are delivered again.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// offsetRange is a range of offsets, both ends included.
type offsetRange struct{ from, to int64 }

// ranges are ascending and do not overlap.
type ranges []offsetRange

// metadataLimit is the largest length of metadata that is read; brokers refuse more than offset.metadata.max.bytes, 4
// KiB by default.
const metadataLimit = 1 << 16

// parseRanges reads history.MetadataRanges: "1-3,7" relative to base.
func parseRanges(text string, base int64) (ranges, bool) {
	if text == "" {
		return nil, true
	}
	if len(text) > metadataLimit || base < 0 || base > offsetLimit {
		return nil, false
	}
	var all ranges
	last := int64(-1)
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 32)
		if err != nil {
			return nil, false
		}
		to, err := strconv.ParseUint(high, 10, 32)
		if err != nil || to < from || int64(from) <= last {
			return nil, false
		}
		last = int64(to)
		all = append(all, offsetRange{base + int64(from), base + int64(to)})
	}
	return all, true
}

// has reports whether the offset is in one of the ranges.
func (rs ranges) has(offset int64) bool {
	_, found := slices.BinarySearchFunc(rs, offset, func(one offsetRange, offset int64) int {
		switch {
		case one.to < offset:
			return -1
		case one.from > offset:
			return 1
		}
		return 0
	})
	return found
}

// with returns the ranges and one additional range.
func (rs ranges) with(one offsetRange) ranges {
	at, _ := slices.BinarySearchFunc(rs, one.from, func(known offsetRange, from int64) int {
		return cmp.Compare(known.to+1, from)
	})
	to := at
	for ; to < len(rs) && rs[to].from <= one.to+1; to++ {
		one.from, one.to = min(one.from, rs[to].from), max(one.to, rs[to].to)
	}
	return slices.Replace(rs, at, to, one)
}

// without calls fn for every offset up to limit that is in the ranges and not in others.
func (rs ranges) without(others ranges, limit int64, fn func(offset int64)) {
	for _, one := range rs {
		from := one.from
		at, _ := slices.BinarySearchFunc(others, from, func(other offsetRange, from int64) int {
			return cmp.Compare(other.to, from)
		})
		for ; from <= min(one.to, limit); at++ {
			if at >= len(others) || others[at].from > one.to {
				for ; from <= min(one.to, limit); from++ {
					fn(from)
				}
				break
			}
			for ; from < others[at].from && from <= limit; from++ {
				fn(from)
			}
			from = max(from, others[at].to+1)
		}
	}
}

func (w *state) readMetadata(c *commit, text string) {
	if w.contract.OffsetMetadata != history.MetadataRanges {
		return
	}
	named, ok := parseRanges(text, c.offset)
	c.named, c.malformed = named, !ok
}

// scanNamed looks for offsets that are not done among those that the commit names. Offsets named by the last accepted
// commit have already been examined.
func (w *state) scanNamed(p *partition, c *commit) {
	if len(c.named) == 0 {
		return
	}
	// A damaged history may show fetches far beyond the known offsets. No more holes than this are kept.
	limit := min(max(p.log.last, p.fetched), max(p.log.last, c.named[0].from)+holeLimit) + holeLimit
	c.named.without(p.named, limit, func(offset int64) {
		number := p.log.at(offset)
		if number == none {
			if len(c.holes) < holeLimit {
				c.holes = append(c.holes, offset)
			}
			return
		}
		if !w.perhapsDone(number, w.records.at(int(number)), place{p.topic, p.place.partition, offset}, c.at) {
			c.open = append(c.open, openPlace{number: number, offset: offset, named: true})
		}
	})
}

// coverNamed notes that an accepted commit covers the records that it names, and no longer covers those that only the
// previous one named.
func (w *state) coverNamed(p *partition, c *commit) {
	if len(c.named) == 0 && len(p.named) == 0 {
		return
	}
	limit := p.log.last
	c.named.without(p.named, limit, func(offset int64) {
		if number := p.log.at(offset); number != none {
			w.coverIfAll(number, w.records.at(int(number)), place{p.topic, p.place.partition, offset})
		}
	})
	p.named.without(c.named, limit, func(offset int64) {
		if number := p.log.at(offset); number != none && offset >= max(c.offset, p.covered) {
			w.records.at(int(number)).flags &^= markCovered
		}
	})
}

// committedAt reports whether the group's offsets, as found by the audit, say that the offset is done. Beyond the
// committed offset, this needs metadata that certainly belongs to the audited commit, or an acknowledgement that the
// broker of a share group accepted.
func (p *partition) committedAt(offset int64) bool {
	return p.auditCommits > offset || (p.deliveries != nil || p.auditCommits == p.committed) && p.named.has(offset)
}

// over reports whether the subject is over with the offset, unless it is proven that it is not: the group's offsets say
// so or, where they are kept outside Kafka, it was handed the offset and stands still.
func (w *state) over(p *partition, offset int64) bool {
	return p.committedAt(offset) || w.contract.OffsetsOutside && offset <= p.fetched && w.standsStill()
}
