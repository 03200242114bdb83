package pgtap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// pair returns both ends of a connection.
func pair(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return accepted.(*net.TCPConn), client.(*net.TCPConn)
}

// bench is a tap whose server is the test.
func bench(t testing.TB, outcome history.Outcome) (*Tap, *events) {
	t.Helper()
	sink := &events{}
	tap, err := New(Config{
		AttemptsConfig: workload.AttemptsConfig{
			Plan: &plan.Plan{Records: []plan.Record{{Outcome: outcome, Failures: 1}}}, IDs: history.NewIDs("run"), Instances: 1,
			Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: sink,
		},
		URL: "postgres://a@127.0.0.1:1/a?sslmode=disable", Log: zerolog.Nop(),
		Errors: map[history.Outcome]Error{history.OutcomeTransient: {SQLState: "40001"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tap, sink
}

func encoded(t testing.TB, messages ...interface{ Encode([]byte) ([]byte, error) }) []byte {
	t.Helper()
	var all []byte
	for _, one := range messages {
		var err error
		if all, err = one.Encode(all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// FuzzSession sends any bytes from both sides. Nothing panics or hangs, every attempt that begins ends, and what is
// planned to succeed is forwarded as it came, up to what is malformed.
func FuzzSession(f *testing.F) {
	id := history.NewIDs("run").Token(0)
	asked := encoded(f, &pgproto3.Parse{Name: "a", Query: "INSERT INTO orders VALUES ($1)"},
		&pgproto3.Bind{PreparedStatement: "a", Parameters: [][]byte{[]byte(id)}}, &pgproto3.Execute{}, &pgproto3.Sync{},
		&pgproto3.Query{String: "UPDATE orders SET id = '" + id + "'"}, &pgproto3.Terminate{})
	answered := encoded(f, &pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}},
		&pgproto3.ReadyForQuery{TxStatus: 'I'}, &pgproto3.ParseComplete{}, &pgproto3.BindComplete{},
		&pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'},
		&pgproto3.ErrorResponse{Code: "40P01", Message: "deadlock"}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	f.Add([]byte("B\x00\x00\x00\x05\x00"), []byte("E\x00\x00\x00\x05S"), uint8(0))
	f.Add([]byte("Q\x00\x00\x00\x00"), []byte("Z\x00\x00\x00\x04"), uint8(0))
	copies := encoded(f, &pgproto3.Query{String: "BEGIN; SAVEPOINT a"}, &pgproto3.Query{String: "COPY orders FROM STDIN"},
		&pgproto3.CopyData{Data: []byte(id)}, &pgproto3.CopyDone{}, &pgproto3.Query{String: "COMMIT"})
	for outcome := range uint8(4) {
		f.Add(asked, answered, outcome)
		f.Add(copies, answered, outcome)
	}
	f.Add([]byte("Q\x7f\xff\xff\xff"), []byte("C\xff\xff\xff\xff"), uint8(0))
	f.Fuzz(func(t *testing.T, asked, answered []byte, outcome uint8) {
		planned := history.OutcomeSuccess
		if outcome%2 == 1 {
			planned = history.OutcomeTransient
		}
		tap, sink := bench(t, planned)
		tap.cfg.Batch = outcome%4 > 1
		defer tap.Close()
		client, subject := pair(t)
		server, database := pair(t)
		s := &session{tap: tap, client: workload.NewConn(client, 0, 0), server: server}
		s.idle.L = &s.mu
		received := make(chan []byte, 1)
		go func() {
			database.Write(answered)
			database.CloseWrite()
			all, _ := io.ReadAll(database)
			received <- all
		}()
		go func() { subject.Write(asked); subject.CloseWrite() }()
		go io.Copy(io.Discard, subject)
		done := make(chan struct{})
		go func() { s.forward(bufio.NewReaderSize(client, bufferSize)); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("it hangs")
		}
		s.close()
		got := <-received
		subject.Close()
		database.Close()
		if planned == history.OutcomeSuccess && !bytes.HasPrefix(asked, got) {
			t.Errorf("%x became %x", asked, got)
		}
		if tap.InFlight() != 0 {
			t.Errorf("%d attempts are open after %q", tap.InFlight(), sink.told())
		}
	})
}

// FuzzStart reads any bytes as the beginning of a connection.
func FuzzStart(f *testing.F) {
	startup := encoded(f, &pgproto3.StartupMessage{ProtocolVersion: 196608, Parameters: map[string]string{"user": "a"}})
	f.Add(startup)
	f.Add(append(encoded(f, &pgproto3.SSLRequest{}, &pgproto3.GSSEncRequest{}), startup...))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01\x00\x01"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 8 && bytes.Contains(data, binary.BigEndian.AppendUint32(nil, codeCancel)) {
			return // it would connect to the server
		}
		tap, _ := bench(t, history.OutcomeSuccess)
		defer tap.Close()
		client, subject := pair(t)
		defer subject.Close()
		s := &session{tap: tap, client: workload.NewConn(client, 0, 0)}
		s.idle.L = &s.mu
		defer s.close()
		packet, err := s.start(bufio.NewReader(bytes.NewReader(data)))
		if err == nil && (len(packet) < 8 || len(packet) > maxStartup || !bytes.Contains(data, packet)) {
			t.Errorf("%x was read as %x", data, packet)
		}
		if err == nil {
			replicates(packet)
		}
	})
}

// FuzzStatement describes any text, and finds an id wherever it stands in it.
func FuzzStatement(f *testing.F) {
	f.Add("INSERT INTO orders VALUES ('", "')")
	f.Add("/* a */ SELECT '\\x", "'")
	f.Add("-- \x00", ";;(((")
	f.Fuzz(func(t *testing.T, before, after string) {
		tap, _ := bench(t, history.OutcomeSuccess)
		defer tap.Close()
		id := tap.cfg.IDs.Token(0)
		got := tap.described([]byte(before + id + after))
		if !slices.Equal(got.records, []int32{0}) {
			t.Errorf("there is no id in %q", before+id+after)
		}
		if strings.Contains(got.told, id) || len(got.told) > 4*toldText || strings.ContainsAny(got.told, "\x00\n") {
			t.Errorf("told as %q", got.told)
		}
	})
}
