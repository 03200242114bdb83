package memconn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/env/memconn"
)

func TestAConnectionDoesWhatPackageNetPromises(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		listener := memconn.NewListener()
		near := make(chan net.Conn, 1)
		go func() {
			conn, _ := listener.Connect(context.Background())
			near <- conn
		}()
		far, err := listener.Accept()
		c1 := <-near
		return c1, far, func() { c1.Close(); far.Close(); listener.Close() }, err
	})
}

// duplex is a connection with the parts that TCP has.
type duplex interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

// TestConnectionsEndAsOnTCP does the same with a connection within the process and with one over loopback, and compares
// what the peer sees.
func TestConnectionsEndAsOnTCP(t *testing.T) {
	type ends struct{ near, far duplex }
	makers := map[string]func(t *testing.T) ends{
		"memory": func(*testing.T) ends {
			near, far := memconn.Pair()
			return ends{near, far}
		},
		"tcp": func(t *testing.T) ends {
			listener, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			near, err := net.Dial("tcp4", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			far, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return ends{near.(duplex), far.(duplex)}
		},
	}
	for _, c := range []struct {
		name string
		do   func(near, far duplex)
		read string // what the far end reads
		ends error  // and how that ends
	}{
		{"the data arrives before a regular end", func(near, _ duplex) {
			_, _ = near.Write([]byte("hello"))
			_ = near.Close()
		}, "hello", io.EOF},
		{"a direction ends by itself", func(near, _ duplex) {
			_, _ = near.Write([]byte("bye"))
			_ = near.CloseWrite()
		}, "bye", io.EOF},
		{"without lingering it is a reset", func(near, _ duplex) {
			_ = near.SetLinger(0)
			_ = near.Close()
		}, "", syscall.ECONNRESET},
		{"a reset after the direction has ended", func(near, far duplex) {
			_, _ = near.Write([]byte("bye"))
			_ = near.CloseWrite()
			_, _ = io.ReadFull(far, make([]byte, 3))
			_ = near.SetLinger(0)
			_ = near.Close()
		}, "", io.EOF}, // the end was there before the reset
		{"what was not read makes it a reset", func(near, far duplex) {
			_, _ = far.Write([]byte("unread"))
			_ = near.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.ReadFull(near, make([]byte, 2)) // all of it is there now
			_ = near.Close()
		}, "", syscall.ECONNRESET},
	} {
		for kind, made := range makers {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				pair := made(t)
				defer pair.near.Close()
				defer pair.far.Close()
				c.do(pair.near, pair.far)
				_ = pair.far.SetReadDeadline(time.Now().Add(5 * time.Second))
				var got bytes.Buffer
				_, err := got.ReadFrom(pair.far)
				if err == nil {
					err = io.EOF
				}
				if got.String() != c.read || !errors.Is(err, c.ends) {
					t.Errorf("the peer read %q and then %v, want %q and %v", got.String(), err, c.read, c.ends)
				}
			})
		}
	}
}

func TestWritingFailsWhenThePeerIsGone(t *testing.T) {
	near, far := memconn.Pair()
	_ = far.Close()
	if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want %v", err, syscall.EPIPE)
	}
	_ = near.Close()
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after closing: got %v, want %v", err, net.ErrClosed)
	}
	if err := near.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again: got %v, want %v", err, net.ErrClosed)
	}
}

// A writer must wait for a reader: a slow consumer must not fill the memory of this process.
func TestWritingWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := memconn.Pair()
		defer near.Close()
		defer far.Close()
		_ = near.SetWriteDeadline(time.Now().Add(time.Second))
		written, err := near.Write(make([]byte, 1<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || written != 256<<10 {
			t.Fatalf("wrote %d bytes that nobody reads (%v), want 262144 and a deadline", written, err)
		}
		_ = near.SetWriteDeadline(time.Time{})
		go func() {
			_, _ = near.Write(make([]byte, 1<<20))
			_ = near.CloseWrite()
		}()
		synctest.Wait()
		if n, err := io.Copy(io.Discard, far); n != 1<<20+256<<10 || err != nil {
			t.Errorf("read %d bytes (%v), want %d", n, err, 1<<20+256<<10)
		}
	})
}

// TestNothingIsLostOrMixedUp writes and reads in pieces of any size: the buffer grows, is full and empty, and begins
// again in its middle.
func TestNothingIsLostOrMixedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near, far := memconn.Pair()
		written, read := 0, 0
		piece := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(1, 40<<10))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			data := make([]byte, min(piece.Draw(t, "write"), 256<<10-(written-read))) // what is free
			for i := range data {
				data[i] = sample(written + i)
			}
			if n, err := near.Write(data); n != len(data) || err != nil {
				t.Fatalf("wrote %d of %d bytes: %v", n, len(data), err)
			}
			if written += len(data); written == read {
				continue
			}
			got := make([]byte, piece.Draw(t, "read"))
			n, err := far.Read(got)
			if want := min(len(got), written-read); n != want || err != nil {
				t.Fatalf("read %d of %d bytes: %v", n, want, err)
			}
			for i, b := range got[:n] {
				if b != sample(read+i) {
					t.Fatalf("byte %d is another one", read+i)
				}
			}
			read += n
		}
	})
}

// sample is the byte at a place of a stream. Its period is a prime.
func sample(at int) byte { return byte(at % 251) }

func TestAClosedListenerRefuses(t *testing.T) {
	listener := memconn.NewListener()
	_ = listener.Close()
	_ = listener.Close()
	if _, err := listener.Connect(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("connecting: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting: got %v, want %v", err, net.ErrClosed)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := memconn.NewListener().Connect(over); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts: got %v, want %v", err, context.Canceled)
	}
}
