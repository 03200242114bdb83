package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const (
	realStart = 2 * time.Minute // a broker on a busy machine
	realLimit = time.Minute
)

// secured starts an Apache Kafka of one broker, node 101, with SASL_SSL and ACLs. Its owner may do everything, the
// user app nothing yet.
func secured(t *testing.T, ours *authority) (address string) {
	t.Helper()
	if os.Getenv("DLQBENCH_KAFKA_TESTS") != "1" {
		t.Skip("tests with real brokers are run with DLQBENCH_KAFKA_TESTS=1")
	}
	installed := must.Get(install.Open(""))(t)
	dir, server := t.TempDir(), ours.sign(nil)
	address = closedPort(t)
	settings := filepath.Join(dir, "server.properties")
	for path, text := range map[string]string{
		filepath.Join(dir, "server.pem"): server.key + server.certificate, filepath.Join(dir, "ca.pem"): ours.pem(),
		settings: strings.NewReplacer("DIR", dir, "ADDRESS", address, "CONTROLLER_AT",
			closedPort(t)).Replace(`process.roles=broker,controller
node.id=101
controller.quorum.voters=101@CONTROLLER_AT
listeners=SASL_SSL://ADDRESS,CONTROLLER://CONTROLLER_AT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_SSL
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,OAUTHBEARER
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="owner" password="owner-secret";
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_app="app-secret";
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="owner";
connections.max.reauth.ms=2000
ssl.keystore.type=PEM
ssl.keystore.location=DIR/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=DIR/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:owner;User:ANONYMOUS
log.dirs=DIR/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
`),
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	java := []string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", installed.ClassPath()}
	format := exec.Command("java", append(java, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c",
		settings,
		"--add-scram", "SCRAM-SHA-512=[name=owner,password=owner-secret]", "--add-scram",
		"SCRAM-SHA-512=[name=app,password=app-secret]")...)
	if output, err := format.CombinedOutput(); err != nil {
		t.Fatalf("formatting: %v\n%s", err, output)
	}
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	broker := exec.Command("java", append(java, "kafka.Kafka", settings)...)
	broker.Stdout, broker.Stderr = log, log
	must.Do(t, broker.Start())
	t.Cleanup(func() {
		_ = broker.Process.Kill()
		_ = broker.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the broker said:\n%s", text[max(0, len(text)-3000):])
		}
	})
	for deadline := time.Now().Add(realStart); ; time.Sleep(200 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the broker did not come up within %s", realStart)
		}
	}
}

func scramConfig(address string, ours *authority, user, password string) Config {
	return Config{
		Bootstrap: []string{address}, Prefix: prefix, TLS: TLS{Enabled: true, CA: ours.pem()},
		SASL: SASL{Mechanism: MechanismScramSHA512, Username: user, Password: NewSecret(password)},
	}
}

// Apache Kafka's own refusals, and a run with only the documented rights, whose subject goes through the tap with
// its own identity.
func TestRealBroker(t *testing.T) {
	ours := newAuthority(t, "our authority")
	address := secured(t, ours)
	ctx, cancel := context.WithTimeout(context.Background(), 4*realLimit)
	defer cancel()
	var owner *Kafka
	// the credentials are replayed from the log a moment after the port is open
	for err := errors.New("not tried"); err != nil; {
		if owner, err = Connect(ctx, scramConfig(address, ours, "owner", "owner-secret"), Options{}); err !=
			nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	defer owner.Close()
	if got := owner.Brokers(); len(got) != 1 || got[0].ID != 101 || got[0].Number != 1 {
		t.Errorf("brokers %+v", got)
	}
	good := scramConfig(address, ours, "app", "app-secret")
	for name, one := range map[string]struct {
		adapt func(*Config)
		is    error
		says  string
	}{
		"wrong SCRAM password": {func(c *Config) { c.SASL.Password = NewSecret("hunter2") }, ErrAuthentication, `user "app"`},
		"wrong PLAIN password": {func(c *Config) {
			c.SASL.Mechanism, c.SASL.Password = MechanismPlain, NewSecret("hunter2")
		}, ErrAuthentication, `user "app"`},
		"bad token": {func(c *Config) {
			c.SASL = SASL{Mechanism: MechanismOAuthBearer, Token: NewSecret("hunter2")}
		}, ErrAuthentication, EnvToken},
		"other mechanism": {func(c *Config) {
			c.SASL.Mechanism = MechanismScramSHA256
		}, ErrAuthentication, "SCRAM-SHA-512"},
		"no authentication": {func(c *Config) { c.SASL = SASL{} }, ErrAuthentication, "requires authentication"},
		"no TLS":            {func(c *Config) { c.TLS = TLS{} }, ErrProtocol, "speaks TLS"},
		"unknown authority": {func(c *Config) {
			c.TLS.CA = newAuthority(t, "stranger").pem()
		}, ErrCertificate, "ssl.ca.location"},
	} {
		config := good
		one.adapt(&config)
		_, err := Connect(ctx, config, Options{})
		want(t, err, one.says)
		if !errors.Is(err, one.is) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, in := range []SASL{{Mechanism: MechanismPlain, Username: "app", Password: NewSecret("app-secret")},
		{Mechanism: MechanismOAuthBearer, Token: NewSecret(unsecured("app", time.Now()))}} {
		config := good
		config.SASL = in
		connect(t, config, Options{})
	}
	app, err := Connect(ctx, good, Options{Ledger: filepath.Join(t.TempDir(), "external.json"), LargestRecord: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if err := app.CreateTopics(ctx, runTopics()); !errors.Is(err, ErrForbidden) {
		t.Errorf("without any right: %v", err)
	}
	for _, builder := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("20").Operations(kadm.OpCreate, kadm.OpDescribe, kadm.OpRead, kadm.OpWrite, kadm.OpDelete),
		kadm.NewACLs().Groups("20").Operations(kadm.OpDescribe, kadm.OpRead, kadm.OpDelete),
	} {
		results, err := owner.admin.CreateACLs(ctx, builder.ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:app").
			AllowHosts())
		if err != nil || len(results) == 0 || results[0].Err != nil {
			t.Fatalf("%+v, %v", results, err)
		}
	}
	for err = errors.New("not tried"); err != nil; { // until the broker knows the rights
		if err = app.CreateTopics(ctx, runTopics()); err != nil && (ctx.Err() != nil || !errors.Is(err, ErrForbidden)) {
			t.Fatal(err)
		}
	}
	throughTap(ctx, t, app)
	if err := app.Close(); err != nil {
		t.Error(err)
	}
	topics := must.Get(owner.metadata(ctx, owner.client, nil))(t)
	for _, topic := range topics.Topics {
		if under(prefix, *topic.Topic) {
			t.Errorf("topic %s is still there", *topic.Topic)
		}
	}
	if listed, err := owner.admin.ListGroups(ctx); err != nil || len(listed) > 0 {
		t.Errorf("groups %v, %v", listed.Groups(), err)
	}
}

// unrecorded discards events.
type unrecorded struct{}

func (unrecorded) Record(history.Event) {}

// throughTap lets a subject with its own credentials and without TLS settings consume and produce for longer than
// its session lasts (KIP-368). The subject then disappears without leaving its group.
func throughTap(ctx context.Context, t *testing.T, k *Kafka) {
	t.Helper()
	var op atomic.Int64
	front := tap.New(tap.Config{
		Clock: history.NewClock(), Sink: unrecorded{}, NextOp: func() int64 {
			return op.Add(1)
		}, IDs: history.NewIDs(prefix), Topics: []history.Topic{{Name: prefix + ".input", Partitions: 6}},
		Upstreams: []tap.Upstream{{
			NodeID: 101, Dial: network.Upstream{Address: k.Brokers()[0].Address}.Connect, TLS: k.UpstreamTLS(k.Brokers()[0]),
		}},
		Log: zerolog.Nop(), TopicIDs: func(ctx context.Context, names []string) (map[string][16]byte, error) {
			topics, err := k.admin.ListTopics(ctx, names...)
			return map[string][16]byte{names[0]: topics[names[0]].ID}, err
		},
	})
	defer front.Close()
	bootstrap := must.Get(front.Open(0))(t)
	subject := must.Get(kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(prefix),
		kgo.ConsumeTopics(prefix+".input"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SASL(scram.Auth{User: "app", Pass: "app-secret"}.AsSha512Mechanism()), kgo.InstanceID("stays")))(t)
	defer subject.Close() // an instance with an id of its own does not leave its group by closing (KIP-345)
	read, began := 0, time.Now()
	for read == 0 || time.Since(began) < 5*time.Second {
		must.Do(t, subject.ProduceSync(ctx, &kgo.Record{Topic: prefix + ".input", Value: []byte("x")}).FirstErr())
		fetches := subject.PollFetches(ctx)
		must.Do(t, fetches.Err0())
		read += fetches.NumRecords()
	}
	if _, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, subject); err != nil {
		t.Error(err)
	}
}
