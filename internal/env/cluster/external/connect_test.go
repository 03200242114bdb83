package external

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// Each kind of failure is named, with the remedy.
func TestBadDays(t *testing.T) {
	t.Parallel()
	ours, stranger := newAuthority(t, "our authority"), newAuthority(t, "a stranger")
	good := ours.sign(nil)
	secure := func(a *authority) TLS { return TLS{Enabled: true, CA: a.pem()} }
	withCertificate := func(s signed) TLS {
		return TLS{Enabled: true, CA: ours.pem(), Certificate: s.certificate, Key: NewSecret(s.key)}
	}
	expired := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-9*time.Hour), time.Now().Add(-8*time.Hour)
	}
	early := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(8*time.Hour), time.Now().Add(9*time.Hour)
	}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"kafka.example.org"} }
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "app", "right"),
		kfake.Superuser("PLAIN", "app", "right")}
	for name, day := range map[string]struct {
		cluster []kfake.Opt
		tls     TLS
		sasl    SASL
		is      error
		says    []string
	}{
		"plaintext to a TLS port": {
			cluster: []kfake.Opt{kfake.TLS(good.server(t))},
			is:      ErrProtocol, says: []string{"speaks TLS", "security.protocol is PLAINTEXT", "set it to SSL"},
		},
		"plaintext and SASL to a TLS port": {
			cluster: append(users, kfake.TLS(good.server(t))), sasl: SASL{Mechanism: "PLAIN", Username: "app",
				Password: NewSecret("right")},
			is: ErrProtocol, says: []string{"set it to SASL_SSL"},
		},
		"TLS to a plaintext port": {
			tls: secure(ours), is: ErrProtocol, says: []string{"without TLS", "set security.protocol to PLAINTEXT"},
		},
		"an authority that is not trusted": {
			cluster: []kfake.Opt{kfake.TLS(good.server(t))}, tls: secure(stranger),
			is: ErrCertificate, says: []string{"not signed by a trusted authority", "CN=our authority", "ssl.ca.location"},
		},
		"an expired certificate": {
			cluster: []kfake.Opt{kfake.TLS(ours.sign(expired).server(t))}, tls: secure(ours), is: ErrCertificate,
			says: []string{"expired on"},
		},
		"a certificate of tomorrow": {
			cluster: []kfake.Opt{kfake.TLS(ours.sign(early).server(t))}, tls: secure(ours), is: ErrCertificate,
			says: []string{"valid only from", "clock"},
		},
		"a certificate for another host": {
			cluster: []kfake.Opt{kfake.TLS(ours.sign(elsewhere).server(t))}, tls: secure(ours),
			is: ErrCertificate, says: []string{`not for "127.0.0.1" but for ["kafka.example.org"]`, "dlqbench.ssl.server.name"},
		},
		"no certificate of the client's own": {
			cluster: []kfake.Opt{kfake.TLS(good.wanting(t, ours))}, tls: secure(ours),
			is: ErrCertificate, says: []string{"may want a certificate of its clients", "ssl.certificate.location"},
		},
		"a client's certificate that the cluster does not trust": {
			cluster: []kfake.Opt{kfake.TLS(good.wanting(t, ours))}, tls: withCertificate(stranger.sign(nil)),
			is: ErrCertificate, says: []string{"does not accept dlqbench's own certificate"},
		},
		"a client's certificate that has expired": {
			cluster: []kfake.Opt{kfake.TLS(good.wanting(t, ours))}, tls: withCertificate(ours.sign(expired)),
			is: ErrCertificate, says: []string{"own certificate expired on"},
		},
		"no authentication": {
			cluster: users, is: ErrAuthentication, says: []string{"requires authentication", "SASL_PLAINTEXT",
				"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"},
		},
		"a wrong PLAIN password": {
			cluster: users, sasl: SASL{Mechanism: "PLAIN", Username: "app", Password: NewSecret("hunter2")},
			is: ErrAuthentication, says: []string{`user "app"`, "PLAIN", EnvPassword},
		},
		"a wrong SCRAM password": {
			cluster: users, sasl: SASL{Mechanism: "SCRAM-SHA-256", Username: "app", Password: NewSecret("hunter2")},
			is: ErrAuthentication, says: []string{`user "app"`, "SCRAM-SHA-256"},
		},
		"a mechanism that the cluster does not take": {
			cluster: users, sasl: SASL{Mechanism: "OAUTHBEARER", Token: NewSecret("hunter2")},
			is: ErrAuthentication, says: []string{"does not take OAUTHBEARER", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := plainConfig(start(t, 1, day.cluster...))
			config.TLS, config.SASL = day.tls, day.sasl
			began := time.Now()
			k, err := Connect(within(t), config, Options{})
			if k != nil {
				k.Close()
			}
			want(t, err, day.says...)
			if !errors.Is(err, day.is) {
				t.Errorf("%v is not of kind %q", err, day.is)
			}
			if took := time.Since(began); took > connectLimit {
				t.Errorf("it took %s", took)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestUnreachableBootstrap(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections in its backlog and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, one := range map[string]struct{ address, says string }{
		"nothing listens": {closedPort(t), "refuses connections: is a broker running there"},
		"no such host":    {"no-such-host.invalid:9092", "no host has the name no-such-host.invalid"},
		"silence":         {silent.Addr().String(), "does not answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Connect(within(t), Config{Bootstrap: []string{one.address}, Prefix: prefix}, Options{})
			want(t, err, one.says)
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("%v is not of the kind", err)
			}
		})
	}
}

// One working bootstrap address is enough. If none works, the error names each.
func TestBootstrapAddresses(t *testing.T) {
	c := start(t, 1)
	config := plainConfig(c)
	config.Bootstrap = []string{closedPort(t), c.ListenAddrs()[0]}
	connect(t, config, Options{})
	config.Bootstrap = []string{closedPort(t), closedPort(t)}
	_, err := Connect(within(t), config, Options{})
	want(t, err, config.Bootstrap[0], config.Bootstrap[1])
}

// A cluster that advertises an address at which no broker listens.
func TestAdvertisedAddressIsTried(t *testing.T) {
	c := start(t, 2)
	gone := closedPort(t)
	host, port, _ := net.SplitHostPort(gone)
	c.ControlKey(3, func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		response := request.ResponseKind().(*kmsg.MetadataResponse)
		for id, address := range append(c.ListenAddrs()[:1], gone) {
			broker := kmsg.NewMetadataResponseBroker()
			broker.NodeID, broker.Host = int32(id)+101, host
			_, port, _ = net.SplitHostPort(address)
			fmt.Sscan(port, &broker.Port)
			response.Brokers = append(response.Brokers, broker)
		}
		return response, nil, true
	})
	_, err := Connect(within(t), plainConfig(c), Options{})
	want(t, err, "its broker 102 is at "+gone, "advertised.listeners", "refuses connections")
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v is not of the kind", err)
	}
}

// Every way to authenticate, and a run with each.
func TestWaysIn(t *testing.T) {
	ours := newAuthority(t, "our authority")
	server := ours.sign(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"kafka.example.org"} })
	own := ours.sign(nil)
	for _, mechanism := range []string{"", MechanismPlain, MechanismScramSHA256, MechanismScramSHA512} {
		for _, checks := range []string{"server name", "any host", "client certificate"} {
			t.Run(mechanism+" "+checks, func(t *testing.T) {
				options := []kfake.Opt{kfake.TLS(server.server(t))}
				config := Config{Prefix: prefix, TLS: TLS{Enabled: true, CA: ours.pem(), ServerName: "kafka.example.org"}}
				switch checks {
				case "any host":
					config.TLS.ServerName, config.TLS.AnyHost = "", true
				case "client certificate":
					options = []kfake.Opt{kfake.TLS(server.wanting(t, ours))}
					config.TLS.Certificate, config.TLS.Key = own.certificate, NewSecret(own.key)
				}
				if mechanism != "" {
					options = append(options, kfake.EnableSASL(), kfake.Superuser(mechanism, "app", "right"))
					config.SASL = SASL{Mechanism: mechanism, Username: "app", Password: NewSecret("right")}
				}
				config.Bootstrap = start(t, 2, options...).ListenAddrs()
				k := connect(t, config, Options{})
				must.Do(t, k.CreateTopics(within(t), runTopics()))
				if tls := k.UpstreamTLS(k.Brokers()[0]); tls.ServerName != cmp.Or(config.TLS.ServerName, "127.0.0.1") {
					t.Errorf("the tap is to expect %q", tls.ServerName)
				}
				if err := k.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// AnyHost does not accept a certificate from an untrusted authority.
func TestAnyHostStillNeedsATrustedAuthority(t *testing.T) {
	ours, stranger := newAuthority(t, "our authority"), newAuthority(t, "a stranger")
	config := plainConfig(start(t, 1, kfake.TLS(ours.sign(nil).server(t))))
	config.TLS = TLS{Enabled: true, CA: stranger.pem(), AnyHost: true}
	_, err := Connect(within(t), config, Options{})
	want(t, err, "not signed by a trusted authority")
}

// OAUTHBEARER, which the fake brokers do not support: a broker that supports only its authentication.
func TestOAuthBearer(t *testing.T) {
	for token, says := range map[string]string{"good": "", "bad": "does not accept the token", "odd": "unexpected data"} {
		t.Run(token, func(t *testing.T) {
			c := start(t, 1, kfake.EnableSASL(), kfake.Superuser("PLAIN", "app", "right"))
			c.ControlKey(17, func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				return request.ResponseKind(), nil, true
			})
			c.ControlKey(36, func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				switch string(request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes) {
				case "n,,\x01auth=Bearer good\x01\x01":
				case "n,,\x01auth=Bearer odd\x01\x01":
					response.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
				default:
					response.ErrorCode = kerr.SaslAuthenticationFailed.Code
					response.ErrorMessage = kmsg.StringPtr("token bad is invalid")
				}
				return response, nil, true
			})
			config := plainConfig(c)
			config.SASL = SASL{Mechanism: MechanismOAuthBearer, Token: NewSecret(token)}
			p, err := config.reach(within(t), c.ListenAddrs()[0])
			if says == "" {
				if err != nil {
					t.Fatal(err)
				}
				p.close()
				return
			}
			want(t, err, says, EnvToken)
			if !errors.Is(err, ErrAuthentication) {
				t.Errorf("%v is not of the kind", err)
			}
			if strings.Contains(err.Error(), "token bad") {
				t.Errorf("the error repeats the token: %v", err)
			}
		})
	}
}

// A whole run with every kind of secret, after a failed start: no output contains a secret.
func TestSecretsAreNowhere(t *testing.T) {
	const password = "s3cret-passw0rd-of-dlqbench"
	ours := newAuthority(t, "our authority")
	own := ours.sign(nil)
	secrets := []string{password, own.key, strings.Split(own.key, "\n")[1]}
	c := start(t, 2, kfake.TLS(ours.sign(nil).wanting(t, ours)), kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-512", "app", password))
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.pem": ours.pem(), "own.pem": own.certificate, "own.key": own.key,
		"password": password} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	settings := fmt.Sprintf("bootstrap.servers=%s\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"+
		"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"app\" "+
		"password=\"%s\";\n"+
		"ssl.ca.location=%s/ca.pem\nssl.certificate.location=%[3]s/own.pem\nssl.key.location=%[3]s/own.key\n"+
		"dlqbench.broker.kill=cat %[3]s/password; exit 3\ndlqbench.broker.start=true\n", strings.Join(c.ListenAddrs(), ","),
		password, dir)
	config, notes, err := Load(write(t, "client.properties", settings), nothing, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	config.Prefix = prefix
	var written bytes.Buffer
	log := zerolog.New(&written).Level(zerolog.TraceLevel)
	ledger := filepath.Join(dir, "external.json")
	k := connect(t, config, Options{Log: log, Ledger: ledger})
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	noted := must.Get(os.ReadFile(ledger))(t)
	_, killed := k.KillBroker(within(t), 1)
	want(t, killed, "exit status 3", hidden)
	log.Info().Interface("config", config).Any("sasl", config.SASL).Stringer("password", config.SASL.Password).Msg(
		fmt.Sprint(config))
	wrong := config
	wrong.SASL.Username = "nobody"
	_, refused := Connect(within(t), wrong, Options{Log: log})
	_, bad, badErr := Load(write(t, "bad.properties", settings+"sasl.mechanism=GSSAPI\nsasl.password= "+password+" \n"+
		password+"\n"+password+"==\nssl.foo="+password+"\nfoo="+password+"\n"), nothing, Overrides{})
	want(t, badErr, "ssl.foo")
	encoded := must.Get(json.Marshal(config))(t)
	type wrapped struct{ inner Config }
	for what, text := range map[string]string{
		"log": written.String(), "ledger": string(noted), "description": k.Describe(), "notes": fmt.Sprint(notes, bad),
		"json": string(encoded),
		"%v":   fmt.Sprintf("%v %v", config, &config), "%+v": fmt.Sprintf("%+v %+v", config, wrapped{config}),
		"%#v": fmt.Sprintf("%#v %#v", config, wrapped{config}),
		"%s %q %x %d": fmt.Sprintf("%s %q %x %d %x", config.SASL.Password, config.SASL.Password, config.SASL.Password,
			config.SASL.Password, any(config.SASL.Password)),
		"errors": fmt.Sprint(killed, refused, badErr), "text": func() string {
			text, _ := config.SASL.Password.MarshalText()
			return string(text)
		}(),
	} {
		for _, secret := range secrets {
			if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s: has a secret:\n%s", what, text)
			}
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if got := config.SASL.Password.Reveal(); got != password {
		t.Errorf("the password is %q after all", got)
	}
}

func TestClosedCluster(t *testing.T) {
	k := connect(t, plainConfig(start(t, 1)), Options{})
	must.Do(t, k.Close())
	if err := k.CreateTopics(within(t), runTopics()); !errors.Is(err, ErrClosed) {
		t.Errorf("creating topics: %v", err)
	}
}

func TestConnectNeedsAPrefixAndHearsItsContext(t *testing.T) {
	config := plainConfig(start(t, 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Connect(ctx, config, Options{}); err == nil {
		t.Error("connected in a context that has ended")
	}
	config.Prefix = ""
	_, err := Connect(within(t), config, Options{})
	want(t, err, "no prefix")
}

func TestNodeIDsAreNotNumbers(t *testing.T) {
	k := connect(t, plainConfig(start(t, 3)), Options{})
	var ids []int32
	for _, broker := range k.Brokers() {
		ids = append(ids, broker.ID)
	}
	if !slices.Equal(ids, []int32{0, 1, 2}) {
		t.Errorf("node ids %v", ids)
	}
	if _, err := k.byNumber(0); err == nil {
		t.Error("there is a broker number 0")
	}
}

func scramOption(user, password string) kgo.Opt {
	return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
}
