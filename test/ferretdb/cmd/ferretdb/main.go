// Command ferretdb starts FerretDB behind its gate on 127.0.0.1, prints the URL as one line, and ends when its standard
// input is closed (so with its parent), or by an interrupt or a termination signal. Its databases are in the folder
// that is named, or in one of its own that is removed at the end.
//
//	ferretdb [FOLDER]
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/dlqbench/dlqbench/test/ferretdb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	folder, remove, err := folderOf(args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	server, err := ferretdb.Start(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Println(server.URL())
	return waitForEnd()
}

func folderOf(args []string) (folder string, remove func() error, err error) {
	switch len(args) {
	case 0:
		folder, err = os.MkdirTemp("", "ferretdb-")
		return folder, func() error { return os.RemoveAll(folder) }, err
	case 1:
		return args[0], func() error { return nil }, os.MkdirAll(args[0], 0o700)
	default:
		return "", nil, fmt.Errorf("one folder at most, got %q", args)
	}
}

func waitForEnd() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	closed := make(chan error, 1)
	go func() { // ends with the process at the latest: a read of standard input can't be called off
		_, err := io.Copy(io.Discard, os.Stdin)
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-signals:
		return nil
	}
}
