package gate

// This file splits a suite into the parts that several machines run.

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shard is part Index of Of, both counted from 1. The zero Shard is the whole suite.
type Shard struct{ Index, Of int }

// mostShards is the maximum number of parts.
const mostShards = 1000

// ParseShard parses "2/3". "" is the whole suite.
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
// alone. Each entry, in the order of the keys, goes to the part that its own key prefers (rendezvous hashing) and that
// has not reached its fair share. Parts differ by at most one entry, the order of dlqbench.yaml does not matter, and
// adding or removing an entry moves few others.
func (s *Suite) Part(shard Shard) []Entry {
	if shard.Of <= 1 {
		return s.Entries
	}
	byKey := slices.Clone(s.Entries)
	slices.SortFunc(byKey, func(a, b Entry) int { return cmp.Compare(weight(a, 0), weight(b, 0)) })
	fair := (len(byKey) + shard.Of - 1) / shard.Of
	// full is the number of parts that may hold the full fair share. The others hold one entry less.
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

// weight is a part's preference for an entry. Part 0 gives the order in which entries choose.
func weight(entry Entry, part int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", entry.Key(), part))
	return binary.BigEndian.Uint64(sum[:8])
}
