// Package ferretdb owns a MongoDB-compatible server for tests: FerretDB v1 on SQLite files, inside the process that
// asks for it, on 127.0.0.1. It knows nothing of dead letters.
//
// FerretDB v1 carries findAndModify and update out as a read and a later write of the whole document, with nothing
// between them that would notice another client (its handler's msg_findandmodify.go, its SQLite backend's UpdateAll).
// Two clients then both "win" one compare-and-set: of 200 races of 8 workers for one document, 189 had more than one
// winner. MongoDB promises that a change of one document is atomic, and stores rely on it. So a gate stands before the
// server and lets one command through at a time, which gives that promise back. StartUngated leaves it out, to show
// what it is for.
package ferretdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// Server is a running FerretDB.
type Server struct {
	url    string
	gate   *gate
	cancel context.CancelFunc
	done   chan error
}

// Start starts a server whose databases are files in the folder, behind the gate. Close ends it.
func Start(folder string) (*Server, error) {
	server, err := StartUngated(folder)
	if err != nil {
		return nil, err
	}
	behind, err := url.Parse(server.url)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading FerretDB's address: %w", err), server.Close())
	}
	if server.gate, err = openGate(behind.Host, nil); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	server.url = "mongodb://" + server.gate.address() + "/"
	return server, nil
}

// StartUngated starts a server as FerretDB is: no compare-and-set on it is atomic.
func StartUngated(folder string) (*Server, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("finding FerretDB's folder: %w", err)
	}
	embedded, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		// No test takes the power away: nobody needs to wait for the disk.
		Handler: "sqlite", SQLiteURL: "file:" + filepath.ToSlash(absolute) + "/?_pragma=synchronous(off)",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("starting FerretDB: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &Server{cancel: cancel, done: make(chan error, 1)}
	go func() { server.done <- embedded.Run(ctx) }()
	server.url = embedded.MongoDBURI() // waits until Run has opened the port
	return server, nil
}

// URL is the server's address, as a MongoDB client takes it.
func (s *Server) URL() string { return s.url }

// Close ends the server and every connection to it.
func (s *Server) Close() error {
	var err error
	if s.gate != nil {
		err = s.gate.close()
	}
	s.cancel()
	return errors.Join(err, <-s.done)
}

// closedOK is the error of closing, or of using, a connection, without the one that says it is closed already.
func closedOK(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
