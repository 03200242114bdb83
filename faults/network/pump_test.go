package network

import (
	"io"
	"net"
	"testing"
)

// A link with bulk data reads ever larger pieces, but while a fault holds data back the pieces are small again,
// because a line holds many of them.
func TestPiecesAreSmallWhileAFaultIsInForce(t *testing.T) {
	link := newTestLink(t, serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }))
	conn := dial(t, link)
	const bulk = 8 << 20
	for _, impede := range []bool{false, true} {
		sink, heal := &effects{}, func() {}
		if impede {
			sink, heal = inject(t, Network{Latency: oneMs}, link)
		}
		if _, err := conn.Write(make([]byte, bulk)); err != nil {
			t.Fatal(err)
		}
		if !impede {
			continue
		}
		_ = conn.CloseWrite()
		_ = conn.ends()
		heal()
		// The read in progress when the fault started may still return a large piece.
		if got := sink.counts["bytes delayed"]; got < (bulk-largeRead)/smallRead {
			t.Errorf("%d bytes were delayed in %d pieces, want pieces of at most %d", sink.aux["bytes delayed"], got, smallRead)
		}
	}
}

func TestBuffersGrowToTheirBound(t *testing.T) {
	buffer := make([]byte, smallRead)
	for want := 2 * smallRead; want <= largeRead; want *= 2 {
		if buffer = wider(buffer); len(buffer) != want {
			t.Fatalf("a buffer of %d bytes, want %d", len(buffer), want)
		}
	}
	last := buffer
	if buffer = wider(buffer[:smallRead]); len(buffer) != 2*smallRead || &buffer[0] != &last[0] {
		t.Errorf("after a fault a buffer of %d bytes is made anew", len(buffer))
	}
	if buffer = wider(last); len(buffer) != largeRead || &buffer[0] != &last[0] {
		t.Errorf("a buffer of %d bytes, want the same of %d", len(buffer), largeRead)
	}
}
