package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// settings say how the consumer behaves. All that they can say is legal: what differs is what its contract promises.
type settings struct {
	// balancers are those that the group offers, in order of preference; nil: the client's default, cooperative-sticky.
	balancers []kgo.GroupBalancer
	// static: a static member; next: the group protocol of KIP-848.
	static, next bool
	session      time.Duration // 0: the client's default, 45 s
	members      int           // consumers in the process, each a member of its own
	slowStart    time.Duration // waited before joining, as a runtime that is slow to start does
	pollRecords  int
	fetchBytes   int32 // the most of a fetch and, halved, of a partition; 0: the client's default
	fetchMin     int32 // the least that a fetch waits for, up to fetchWait; 0: the client's defaults
	fetchWait    time.Duration
	committed    bool // reads committed records only
	elsewhere    bool // subscribes to a second topic, too, and writes what succeeds to a third

	lanes   lanes
	pause   bool // a record that fails is left: its partition is paused, set back to it, and resumed after the wait
	finish  bool // on TERM it finishes the records of the poll; else it leaves them
	retries retries

	commits commits
	letters deadLetters
	log     string

	unreadable unreadable
}

// unreadable says what happens at a value that is no JSON with an id. "" does not look.
type unreadable string

const (
	pausesThere  unreadable = "pauses" // the partition is paused for good
	meetsAgain   unreadable = "again"  // the partition is set back, and its loop fails at the record again
	leavesGroup  unreadable = "leaves" // the client is closed, and the process lives on
	endsWithCode unreadable = "ends"   // the process ends with an error, without leaving its group
)

// lanes say what goes side by side within a poll.
type lanes string

const (
	byPartition lanes = "partition"
	byKey       lanes = "key"
	allAtOnce   lanes = "none"
	oneByOne    lanes = "serial"
)

type retries struct {
	attempts         int
	first, cap       time.Duration
	jitter           time.Duration
	ignoreAfter      bool // Retry-After is not looked at
	logicalIsFailure bool // business failures are dead-lettered
	skipTombstones   bool
}

// commits say when offsets are committed, and how.
type commits struct {
	each     string        // poll, record, async, marks
	interval time.Duration // of marks
	repeated bool          // what was committed is committed again with each poll
	metadata string
	noEpoch  bool
}

type deadLetters struct {
	acks    string // "" (idempotent), all, transactional
	batched bool   // those of a poll are written together
	codec   kgo.CompressionCodec
	// robin: to the partitions in turn; original: with the record's timestamp; past: with one long ago.
	robin, original, past bool
	linger                time.Duration
	own                   bool // header names of its own in place of those of "plain"
	// rekeyed: the key says where the record was; wrapped: the value is the record's behind five bytes; bare: without
	// the record's own headers.
	rekeyed, wrapped, bare bool
}

func standard() settings {
	return settings{
		members: 1, pollRecords: 100, lanes: byPartition, log: "text",
		retries: retries{attempts: 3, first: 50 * time.Millisecond, cap: 200 * time.Millisecond},
		commits: commits{each: "poll"}, letters: deadLetters{codec: kgo.NoCompression()},
	}
}

// mode is one way to behave.
type mode struct {
	name, what string
	change     func(*settings)
}

func modes() []mode {
	var all []mode
	for _, part := range [][]mode{groupModes(), readingModes(), commitModes(), deadLetterModes(), processingModes(),
		logModes()} {
		all = append(all, part...)
	}
	return all
}

func groupModes() []mode {
	balancer := func(name string, balancers ...kgo.GroupBalancer) mode {
		return mode{name, "assignment: " + name, func(s *settings) { s.balancers = balancers }}
	}
	return []mode{
		{"cooperative", "all of the client's defaults: cooperative-sticky, sessions of 45 s", func(*settings) {}},
		balancer("eager-range", kgo.RangeBalancer()), balancer("eager-round-robin", kgo.RoundRobinBalancer()),
		balancer("eager-sticky", kgo.StickyBalancer()),
		balancer("eager-or-cooperative", kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()),
		{"static", "static members, sessions of 10 s", func(s *settings) { s.static, s.session = true, 10*time.Second }},
		{"static-eager", "static members, range", func(s *settings) {
			s.static, s.session, s.balancers = true, 10*time.Second, []kgo.GroupBalancer{kgo.RangeBalancer()}
		}},
		{"kip-848", "the broker assigns", func(s *settings) {
			s.next, s.balancers = true, []kgo.GroupBalancer{kgo.StickyBalancer()}
		}},
		{"kip-848-range", "the broker assigns, by range", func(s *settings) {
			s.next, s.balancers = true, []kgo.GroupBalancer{kgo.RangeBalancer()}
		}},
		{"short-sessions", "sessions of 6 s", func(s *settings) { s.session = 6 * time.Second }},
		{"three-members", "three members in a process", func(s *settings) { s.members = 3 }},
		{"three-eager-members", "three members in a process, range", func(s *settings) {
			s.members, s.balancers = 3, []kgo.GroupBalancer{kgo.RangeBalancer()}
		}},
	}
}

func readingModes() []mode {
	return []mode{
		{"slow-start", "ready after 10 s", func(s *settings) { s.slowStart = 10 * time.Second }},
		{"small-fetches", "fetches of 16 KiB at most", func(s *settings) { s.fetchBytes = 16 << 10 }},
		{"long-polls", "fetches wait for 100 kB or 5 s", func(s *settings) {
			s.fetchMin, s.fetchWait = 100_000, 5*time.Second
		}},
		{"single-polls", "a record a poll", func(s *settings) { s.pollRecords = 1 }},
		{"read-committed", "reads committed records only", func(s *settings) { s.committed = true }},
	}
}

func commitModes() []mode {
	every := func(name string, interval time.Duration) mode {
		return mode{name, "commits every " + interval.String(), func(s *settings) {
			s.commits = commits{each: "marks", interval: interval}
		}}
	}
	return []mode{
		every("commits-every-100ms", 100*time.Millisecond), every("commits-every-5s", 5*time.Second),
		every("commits-every-30s", 30*time.Second),
		{"commits-async", "commits that are not waited for", func(s *settings) { s.commits.each = "async" }},
		{"commits-per-record", "a commit per record", func(s *settings) { s.commits.each = "record" }},
		{"commits-repeated", "the same offsets again with each poll", func(s *settings) { s.commits.repeated = true }},
		{"commits-metadata", "commits with metadata of its own", func(s *settings) {
			s.commits.metadata = `{"host":"orders-7","at":"build 1843"}`
		}},
		{"commits-no-epoch", "commits without a leader epoch", func(s *settings) { s.commits.noEpoch = true }},
	}
}

func deadLetterModes() []mode {
	codec := func(name string, codec kgo.CompressionCodec) mode {
		return mode{"letters-" + name, "letters compressed with " + name, func(s *settings) { s.letters.codec = codec }}
	}
	return []mode{
		codec("gzip", kgo.GzipCompression()), codec("snappy", kgo.SnappyCompression()), codec("lz4", kgo.Lz4Compression()),
		codec("zstd", kgo.ZstdCompression()),
		{"letters-batched", "the letters of a poll are written together", func(s *settings) { s.letters.batched = true }},
		{"letters-batched-zstd", "the letters of a poll as one zstd batch, after 50 ms", func(s *settings) {
			s.letters.batched, s.letters.codec, s.letters.linger = true, kgo.ZstdCompression(), 50*time.Millisecond
		}},
		{"letters-not-idempotent", "letters with acks=all, not idempotent", func(s *settings) { s.letters.acks = "all" }},
		{"letters-transactional", "the letters of a poll in a transaction, offsets apart", func(s *settings) {
			s.letters.acks, s.letters.batched = "transactional", true
		}},
		{"letters-round-robin", "letters to the partitions in turn", func(s *settings) { s.letters.robin = true }},
		{"letters-original-time", "letters with the time of their records", func(s *settings) { s.letters.original = true }},
		{"letters-past-time", "letters with a time long ago", func(s *settings) { s.letters.past = true }},
		{"letters-rekeyed", "the key of a letter says where its record was", func(s *settings) { s.letters.rekeyed = true }},
		{"letters-wrapped", "the value of a letter is that of its record in a frame", func(s *settings) {
			s.letters.wrapped = true
		}},
		{"letters-bare", "letters without their records' own headers", func(s *settings) { s.letters.bare = true }},
		{"letters-own-names", "headers with names of its own", func(s *settings) { s.letters.own = true }},
	}
}

func processingModes() []mode {
	return []mode{
		{"one-by-one", "one record at a time, whatever its partition", func(s *settings) {
			s.lanes, s.retries.first = oneByOne, 20*time.Millisecond
		}},
		{"by-key", "the keys of a poll side by side", func(s *settings) { s.lanes = byKey }},
		{"all-at-once", "the records of a poll side by side", func(s *settings) { s.lanes = allAtOnce }},
		{"pause-and-seek", "waits by pausing the partition and seeking back", func(s *settings) {
			// A partition that is resumed takes part in the next fetch only: none may wait for long.
			s.pause, s.fetchWait = true, 500*time.Millisecond
		}},
		{"finishes-on-term", "on TERM it finishes its poll", func(s *settings) { s.finish = true }},
		{"once", "one attempt", func(s *settings) { s.retries.attempts = 1 }},
		{"patient", "waits of 2, 4, 8 and 16 s", func(s *settings) {
			s.lanes, s.retries = allAtOnce, retries{attempts: 5, first: 2 * time.Second, cap: 16 * time.Second}
		}},
		{"jitter", "ten attempts with jitter", func(s *settings) {
			s.lanes, s.retries = byKey, retries{attempts: 10, first: 10 * time.Millisecond, cap: 80 * time.Millisecond,
				jitter: 40 * time.Millisecond}
		}},
		{"writes-elsewhere", "what succeeds is written to another topic, and it reads a second one", func(s *settings) {
			s.elsewhere = true
		}},
		{"ignores-retry-after", "does not look at Retry-After", func(s *settings) { s.retries.ignoreAfter = true }},
		{"logical-letters", "business failures are dead-lettered", func(s *settings) { s.retries.logicalIsFailure = true }},
		{"halts-partition", "a value that is no JSON pauses its partition for good", func(s *settings) {
			s.unreadable = pausesThere
		}},
		{"halts-again", "a value that is no JSON is read again and again", func(s *settings) { s.unreadable = meetsAgain }},
		{"halts-leaves", "at a value that is no JSON it leaves its group", func(s *settings) { s.unreadable = leavesGroup }},
		{"halts-ends", "at a value that is no JSON it ends with an error", func(s *settings) {
			s.unreadable, s.session = endsWithCode, 6*time.Second
		}},
		{"skips-tombstones", "tombstones are skipped", func(s *settings) { s.retries.skipTombstones = true }},
	}
}

func logModes() []mode {
	all := []mode{{"health-only", "failures show in its health alone", func(s *settings) { s.log = healthOnly }}}
	for _, format := range logFormats() {
		all = append(all, mode{"log-" + format, "its log looks like that of " + format, func(s *settings) { s.log = format }})
	}
	return all
}
