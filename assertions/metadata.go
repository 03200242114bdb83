package assertions

// Finished offsets beyond the committed one, carried in a commit's metadata (Contract.OffsetMetadata). What a commit
// names there is committed like what lies below it: it must be finished when the commit is read, and whoever gets the
// partition next skips it. The metadata of the last accepted commit counts, alone: what it no longer names is handed
// out again.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// span of offsets, both ends included.
type offsetRange struct{ from, to int64 }

// ranges are ascending and do not overlap.
type ranges []offsetRange

// metadataLimit is how long metadata can be and still be read; brokers refuse more than offset.metadata.max.bytes, 4
// KiB as they come.
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

// with returns the ranges and one more.
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

// scanNamed looks for what is not done among the offsets that the commit names. What the last accepted commit named has
// been looked at.
func (w *state) scanNamed(p *partition, c *commit) {
	if len(c.named) == 0 {
		return
	}
	// However far what a damaged history has fetched may reach: no more holes than that are kept.
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

// coverNamed notes that the records are covered that an accepted commit names, and that those are not any more that
// only the one before it named.
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

// committedAt reports whether the group's offsets, as the audit found them, say that the offset is done; beyond the
// committed offset, only metadata that is certainly the audited commit's can say so, or the acknowledgement that the
// broker of a share group took.
func (p *partition) committedAt(offset int64) bool {
	return p.auditCommits > offset || (p.deliveries != nil || p.auditCommits == p.committed) && p.named.has(offset)
}
