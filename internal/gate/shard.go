package gate

// The part of a suite that one of several machines runs.

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shard is part Index of Of, both from 1; the zero Shard is the whole.
type Shard struct{ Index, Of int }

// mostShards bounds how many parts a suite can have.
const mostShards = 1000

// ParseShard reads "2/3"; "" is the whole.
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	first, second, found := strings.Cut(text, "/")
	index, errIndex := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	if !found || errIndex != nil || errOf != nil || of < 1 || of > mostShards || index < 1 || index > of {
		return Shard{}, fmt.Errorf("%q is no part: write i/n with i from 1 to n, such as 2/3", text)
	}
	return Shard{index, of}, nil
}

func (s Shard) String() string {
	if s.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Of)
}

// Part returns the entries of a shard in the order of the suite. Every shard computes the same split from the suite
// alone. Each entry goes where its own key says (rendezvous hashing), but to none that has its fair share already, in
// the order of the keys: parts differ by one entry at most, the order of dlqbench.yaml means nothing, and an entry more
// or less moves few others.
func (s *Suite) Part(shard Shard) []Entry {
	if shard.Of <= 1 {
		return s.Entries
	}
	byKey := slices.Clone(s.Entries)
	slices.SortFunc(byKey, func(a, b Entry) int { return cmp.Compare(weight(a, 0), weight(b, 0)) })
	fair := (len(byKey) + shard.Of - 1) / shard.Of
	// So many parts may hold the full fair share; the others hold one less.
	full := len(byKey) - (fair-1)*shard.Of
	counts, mine := make([]int, shard.Of+1), []Entry{}
	for _, entry := range byKey {
		chosen := 0
		for part := 1; part <= shard.Of; part++ {
			room := counts[part] < fair-1 || counts[part] == fair-1 && full > 0
			if room && (chosen == 0 || weight(entry, part) > weight(entry, chosen)) {
				chosen = part
			}
		}
		if counts[chosen]++; counts[chosen] == fair {
			full--
		}
		if chosen == shard.Index {
			mine = append(mine, entry)
		}
	}
	slices.SortFunc(mine, func(a, b Entry) int { return cmp.Compare(a.Number, b.Number) })
	return mine
}

// weight is how much a part wants an entry; part 0 gives its place in the order in which entries choose.
func weight(entry Entry, part int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", entry.Key(), part))
	return binary.BigEndian.Uint64(sum[:8])
}
