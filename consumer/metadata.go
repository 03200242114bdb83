package consumer

// This file implements offset metadata: the records finished beyond the committed offset, so that the next owner of
// the partition need not process them again.

import (
	"strconv"
	"strings"
)

const (
	// maxMetadata is the maximum size in bytes that brokers accept by default (offset.metadata.max.bytes).
	maxMetadata = 4096
	// maxRanges exceeds the number of ranges that fit: the shortest range takes two bytes.
	maxRanges = maxMetadata / 2
)

// encodeRanges encodes ranges relative to base, the committed offset: "1-3,7". Ranges at the end that do not fit are
// left out. Their records are processed again.
func encodeRanges(base int64, ranges []Range) string {
	var text []byte
	for _, r := range ranges {
		before := len(text)
		if before > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, r.First-base, 10)
		if r.Last > r.First {
			text = strconv.AppendInt(append(text, '-'), r.Last-base, 10)
		}
		if len(text) > maxMetadata {
			return string(text[:before])
		}
	}
	return string(text)
}

// decodeRanges decodes the output of encodeRanges. It returns no ranges if any part of the text is invalid, because
// metadata is free text.
func decodeRanges(base int64, text string) []Range {
	var ranges []Range
	last := base - 1
	for part := range strings.SplitSeq(text, ",") {
		from, to, more := strings.Cut(part, "-")
		if !more {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 63)
		end, endErr := strconv.ParseInt(to, 10, 63)
		if err != nil || endErr != nil || first > end || base+first <= last || base+end < base {
			return nil
		}
		last = base + end
		ranges = append(ranges, Range{base + first, last})
	}
	return ranges
}

// skips reports whether the record at the offset was finished by an earlier owner. It must be called in the order of
// fetching.
func (p *partition) skips(offset int64) bool {
	for len(p.restored) > 0 && p.restored[0].Last < offset {
		p.restored = p.restored[1:]
	}
	p.fetched = offset
	return len(p.restored) > 0 && p.restored[0].First <= offset
}

// metadata returns the metadata for a commit of the prefix. It includes records that earlier owners finished and that
// this owner has not reached yet.
func (p *partition) metadata(prefix Prefix) string {
	ranges := prefix.Beyond
	for _, r := range p.restored {
		r.First = max(r.First, p.fetched+1)
		if r.First > r.Last {
			continue
		}
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == r.First {
			ranges[n-1].Last = r.Last
			continue
		}
		ranges = append(ranges, r)
	}
	return encodeRanges(prefix.Next, ranges)
}
