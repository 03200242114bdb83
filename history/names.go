package history

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file defines the words for kinds and flags in the files, so that a history can be read in DuckDB or pandas
// without this package. Every value has its own word, including unknown ones, so each value is read back as it was
// recorded.

// kindName returns the kind's word, "" if it has none.
func kindName(k Kind) string {
	names := [...]string{
		KindUnknown: "unknown", KindPhase: "phase", KindStall: "stall", KindSend: "send", KindAcked: "acked",
		KindFetched: "fetched", KindAssigned: "assigned", KindRevoked: "revoked",
		KindCommitRequest: "commit-request", KindCommitResponse: "commit-response",
		KindProduceRequest: "produce-request", KindProduceResponse: "produce-response",
		KindTxnEndRequest: "txn-end-request", KindTxnEndResponse: "txn-end-response",
		KindAttemptStart: "attempt-start", KindAttemptEnd: "attempt-end",
		KindInstanceStarting: "instance-starting", KindInstanceReady: "instance-ready",
		KindInstanceSignal: "instance-signal", KindInstanceExited: "instance-exited", KindSubjectError: "subject-error",
		KindFaultStart: "fault-start", KindFaultEffect: "fault-effect", KindFaultEnd: "fault-end",
		KindAuditRecord: "audit-record", KindAuditStart: "audit-start", KindAuditOffsets: "audit-offsets",
		KindReplaySelected: "replay-selected", KindSample: "sample", KindFetching: "fetching",
		KindShareAcquired: "share-acquired", KindShareAckRequest: "share-ack-request",
		KindShareAckResponse: "share-ack-response", KindShareSessionEnd: "share-session-end",
		KindStoreChange: "store-change", KindStoreClock: "store-clock", KindStoreWatch: "store-watch",
		KindStoreEntry: "store-entry", KindStoreAudited: "store-audited", KindStoreProbe: "store-probe",
		KindSubjectLog: "subject-log", KindSubjectHealth: "subject-health", KindUnreadable: "unreadable",
		KindJoining: "joining", KindMembership: "membership", KindEffectsRead: "effects-read", KindEffect: "effect",
		KindCallStart: "call-start", KindCallEnd: "call-end",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return ""
}

// String returns the kind's word ("commit-request"), or "kind(N)" for a kind that this version does not know.
func (k Kind) String() string {
	if name := kindName(k); name != "" {
		return name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// flagName returns the word of the flag with this bit number, "" if there is none.
func flagName(bit int) string {
	names := [...]string{
		"tombstone", "garbage", "warm-up", "in-transaction", "withheld", "forged", "client-gone", "expected",
		"failure-headers", "polled", "repeated", "refusable", "other-group", "not-librdkafka", "marker", "unreplicated",
		"unanswered",
	}
	if bit < len(names) {
		return names[bit]
	}
	return ""
}

// String returns the words of the flags that are set, comma-separated, or "" if none is set. A bit that this version
// does not know is "bit N".
func (f Flags) String() string {
	var words []string
	for bit := range 32 {
		if f&(1<<bit) == 0 {
			continue
		}
		word := flagName(bit)
		if word == "" {
			word = unnamedFlag(bit)
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}

func unnamedFlag(bit int) string { return "bit " + strconv.Itoa(bit) }

// vocabulary translates the words of a segment back to values.
type vocabulary struct {
	kinds    map[string]Kind
	outcomes map[string]Outcome
	flags    map[string]Flags
}

func newVocabulary() *vocabulary {
	v := &vocabulary{kinds: map[string]Kind{}, outcomes: map[string]Outcome{}, flags: map[string]Flags{}}
	for i := range 256 {
		v.kinds[Kind(i).String()] = Kind(i)
		v.outcomes[Outcome(i).String()] = Outcome(i)
	}
	for bit := range 32 {
		v.flags[Flags(1<<bit).String()], v.flags[unnamedFlag(bit)] = 1<<bit, 1<<bit // a later version may name it
	}
	return v
}

func (v *vocabulary) parseFlags(words string) (Flags, error) {
	var all Flags
	if words == "" {
		return 0, nil
	}
	for word := range strings.SplitSeq(words, ",") {
		flag, known := v.flags[word]
		if !known {
			return 0, fmt.Errorf("%q is no flag", word)
		}
		all |= flag
	}
	return all, nil
}

// bytesMark is the prefix of a text that had to be escaped.
const bytesMark = `bytes:"`

// encodeText converts any bytes to text that every Parquet reader accepts: string columns must be UTF-8, and some
// readers end a string at a NUL. UTF-8 text without NUL is unchanged. Everything else is written like a Go string
// literal after "bytes:".
func encodeText(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 && !strings.HasPrefix(text, bytesMark) {
		return text
	}
	return bytesMark[:len(bytesMark)-1] + strconv.Quote(text)
}

// decodeText reverses encodeText.
func decodeText(text string) (string, error) {
	if !strings.HasPrefix(text, bytesMark) {
		return text, nil
	}
	raw, err := strconv.Unquote(text[len(bytesMark)-1:])
	if err != nil {
		return "", fmt.Errorf("reading the escaped text %.40q: %w", text, err)
	}
	return raw, nil
}
