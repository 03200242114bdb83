package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/security"
	"github.com/dlqbench/dlqbench/scenarios"
)

// called is a downstream: what the subject's instances call while they process a record. Each call with a record's id
// is an attempt, answered as planned or as faults say, and recorded. Its connections are attributed to an instance by
// the address they arrive at, before which there is a link.
type called interface {
	downstream.Stub
	reached
	attempted
	missed
}

// reached is a downstream as its instances reach it.
type reached interface {
	// Upstream is where the link of an instance leads.
	Upstream(instance int) network.Upstream
	// Tell puts into the instance's values how it calls the downstream over its link's address, host:port, unless another
	// one of its kind did. It returns the URL.
	Tell(values *scenarios.Values, address string) string
	// Close ends it, with every connection.
	io.Closer
}

// attempted is a downstream as its attempts are recorded.
type attempted interface {
	// SetRun sets the process of an instance that is about to start.
	SetRun(instance int, run uint16)
	// SetReplayed says that a record's dead letter is about to be replayed.
	SetReplayed(record int32)
	// InFlight returns the number of attempts that have begun and not ended.
	InFlight() int64
}

// missed is a downstream as its calls that are no attempts are told.
type missed interface {
	// Unmade reports whether no attempt at any record was seen, although calls can name records.
	Unmade() bool
	// Strays says which calls were no attempts of a known record although they should be, and what to do; "" for none.
	Strays() (why, do string)
}

// stub is the downstream stub, over HTTP or gRPC.
type stub struct {
	*workload.Stub
	scheme string
	usual  bool // the subject does not describe its calls
	// letters: its calls are dead letters.
	letters bool
}

// Upstream implements called.
func (s stub) Upstream(instance int) network.Upstream {
	return network.Upstream{Address: s.Addr(instance), Inside: func(ctx context.Context) (*memconn.Conn, error) {
		return s.Connect(ctx, instance)
	}}
}

// Tell implements called.
func (s stub) Tell(values *scenarios.Values, address string) string {
	url := s.scheme + address
	values.OracleURL = cmp.Or(values.OracleURL, url)
	return url
}

// Strays implements called.
func (s stub) Strays() (why, do string) {
	const trust = "have the service trust {{.CAFile}}, by the settings of its client, and call https://"
	if count := s.Secured(); count > 0 {
		return fmt.Sprintf("%d connections began with TLS", count), "write tls: true under this downstream in " +
			"subject.yaml, and have the service trust {{.CAFile}}, or give it an address without TLS"
	}
	if count, first := s.Handshakes(); count > 0 {
		return fmt.Sprintf("%d connections failed in the TLS handshake, the first of them with %q", count, first), trust
	}
	if count := s.Unused(); count > 0 {
		return fmt.Sprintf("%d connections by TLS were closed without a call", count), trust
	}
	if count, first := s.Unforwarded(); count > 0 {
		return fmt.Sprintf("%d calls could not go on to the stub that forward names, and were answered 502: %s", count,
			first), "correct that address"
	}
	if first, last := s.Missing(); first || last {
		return fmt.Sprintf("no call with a record's id was the %s one of an attempt",
			map[bool]string{true: "first", false: "last"}[first]), "correct what subject.yaml says of it"
	}
	switch count, first := s.Stub.Strays(); {
	case count == 0 || s.usual && !s.Unmade():
		return "", ""
	case s.usual:
		return fmt.Sprintf("%d calls were answered 404, the first of them %s, and none was an attempt", count, first),
			"have the consumer make each attempt with POST /v1/attempt and the record's value as the body, or say under " +
				"downstreams in subject.yaml what it calls"
	default:
		do = "if they are none of a record, give them an answer under routes in subject.yaml"
		if s.letters {
			do = giveID + "; " + do
		}
		return fmt.Sprintf("%d calls without a record's id were answered 404, the first of them %s", count, first), do
	}
}

// giveID says what to do if dead letters can't be told.
const giveID = "have each dead letter carry the record's value, or the field of it with the id"

// Close implements called.
func (s stub) Close() error {
	s.Stub.Close()
	return nil
}

// openDownstream starts a downstream that the subject declares. other is its number among those that do not decide, 0
// for the one that does.
func (r *run) openDownstream(ctx context.Context, spec scenarios.Downstream, other int) (called, error) {
	attempts := r.attemptsConfig()
	attempts.Other = other
	if name := r.lettersAt(); name != "" && name == spec.Called() {
		r.letters = newLetters(r.live, r.clock, r.topicsOf(history.RoleDLQ)[0], spec.Postgres != nil)
		attempts.Letters, attempts.Sink = true, r.letters
	}
	switch {
	case spec.Kafka != nil:
		one := newOutputTopic(attempts, &r.header, spec.Kafka.Topic, spec.Kafka.Codes())
		r.outputs = append(r.outputs, one)
		return one, nil
	case spec.Postgres != nil:
		return r.openPostgres(ctx, spec.Postgres, attempts)
	}
	config := workload.StubConfig{AttemptsConfig: attempts, Topics: r.header.Topics}
	scheme := "http://"
	if spec.Secure() {
		if err := r.makeAuthority(); err != nil {
			return nil, err
		}
		config.TLS, scheme = r.authority.Server, "https://"
	}
	config.Observe = r.options.Discovery.observer(spec.Called())
	if spec.GRPC != nil {
		config.RPC, scheme = rpc(r.ids, spec.GRPC), ""
	} else {
		config.Calls = calls(spec.HTTP)
	}
	one, err := workload.NewStub(config)
	return stub{one, scheme, config.Calls == nil && config.RPC == nil, attempts.Letters}, err
}

// makeAuthority makes the authority that signs the certificates of downstreams, and writes its certificate for the
// subject. There is one in a run.
func (r *run) makeAuthority() error {
	if r.authority != nil {
		return nil
	}
	folder, err := filepath.Abs(r.dir.file(dirAuthority))
	if err != nil {
		return fmt.Errorf("finding the folder of the certificate authority: %w", err)
	}
	if r.authority, err = security.NewAuthority("dlqbench " + r.dir.id); err != nil {
		return err
	}
	r.values.CAFile, r.values.CATrustStore = filepath.Join(folder, "ca.pem"), filepath.Join(folder, "ca.p12")
	// Users in containers have other numbers, and the run directory is for its owner alone.
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(r.values.CAFile, r.authority.PEM, 0o644),
		os.WriteFile(r.values.CATrustStore, r.authority.TrustStore, 0o644)); err != nil {
		return fmt.Errorf("writing the certificate of the authority: %w", err)
	}
	return nil
}

// attemptsConfig is what all attempts of the run are recorded with.
func (r *run) attemptsConfig() workload.AttemptsConfig {
	contract := r.header.Contract()
	return workload.AttemptsConfig{
		Plan: r.plan, IDs: r.ids, Instances: r.header.Instances, Ops: &r.ops, Clock: r.clock, Sink: r.live,
		Calls: contract.Calls, Wait: contract.Backoff.Initial,
	}
}

// calls returns the calls that the subject declares, nil for the usual ones.
func calls(http *scenarios.HTTPDownstream) *workload.Calls {
	if http == nil {
		return nil
	}
	calls := &workload.Calls{Told: true, HTTP1: !http.HTTP2, Batch: http.Batch,
		Answers: map[history.Outcome]workload.Response{}}
	if http.ID != nil {
		calls.In, calls.Name = workload.Part(http.ID.In), http.ID.Name
		if http.ID.At != "" {
			calls.At, _ = samples.ParsePlace(http.ID.At) // it was checked with the subject file
		}
	}
	for outcome, answer := range http.Answers.ByOutcome() {
		calls.Answers[outcome] = workload.Response{Status: answer.Status, Headers: maps.Clone(answer.Headers),
			Body: answer.Body}
	}
	if items := http.Items; items != nil {
		calls.Items = &workload.Items{Each: items.ByOutcome(), Lines: items.Lines,
			Response: workload.Response{Status: items.Status, Headers: maps.Clone(items.Headers), Body: &items.Body}}
	}
	if http.Attempt != nil {
		calls.First, calls.Last = callOf(http.Attempt.First), callOf(http.Attempt.Last)
	}
	for _, route := range http.Routes {
		calls.Routes = append(calls.Routes, workload.Route{Method: route.Method, Path: route.Path, Response: response(route),
			Forward: route.Forward, Attempt: route.Attempt})
	}
	return calls
}

func callOf(text string) *workload.Route {
	method, path := scenarios.CallPattern(text)
	return &workload.Route{Method: method, Path: path}
}

func response(route scenarios.Route) workload.Response {
	return workload.Response{Status: route.Status, Headers: maps.Clone(route.Headers), Body: &route.Body}
}

// noteStrays notes that the subject made calls that should be attempts and are not. It may have failed because of them.
// If no attempt was seen at all, it can't be judged by its attempts, and the history says so: with the reason, or with
// none if there was no call.
func (r *run) noteStrays() {
	for i, one := range r.stubs.list {
		e := history.New(history.KindUnreadable, r.clock.Now())
		e.Code = history.None
		if why, do := one.Strays(); why != "" {
			e.Text = why + "\n" + do
			r.options.Log.Warn().Msg(why + "; " + do)
		}
		if r.letters != nil && i == len(r.stubs.list)-1 {
			e.Topic = r.letters.topic
			e.Text = cmp.Or(e.Text, "no call of "+r.stubs.names[i]+" had a record's id\n"+giveID)
		}
		if one.Unmade() && len(r.header.Consumers) == 1 && !r.header.Contract().WireOnly {
			r.live.Record(e)
		}
	}
}
