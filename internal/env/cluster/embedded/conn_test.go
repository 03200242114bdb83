package embedded

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// rawConn uses the protocol in a version of its choice.
type rawConn struct {
	net.Conn
	formatter *kmsg.RequestFormatter
}

func dialRaw(t *testing.T, address string) rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	return newRawConn(t, conn, err)
}

// connectInside does so without a socket.
func connectInside(t *testing.T, e *Kafka, id int32) rawConn {
	t.Helper()
	conn, err := e.Connect(t.Context(), id)
	return newRawConn(t, conn, err)
}

func newRawConn(t *testing.T, conn net.Conn, err error) rawConn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return rawConn{conn, kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
}

func (c rawConn) request(t *testing.T, request kmsg.Request, version int16) kmsg.Response {
	t.Helper()
	c.send(t, request, version)
	return c.receive(t, request)
}

func (c rawConn) send(t *testing.T, request kmsg.Request, version int16) {
	t.Helper()
	request.SetVersion(version)
	must.Get(c.Write(c.formatter.AppendRequest(nil, request, 7)))(t)
}

func (c rawConn) receive(t *testing.T, request kmsg.Request) kmsg.Response {
	t.Helper()
	size := make([]byte, 4)
	must.Get(io.ReadFull(c, size))(t)
	frame := make([]byte, binary.BigEndian.Uint32(size))
	must.Get(io.ReadFull(c, frame))(t)
	response := request.ResponseKind()
	start := 4
	if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
		start++
	}
	must.Do(t, response.ReadFrom(frame[start:]))
	return response
}

// However the stream is split into reads, exactly the requests whose answers are to be edited or waited for are
// noted, in order.
func TestFollowIsIndifferentToCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("x"))
		keys := rapid.SliceOfN(rapid.SampledFrom([]kmsg.Key{
			kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.Produce, kmsg.Heartbeat,
			kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup, kmsg.ApiVersions,
		}), 0, 12).Draw(t, "keys")
		var stream []byte
		var want []int32
		for i, key := range keys {
			request := kmsg.RequestForKey(int16(key))
			request.SetVersion(rapid.Int16Range(0, request.MaxVersion()).Draw(t, "version"))
			if find, ok := request.(*kmsg.FindCoordinatorRequest); ok {
				find.CoordinatorKey = "group"
			}
			stream = append(stream, formatter.AppendRequest(nil, request, int32(i))...)
			switch key {
			case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.JoinGroup, kmsg.SyncGroup:
				want = append(want, int32(i))
			case kmsg.ApiVersions:
				if request.GetVersion() == 3 {
					want = append(want, int32(i))
				}
			}
		}
		c := newBrokerConn(nil, &gate{parked: newParkedRequests()})
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			c.follow(stream[:n])
			stream = stream[n:]
		}
		if len(c.pending) != len(want) {
			t.Fatalf("noted %d requests, want %d", len(c.pending), len(want))
		}
		for i, answer := range c.pending {
			if answer.correlation != want[i] || answer.key != int16(keys[want[i]]) {
				t.Fatalf("noted request %d with key %d, want %d with key %d", answer.correlation, answer.key, want[i],
					keys[want[i]])
			}
			if answer.key == int16(kmsg.FindCoordinator) && answer.request.GetVersion() <= 3 &&
				answer.request.(*kmsg.FindCoordinatorRequest).CoordinatorKey != "group" {
				t.Fatalf("the key asked for is lost")
			}
			if waits := answer.key == int16(kmsg.JoinGroup) ||
				answer.key == int16(kmsg.SyncGroup); waits != (answer.parked != nil) {
				t.Fatalf("request with key %d: parked %v", answer.key, answer.parked)
			}
		}
	})
}

// For any input from a client, following it neither panics nor keeps more than one request.
func FuzzFollow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8, 0, 3, 0, 1, 0, 0, 0, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 10, 0, 1, 0, 0, 0, 1, 9, 9})
	f.Add([]byte{0, 0, 0, 9, 0, 10, 0, 1, 0, 0, 0, 1, 9})
	// kmsg reads as many tags as a request claims to have, even if there are no bytes left (up to 2^32, which takes a
	// minute and a half), and kfake decodes every request with it. The time for such a claim says nothing about follow.
	f.Fuzz(func(t *testing.T, stream []byte) {
		if claimsManyTags(stream) {
			t.Skip("it may claim to have more than 2^28 tags")
		}
		c := newBrokerConn(nil, &gate{parked: newParkedRequests()})
		c.follow(stream)
		if c.have > len(c.head) || len(c.body) > len(stream) {
			t.Fatalf("kept %d and %d bytes of %d", c.have, len(c.body), len(stream))
		}
		for _, answer := range c.pending {
			if answer.key == int16(kmsg.FindCoordinator) && answer.request == nil {
				t.Fatal("noted a request that could not be decoded")
			}
		}
	})
}

// claimsManyTags reports whether the stream has a complete request that follow decodes by a version with tags, and in
// it a varint of 2^28 or more: five bytes, of which four go on. It may be a length, which kmsg checks.
func claimsManyTags(stream []byte) bool {
	for len(stream) >= 12 {
		size, key := int32(binary.BigEndian.Uint32(stream)), int16(binary.BigEndian.Uint16(stream[4:]))
		version := int16(binary.BigEndian.Uint16(stream[6:]))
		if size < 8 || int(size) > len(stream)-4 {
			return false
		}
		body := stream[12 : 4+size]
		stream = stream[4+size:]
		if kept(key) && taggedVersion(key, version) && hasLongVarint(body) {
			return true
		}
	}
	return false
}

func taggedVersion(key, version int16) bool {
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	return request.IsFlexible()
}

func hasLongVarint(body []byte) bool {
	for i := 4; i < len(body); i++ {
		goesOn := body[i-4]&body[i-3]&body[i-2]&body[i-1]&0x80 != 0
		if goesOn && body[i] > 0 && body[i] < 0x10 {
			return true
		}
	}
	return false
}

// TestFollowWithoutManyTags checks which streams FuzzFollow skips. It follows those whose claim is harmless, among them
// a claim of coordinators, which FuzzFollow takes for one of tags.
func TestFollowWithoutManyTags(t *testing.T) {
	const claim = "\xff\xff\xff\xff\x0f"
	for name, one := range map[string]struct {
		stream          string
		skipped, broken bool
	}{
		"coordinators without end": {"\x00\x00\x00\x14\x00\x0a\x00\x04\x00\x00\x00\x01\x00\x01c\x00\x00" + claim +
			"\x00\x00", true, false},
		"a version without tags": {"\x00\x00\x00\x12\x00\x0a\x00\x01\x00\x00\x00\x01\x00\x01c" + claim + "\x00\x00",
			false, true},
		"a request that is not read": {"\x00\x00\x00\x0d\x00\x03\x00\x09\x00\x00\x00\x01" + claim, false, false},
		"a request without its end": {"\x00\x00\x00\x20\x00\x0a\x00\x04\x00\x00\x00\x01\x00\x01c" + claim, false,
			false},
	} {
		if got := claimsManyTags([]byte(one.stream)); got != one.skipped {
			t.Errorf("%s: skipped is %v, want %v", name, got, one.skipped)
		}
		c := newBrokerConn(nil, &gate{parked: newParkedRequests()})
		c.follow([]byte(one.stream))
		if c.broken != one.broken {
			t.Errorf("%s: broken is %v, want %v", name, c.broken, one.broken)
		}
	}
	const before = "\x00\x00\x00\x08\x00\x03\x00\x01\x00\x00\x00\x01"
	const tags = "\x00\x00\x00\x14\x00\x0a\x00\x04\x00d\x00\x01\x00\x01c\x00\x00\x00" + claim + "\x00\x00"
	if !claimsManyTags([]byte(tags)) || !claimsManyTags([]byte(before+tags)) {
		t.Error("a claim of many tags is not skipped")
	}
}
