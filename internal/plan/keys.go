package plan

// Keys: their text, their frequencies, and their partitions in Kafka.

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// AppendKey appends the bytes of the key with that index (≥ 0) to dst. The workload sends these bytes, and they
// determine the partition.
func AppendKey(dst []byte, index int32) []byte { return history.AppendKey(dst, index) }

// Partition returns the partition that Kafka's default partitioner assigns to a key: murmur2, made positive, modulo
// the number of partitions.
func Partition(key []byte, partitions int) int32 {
	return int32(murmur2(key)&0x7fffffff) % int32(partitions)
}

// murmur2 is the hash of Kafka's own clients (org.apache.kafka.common.utils.Utils.murmur2), with the same seed.
func murmur2(data []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// picker returns a function that draws key indices: uniform, or Zipf with exponent s, where key k (from 0) has weight
// 1/(k+1)^s. The standard library's Zipf requires s > 1, but the relevant range starts at 0.
func picker(random *rand.Rand, keys scenarios.Keys) func() int32 {
	count := max(keys.Count, 1)
	if keys.Skew <= 0 {
		return func() int32 { return random.Int32N(int32(count)) }
	}
	cumulated := make([]float64, count)
	sum := 0.0
	for k := range cumulated {
		sum += math.Pow(float64(k+1), -keys.Skew)
		cumulated[k] = sum
	}
	return func() int32 {
		draw := random.Float64() * sum
		return int32(min(sort.SearchFloat64s(cumulated, draw), count-1))
	}
}

// hotKey is the index of the key of Keys.Hot records.
const hotKey = 0

// addKeys assigns every record its key and the partition that Kafka's default partitioner assigns to that key.
// Records without a key are distributed round robin. The key of a sample replaces the one that was drawn, unless that
// is null or binary, which the scenario asks for.
func (p *Plan) addKeys(keys scenarios.Keys, partitions int, from *samples.Set) {
	if from != nil {
		p.Keys, p.largestSample = from.Keys(), from.Largest()
	}
	var (
		random     = p.stream("keys")
		nullRandom = p.stream("null keys")
		hotRandom  = p.stream("hot key")
		binary     = p.stream("binary keys")
		pick       = picker(random, keys)
		hot        = among(keys.Hot.Share(), 1-keys.Null.Share())
		next       int32
		text       []byte
	)
	for i := range p.Records {
		record := &p.Records[i]
		key := pick()
		if hotRandom.Float64() < hot {
			key = hotKey
		}
		sample := samples.Key{Kind: samples.KeyUnsaid}
		if from != nil {
			record.Sample = from.Turn(i)
			sample = from.At(record.Sample).Key
		}
		null := nullRandom.Float64() < keys.Null.Share()
		if !null && binary.Float64() < keys.Binary.Share() {
			key, sample.Kind = key+history.BinaryKey, samples.KeyUnsaid
		}
		if null || sample.Kind == samples.KeyNull {
			record.Partition = next
			next = (next + 1) % int32(partitions)
			continue
		}
		record.Key, text = key, AppendKey(text[:0], key)
		switch sample.Kind {
		case samples.KeyOwn:
			record.Key, text = history.SampleKey+sample.Index, append(text[:0], p.Keys[sample.Index]...)
		case samples.KeyID: // the id is known once the run has its name; the key that was drawn stands for its hash
			record.Key = history.KeyIsID
		}
		record.Partition = Partition(text, partitions)
	}
}

// among returns the share within a part that corresponds to the given share of the whole. rest is the part's share of
// the whole.
func among(share, rest float64) float64 {
	if rest <= 0 {
		return 0
	}
	return min(share/rest, 1)
}
