// Package external_test judges a consumer on a cluster as a team would give it to dlqbench: three brokers of Apache
// Kafka that are somebody else's, reached with TLS and SASL, with rights for nothing but names of its own. It needs
// Java and an installed Kafka, and is asked for with DLQBENCH_KAFKA_TESTS=1.
package external_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/cluster/process"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

const (
	// secret is the password of the user that dlqbench is to the cluster.
	secret = "correct-horse-battery"
	// limit bounds everything that the test waits for.
	limit = 4 * time.Minute
)

// rig is the cluster, its owner, and dlqbench as a program.
type rig struct {
	*testing.T
	owner        *kadm.Client
	program, out string
	config       string
}

// authority makes a certificate authority and a certificate for 127.0.0.1 that it has signed, in PEM.
func authority(t *testing.T) (ca []byte, server []byte) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	caKey, key := newKey(), newKey()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER := issue(root, root, caKey, caKey)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "broker"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafDER := issue(leaf, root, key, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", rootDER), append(block("PRIVATE KEY", keyDER), block("CERTIFICATE", leafDER)...)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("DLQBENCH_KAFKA_TESTS") != "1" {
		t.Skip("tests with real brokers are run with DLQBENCH_KAFKA_TESTS=1")
	}
	installed, err := install.Open("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &rig{T: t, out: filepath.Join(dir, "runs"), config: filepath.Join(dir, "client.properties")}
	ca, server := authority(t)
	files := map[string][]byte{"ca.pem": ca, "server.pem": server}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	kafka, err := process.Start(ctx, process.Options{
		Brokers: 3, Dir: filepath.Join(dir, "kafka"), Kafka: installed, Log: zerolog.Nop(), Settings: map[string]string{
			"listener.security.protocol.map":                "CLIENTS:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
			"listener.name.clients.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule " +
				"required user_owner=\"owner-secret\" user_bench=\"" + secret + `";`,
			"listener.name.clients.ssl.keystore.type":         "PEM",
			"listener.name.clients.ssl.keystore.location":     filepath.Join(dir, "server.pem"),
			"authorizer.class.name":                           "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":                                     "User:owner;User:ANONYMOUS",
			"listener.name.clients.connections.max.reauth.ms": "3000",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kafka.Close() })
	var addresses []string
	for _, broker := range kafka.Brokers() {
		addresses = append(addresses, broker.Address)
	}
	text := "bootstrap.servers=" + strings.Join(addresses, ",") +
		"\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=bench\nssl.ca.location=" +
		filepath.Join(dir, "ca.pem") + "\n"
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.own(ctx, addresses, ca)
	if r.program, err = programtest.Build(); err != nil {
		t.Fatal(err)
	}
	return r
}

// own connects the cluster's owner, who lets bench do with names that begin like those of runs what docs/external.md
// says that it needs.
func (r *rig) own(ctx context.Context, addresses []string, ca []byte) {
	r.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(plain.Auth{User: "owner", Pass: "owner-secret"}.AsMechanism()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(client.Close)
	r.owner = kadm.NewClient(client)
	for _, builder := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("20").Operations(kadm.OpCreate, kadm.OpDescribe, kadm.OpRead, kadm.OpWrite, kadm.OpDelete),
		kadm.NewACLs().Groups("20").Operations(kadm.OpDescribe, kadm.OpRead, kadm.OpDelete),
	} {
		results, err := r.owner.CreateACLs(ctx, builder.ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:bench").
			AllowHosts())
		if err != nil || len(results) == 0 || results[0].Err != nil {
			r.Fatalf("giving rights: %+v, %v", results, err)
		}
	}
}

// dlqbench runs the program with a password and returns its exit code and all that it printed.
func (r *rig) dlqbench(password string, arguments ...string) (code int, output string) {
	r.Helper()
	command := r.command(password, arguments...)
	printed, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(printed)
}

func (r *rig) command(password string, arguments ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	r.Cleanup(cancel)
	command := exec.CommandContext(ctx, r.program, arguments...)
	command.Env = append(os.Environ(), "DLQBENCH_SASL_PASSWORD="+password)
	return command
}

// left returns the topics and groups that are on the cluster beside its own.
func (r *rig) left() (names []string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	topics, err := r.owner.ListTopics(ctx)
	if err != nil {
		r.Fatal(err)
	}
	groups, err := r.owner.ListGroups(ctx)
	if err != nil {
		r.Fatal(err)
	}
	return append(topics.Names(), groups.Groups()...)
}

// quiet checks that no file of a run and nothing that was printed has the password.
func (r *rig) quiet(printed string) {
	r.Helper()
	if strings.Contains(printed, secret) {
		r.Errorf("the password was printed")
	}
	err := filepath.WalkDir(r.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) {
			r.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil {
		r.Error(err)
	}
}

func TestAClusterOfOnesOwn(t *testing.T) {
	r := newRig(t)
	run := []string{"run", "dlq-publish-failure", "consumer-kill", "replay-round-trip", "--quiet", "--cluster", "external",
		"--kafka-config", r.config, "--out", r.out}

	code, output := r.dlqbench("wrong", run...)
	if code != 3 || !strings.Contains(output, `user "bench"`) {
		t.Errorf("with a wrong password: exit code %d:\n%s", code, output)
	}

	code, output = r.dlqbench(secret, run...)
	if code != 0 || strings.Count(output, "PASS") != 3 {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	r.quiet(output)
	headers, err := filepath.Glob(filepath.Join(r.out, "*-replay-round-trip", "history", "header.json"))
	if err != nil || len(headers) == 0 {
		t.Fatalf("histories: %v, %v", headers, err)
	}
	// the run with the wrong password has one too, and never saw the cluster
	header, err := os.ReadFile(slices.Max(headers))
	if err != nil || !bytes.Contains(header, []byte(`"external, SASL_SSL, PLAIN, 3 brokers"`)) {
		t.Errorf("the history does not say what Kafka it was (%v):\n%s", err, header)
	}
	if left := r.left(); slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(name, "20") }) {
		t.Errorf("on the cluster there still are %v", left)
	}

	code, output = r.dlqbench(secret, "run", "broker-loss", "--cluster", "external", "--kafka-config", r.config,
		"--out", r.out)
	if code != 2 || !strings.Contains(output, "dlqbench.broker.") {
		t.Errorf("a fault that stops brokers: exit code %d:\n%s", code, output)
	}
}

// What a run that was killed outright has left on the cluster is removed by cleaning.
func TestWhatAKilledRunLeft(t *testing.T) {
	r := newRig(t)
	killed := r.command(secret, "run", "consumer-kill", "--quiet", "--cluster", "external", "--kafka-config", r.config,
		"--out", r.out)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	ours := func() bool {
		return slices.ContainsFunc(r.left(), func(name string) bool { return strings.Contains(name, "consumer-kill") })
	}
	for deadline := time.Now().Add(limit); !ours(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the run has made no topics")
		}
	}
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if !ours() {
		t.Fatal("the killed run has left nothing, so there is nothing to show")
	}
	if code, output := r.dlqbench(secret, "clean", "--out", r.out); code == 0 ||
		!strings.Contains(output, "--kafka-config") {
		t.Errorf("cleaning without the cluster: exit code %d:\n%s", code, output)
	}
	code, output := r.dlqbench(secret, "clean", "--out", r.out, "--kafka-config", r.config)
	if code != 0 || ours() {
		t.Errorf("cleaning: exit code %d, left are %v:\n%s", code, r.left(), output)
	}
	r.quiet(output)
}
