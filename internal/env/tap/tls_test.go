package tap

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// brokerHost is the host in the brokers' certificate; the links to them have other addresses.
const brokerHost = "kafka.test"

// certified returns the TLS settings of brokers with a certificate for brokerHost, and of clients that trust it.
func certified(t testing.TB) (broker, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "brokers"}, DNSNames: []string{brokerHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: brokerHost}
}

// secureCluster starts brokers with TLS, and a tap that connects to them with TLS.
func secureCluster(t testing.TB, brokers int, adapt func(*Config), options ...kfake.Opt) (*kfake.Cluster, *rig) {
	t.Helper()
	server, secured := certified(t)
	return cluster(t, brokers, func(config *Config) {
		for i := range config.Upstreams {
			config.Upstreams[i].TLS = secured
		}
		if adapt != nil {
			adapt(config)
		}
	}, append(options, kfake.TLS(server))...)
}

// produceAndRead sends a record through the tap and reads it back.
func produceAndRead(t testing.TB, cl *kgo.Client, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t.dlq", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(fetches.Records(), func(r *kgo.Record) bool { return string(r.Value) == value }) {
			return
		}
	}
}

func TestSubjectSpeaksPlaintextToATLSCluster(t *testing.T) {
	c, r := secureCluster(t, 3, nil)
	cl := client(t, r.open(t, 0), kgo.ConsumeTopics("t.dlq"))
	produceAndRead(t, cl, string(r.ids.Append(nil, 1)))
	if got := r.log.of(history.KindProduceResponse); len(got) == 0 {
		t.Error("the acknowledgement was not recorded")
	}
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(context.Background(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, broker := range metadata.Brokers {
		if address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))); slices.Contains(c.ListenAddrs(),
			address) {
			t.Errorf("the subject was given the broker's own address %s", address)
		}
	}
}

// The tap accepts only the right broker: a server at the link's address must have a certificate for the broker's
// host.
func TestBrokersCertificateIsVerified(t *testing.T) {
	_, stranger := certified(t)
	for name, wrong := range map[string]func(*tls.Config) *tls.Config{
		"another host":      func(c *tls.Config) *tls.Config { c = c.Clone(); c.ServerName = "other.test"; return c },
		"another authority": func(*tls.Config) *tls.Config { return stranger },
	} {
		t.Run(name, func(t *testing.T) {
			var said safeText
			_, r := secureCluster(t, 1, func(config *Config) {
				config.Upstreams[0].TLS = wrong(config.Upstreams[0].TLS)
				config.Log = zerolog.New(&said)
			})
			// The tap resets the connection, possibly before it is fully established.
			if conn, err := net.Dial("tcp", r.open(t, 0)); err == nil {
				p := newPeer(t, conn)
				_, _ = p.Write(requestFrame(1, kmsg.NewPtrApiVersionsRequest()))
				if payload, err := p.tryReceive(patience); err == nil {
					t.Errorf("%d bytes came through", len(payload))
				}
				_ = p.Close()
			}
			wait.Until(t, "the log tells why", func() bool {
				return strings.Contains(said.String(), "certificate is not accepted")
			})
		})
	}
}

// safeText is a log that several goroutines can write.
type safeText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safeText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A subject authenticates with its own credentials. The tap has none, does not look into frames that carry
// credentials, and asks no interceptor about them.
func TestSubjectAuthenticatesThroughTheTap(t *testing.T) {
	const password = "correct horse battery"
	for name, mechanism := range map[string]kgo.Opt{
		"PLAIN":         kgo.SASL(plain.Auth{User: "app", Pass: password}.AsMechanism()),
		"SCRAM-SHA-256": kgo.SASL(scram.Auth{User: "app", Pass: password}.AsSha256Mechanism()),
		"SCRAM-SHA-512": kgo.SASL(scram.Auth{User: "app", Pass: password}.AsSha512Mechanism()),
	} {
		t.Run(name, func(t *testing.T) {
			var said safeText
			var asked atomic.Int64
			_, r := secureCluster(t, 2, func(config *Config) {
				config.Log = zerolog.New(&said)
				config.Interceptor = intercept(func(x *Exchange) Action {
					if x.APIKey == 17 || x.APIKey == 36 {
						asked.Add(1)
					}
					return Action{}
				})
			}, kfake.EnableSASL(), kfake.Superuser(name, "app", password))
			produceAndRead(t, client(t, r.open(t, 0), kgo.ConsumeTopics("t.dlq"), mechanism), "hello")
			if n := asked.Load(); n > 0 {
				t.Errorf("the interceptor was shown %d requests with credentials", n)
			}
			if strings.Contains(said.String(), password) {
				t.Errorf("the log has the password:\n%s", said.String())
			}
		})
	}
}

// KIP-368: the session expires, and the client reauthenticates on the same connection, between its other requests.
func TestReauthenticationPasses(t *testing.T) {
	c, r := secureCluster(t, 1, nil, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "app", "pass"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1100"}))
	var handshakes, connections atomic.Int64
	c.ControlKey(17, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		handshakes.Add(1)
		return nil, nil, false
	})
	cl := client(t, r.open(t, 0), kgo.SASL(scram.Auth{User: "app", Pass: "pass"}.AsSha256Mechanism()),
		kgo.WithHooks(connectCounter{&connections}))
	deadline := time.Now().Add(patience)
	for handshakes.Load() <= connections.Load() && time.Now().Before(deadline) {
		if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t.input", Value: []byte("x")}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if handshakes.Load() <= connections.Load() {
		t.Errorf("%d handshakes on %d connections: nobody authenticated again", handshakes.Load(), connections.Load())
	}
}

type connectCounter struct{ n *atomic.Int64 }

func (c connectCounter) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.n.Add(1)
	}
}

// Topic ids come from the caller's resolver, because the tap cannot query a cluster that requires credentials.
func TestTopicIDsComeFromTheCaller(t *testing.T) {
	id := [16]byte{7}
	var asked atomic.Int64
	var names []string
	r, subject, kafka := pair(t, func(config *Config) {
		config.TopicIDs = func(_ context.Context, given []string) (map[string][16]byte, error) {
			asked.Add(1)
			names = slices.Clone(given)
			return map[string][16]byte{"t.input": id, "t.retry": {8}, "t.dlq": {9}}, nil
		}
	})
	for correlation, topic := range [][16]byte{id, {99}, {99}} {
		request := kmsg.NewPtrFetchRequest()
		request.SetVersion(13)
		request.MaxBytes, request.SessionEpoch = 1000, -1
		one := kmsg.NewFetchRequestTopic()
		one.TopicID = topic
		one.Partitions = append(one.Partitions, kmsg.NewFetchRequestTopicPartition())
		request.Topics = append(request.Topics, one)
		subject.request(int32(correlation), request)
		kafka.receive()
	}
	if got := asked.Load(); got != 2 { // once for the first, once for the foreign one, which is known as such from then on
		t.Errorf("asked %d times, want 2", got)
	}
	if want := []string{"t.input", "t.retry", "t.dlq"}; !slices.Equal(names, want) {
		t.Errorf("asked for %q, want %q", names, want)
	}
	if got := r.topics.named("t.input"); got != input {
		t.Errorf("topic %d", got)
	}
	if name, _ := r.topics.name(id); name != "t.input" {
		t.Errorf("the id belongs to %q", name)
	}
}

// An unknown id can belong to a topic that the answer left out, so it is queried again.
func TestAnUnknownIDIsForeignOnlyAfterAWholeAnswer(t *testing.T) {
	topics := newTopics(runTopics())
	answer := map[string][16]byte{"t.input": {1}, "t.retry": {2}}
	resolve := func(context.Context, []string) (map[string][16]byte, error) { return answer, nil }
	if err := topics.ask(resolve, [16]byte{3}); err == nil {
		t.Error("no error, though the DLQ topic is missing")
	}
	if name, known := topics.name([16]byte{3}); known {
		t.Errorf("the id is taken for %q", name)
	}
	topics.asked = time.Time{}
	answer["t.dlq"] = [16]byte{3}
	if err := topics.ask(resolve, [16]byte{3}); err != nil {
		t.Error(err)
	}
	if name, _ := topics.name([16]byte{3}); name != "t.dlq" {
		t.Errorf("the id belongs to %q", name)
	}
}

// Closing the tap aborts a TLS handshake that a broker does not answer.
func TestCloseBreaksOffAHandshake(t *testing.T) {
	b := newBroker(t)
	_, secured := certified(t)
	upstreams := b.upstreams()
	upstreams[0].TLS = secured
	r := newRig(t, upstreams, nil)
	dial(t, r.open(t, 0))
	b.next()
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(dialLimit - time.Second):
		t.Error("closing waits for the handshake")
		<-closed
	}
}
