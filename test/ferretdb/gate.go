package ferretdb

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// gate is a proxy that lets one MongoDB command through at a time: the next is sent when the one before was answered.
type gate struct {
	listener net.Listener
	upstream string
	turn     sync.Mutex // held from sending a command until its answer is read
	serving  sync.WaitGroup
	// before is called with each command before it is sent, unless it is nil.
	before func(command []byte)

	lock   sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func openGate(upstream string, before func(command []byte)) (*gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the gate before FerretDB: %w", err)
	}
	opened := &gate{listener: listener, upstream: upstream, before: before, open: map[net.Conn]bool{}}
	opened.serving.Go(opened.accept)
	return opened, nil
}

func (g *gate) address() string { return g.listener.Addr().String() }

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		if !g.track(client) {
			client.Close()
			return
		}
		g.serving.Go(func() {
			defer g.untrack(client)
			g.serve(client)
		})
	}
}

func (g *gate) serve(client net.Conn) {
	server, err := net.Dial("tcp", g.upstream)
	if err != nil {
		return // the client sees its connection closed
	}
	if !g.track(server) {
		server.Close()
		return
	}
	defer g.untrack(server)
	for {
		command, err := readMessage(client)
		if err != nil {
			return
		}
		if g.before != nil {
			g.before(command)
		}
		answer, err := g.exchange(server, command)
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// exchange sends a command and returns the answer, with nobody else's command between the two; a command that wants no
// answer has none.
func (g *gate) exchange(server net.Conn, command []byte) ([]byte, error) {
	g.turn.Lock()
	defer g.turn.Unlock()
	if _, err := server.Write(command); err != nil {
		return nil, err
	}
	if wantsNoAnswer(command) {
		return nil, nil
	}
	return readMessage(server)
}

// The wire protocol's header: length, request id, answered id and operation, four bytes each, little-endian; an
// OP_MSG's flags follow.
const (
	headerBytes  = 16
	opMsg        = 2013
	flagMoreTo   = 1 << 1     // moreToCome: the sender awaits no answer
	longestBytes = 48_000_000 // maxMessageSizeBytes
)

func readMessage(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	bytes := binary.LittleEndian.Uint32(length[:])
	if bytes < headerBytes || bytes > longestBytes {
		return nil, fmt.Errorf("a message of %d bytes: MongoDB's have %d to %d", bytes, headerBytes, longestBytes)
	}
	message := make([]byte, bytes)
	copy(message, length[:])
	if _, err := io.ReadFull(from, message[len(length):]); err != nil {
		return nil, err
	}
	return message, nil
}

func wantsNoAnswer(message []byte) bool {
	return len(message) >= headerBytes+4 &&
		binary.LittleEndian.Uint32(message[12:]) == opMsg && binary.LittleEndian.Uint32(message[headerBytes:])&flagMoreTo != 0
}

func (g *gate) track(conn net.Conn) bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	if !g.closed {
		g.open[conn] = true
	}
	return !g.closed
}

func (g *gate) untrack(conn net.Conn) {
	g.lock.Lock()
	defer g.lock.Unlock()
	delete(g.open, conn)
	conn.Close()
}

// close ends every connection and waits for those that served them.
func (g *gate) close() error {
	g.lock.Lock()
	g.closed = true
	err := closedOK(g.listener.Close())
	for conn := range g.open {
		conn.Close()
	}
	g.lock.Unlock()
	g.serving.Wait()
	return err
}
