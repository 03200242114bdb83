package external

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"encoding/base64"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestLoad(t *testing.T) {
	ours := newAuthority(t, "our authority")
	own := ours.sign(nil)
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.pem": ours.pem(), "own.pem": own.certificate, "own.key": own.key,
		"both.pem": own.certificate + own.key} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	inPlace := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\\n") }
	wholeTLS := TLS{Enabled: true, CA: ours.pem(), Certificate: own.certificate, Key: NewSecret(own.key)}
	for name, one := range map[string]struct {
		text  string
		env   map[string]string
		over  Overrides
		want  Config
		notes []string
	}{
		"librdkafka": {
			text: "# how to reach it\nbootstrap.servers = a.example.org:9093 , " +
				"SASL_SSL://b.example.org:9093\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=SCRAM-SHA-512\n" +
				"sasl.username=app\nsasl.password=p=a:s#s\nssl.ca.location=" + dir + "/ca.pem\nssl.certificate.location=" + dir +
				"/own.pem\nssl.key.location=" + dir + "/own.key\n",
			want: Config{Bootstrap: []string{"a.example.org:9093", "b.example.org:9093"}, TLS: wholeTLS,
				SASL: SASL{Mechanism: MechanismScramSHA512, Username: "app", Password: NewSecret("p=a:s#s")}},
		},
		"Java": {
			text: "bootstrap.servers=a.example.org:9093\r\nsecurity.protocol: SASL_SSL\r\nsasl.mechanism PLAIN\r\n" +
				"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\r\n  username=\"app\" " +
				"\\\r\n  password=\"${ pa\\\\\\\\ss;\\\\\"\";\r\n" +
				"ssl.truststore.type=PEM\r\nssl.truststore.location=" + dir +
				"/ca.pem\r\nssl.keystore.type=pem\r\nssl.keystore.location=" + dir +
				"/both.pem\r\nssl.endpoint.identification.algorithm=\r\n",
			want: Config{Bootstrap: []string{"a.example.org:9093"},
				TLS: TLS{Enabled: true, CA: ours.pem(), Certificate: own.certificate + own.key,
					Key: NewSecret(own.certificate + own.key), AnyHost: true},
				SASL: SASL{Mechanism: MechanismPlain, Username: "app", Password: NewSecret(`${ pa\ss;"`)}},
		},
		"PEM in place": {
			text: "metadata.broker.list=a:1\nsecurity.protocol=SSL\nssl.ca.pem=" + inPlace(ours.pem()) +
				"\nssl.certificate.pem=" + inPlace(own.certificate) + "\nssl.key.pem=" + inPlace(own.key) +
				"\nssl.endpoint.identification.algorithm=https\ndlqbench.ssl.server.name=kafka.example.org\n",
			want: Config{Bootstrap: []string{"a:1"}, TLS: TLS{Enabled: true, CA: strings.TrimSpace(ours.pem()),
				Certificate: strings.TrimSpace(own.certificate),
				Key:         NewSecret(strings.TrimSpace(own.key)), ServerName: "kafka.example.org"}},
		},
		"the environment comes first": {
			text: "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=u\nsasl.password=p\n",
			env:  map[string]string{EnvUsername: "app", EnvPassword: "right"},
			want: Config{Bootstrap: []string{"a:1"}, SASL: SASL{Mechanism: MechanismScramSHA256, Username: "app",
				Password: NewSecret("right")}},
		},
		"a token": {
			text: "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n",
			env:  map[string]string{EnvToken: "token"},
			want: Config{Bootstrap: []string{"a:1"}, SASL: SASL{Mechanism: MechanismOAuthBearer, Token: NewSecret("token")}},
		},
		"overrides come first": {
			text: "bootstrap.servers=a:1\ndlqbench.broker.kill=file {{id}}\ndlqbench.broker.start=file\n",
			over: Overrides{Bootstrap: []string{"b:2", "c:3"}, Keep: true},
			want: Config{Bootstrap: []string{"b:2", "c:3"}, Keep: true,
				Commands: BrokerCommands{Kill: "file {{id}}", Start: "file"}},
		},
		"a client's other settings": {
			text: "bootstrap.servers=a:1\nacks=all\n\ngroup.id=orders\nbootstrap.servers=b:2\n",
			want: Config{Bootstrap: []string{"b:2"}},
			notes: []string{":2: acks is not used", ":4: group.id is not used",
				":5: bootstrap.servers is given in line 1 already"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, notes, err := Load(write(t, "client.properties", one.text), func(name string) string {
				return one.env[name]
			}, one.over)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := revealed(config), revealed(one.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if len(notes) != len(one.notes) {
				t.Errorf("notes %q, want %q", notes, one.notes)
			}
			for i, note := range notes {
				if !strings.Contains(note, one.notes[i]) {
					t.Errorf("note %q, want %q", note, one.notes[i])
				}
			}
		})
	}
}

// revealed prints all of a configuration.
func revealed(c Config) string {
	return fmt.Sprintf("%+v %q %q %q", c, c.SASL.Password.Reveal(), c.SASL.Token.Reveal(), c.TLS.Key.Reveal())
}

// All problems are reported at once, each with its line.
func TestLoadProblems(t *testing.T) {
	ours, stranger := newAuthority(t, "ours"), newAuthority(t, "stranger")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"store.jks": "\xfe\xed\xfe\xed\x00\x00\x00\x02", "store.p12": "0\x82\x0a\x2e", "text": "hello", "ca.pem": ours.pem(),
		"own.pem":    ours.sign(nil).certificate,
		"other.key":  stranger.sign(nil).key,
		"locked.key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const ssl = "bootstrap.servers=a:1\nsecurity.protocol=SSL\n"
	const sasl = "bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\n"
	for name, one := range map[string]struct {
		text string
		says []string
	}{
		"nothing": {"", []string{"no broker to begin with"}},
		"addresses": {"bootstrap.servers=a,b:x,c:1,:9\n",
			[]string{`:1: "a" is no address`, `"b:x" is no address of a broker: its port`, `":9"`}},
		"protocol": {"bootstrap.servers=a:1\nsecurity.protocol=TLS\n",
			[]string{`:2: security.protocol is "TLS"`}},
		"mechanism missing": {sasl, []string{":2:", "sasl.mechanism is not set"}},
		"mechanism unknown": {sasl + "sasl.mechanism=GSSAPI\n", []string{`:3: sasl.mechanism is "GSSAPI"`}},
		"no user, no password": {sasl + "sasl.mechanism=PLAIN\n",
			[]string{":3: PLAIN needs a user", ":3: PLAIN needs a password", EnvPassword}},
		"no token": {sasl + "sasl.mechanism=OAUTHBEARER\n", []string{"needs a token", EnvToken}},
		"SASL without protocol": {"bootstrap.servers=a:1\n\nsasl.username=x\n",
			[]string{":3: sasl.username is set, but security.protocol has"}},
		"TLS without protocol": {"bootstrap.servers=a:1\nssl.ca.location=" + dir + "/ca.pem\n",
			[]string{":2: ssl.ca.location is set, but security.protocol says"}},
		"two names, two values": {sasl +
			"sasl.mechanism=PLAIN\nsasl.mechanisms=SCRAM-SHA-256\nsasl.username=x\nsasl.password=y\n",
			[]string{":4:", "say different things"}},
		"a Java trust store": {ssl + "ssl.truststore.location=" + dir + "/store.jks\nssl.truststore.password=changeit\n",
			[]string{":3:", "Java key store (JKS)", "keytool -list -rfc"}},
		"a PKCS12 trust store": {ssl + "ssl.truststore.location=" + dir + "/store.p12\nssl.truststore.type=PKCS12\n",
			[]string{":4: ssl.truststore.type is PKCS12: only PEM", "keytool"}},
		"a Java key store": {ssl + "ssl.keystore.location=" + dir + "/store.jks\n", []string{":3:", "openssl pkcs12"}},
		"no PEM":           {ssl + "ssl.ca.location=" + dir + "/text\n", []string{":3:", "nothing in PEM form"}},
		"no file":          {ssl + "ssl.ca.location=" + dir + "/absent\n", []string{":3:", "no such file"}},
		"no pair": {ssl + "ssl.certificate.location=" + dir + "/own.pem\nssl.key.location=" + dir +
			"/other.key\n", []string{":3:", "private key does not match"}},
		"no key": {ssl + "ssl.certificate.location=" + dir + "/own.pem\n",
			[]string{":3:", "the key is missing"}},
		"an encrypted key": {ssl + "ssl.certificate.location=" + dir + "/own.pem\nssl.key.location=" + dir +
			"/locked.key\nssl.key.password=x\n", []string{":3:", "encrypted", ":5: ssl.key.password", "openssl pkey"}},
		"verification off": {ssl + "enable.ssl.certificate.verification=false\n", []string{":3:", "always verified"}},
		"algorithm":        {ssl + "ssl.endpoint.identification.algorithm=http\n", []string{":3:", "must be https"}},
		"OIDC": {sasl +
			"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://id.example.org\n",
			[]string{":4:", EnvToken}},
		"JAAS of another": {sasl +
			"sasl.mechanism=PLAIN\nsasl.jaas.config=x.ScramLoginModule required username=\"a\" password=\"b\";\n",
			[]string{":4:", "SCRAM-SHA-256 and SCRAM-SHA-512, but sasl.mechanism is PLAIN"}},
		"JAAS unknown": {sasl +
			"sasl.mechanism=PLAIN\nsasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;\n",
			[]string{":4:", "Krb5LoginModule"}},
		"JAAS without end": {sasl +
			"sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required username=\"a\"\n", []string{":4:", "semicolon"}},
		"JAAS with open quote": {sasl +
			"sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required username=\"a;\n",
			[]string{":4:", "quote is not closed"}},
		"a line that is none": {"bootstrap.servers=a:1\nfoo\n=x\n",
			[]string{":2: this is no property", ":3: this is no property"}},
		"an unknown one of ours": {"bootstrap.servers=a:1\ndlqbench.broker.maim=x\n",
			[]string{":2: dlqbench.broker.maim is not known"}},
		"security aside": {ssl + "ssl.cipher.suites=x\nsecurity.providers=y\n",
			[]string{":3: ssl.cipher.suites is not supported", ":4: security.providers is not supported"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(write(t, "client.properties", one.text), nothing, Overrides{})
			want(t, err, append(one.says, "client.properties:")...)
			if !errors.Is(err, ErrSettings) {
				t.Errorf("%v is not of the kind", err)
			}
		})
	}
	_, _, err := Load(filepath.Join(dir, "absent"), nothing, Overrides{})
	want(t, err, "absent", "no such file")
	if _, _, err := Load("", nothing, Overrides{}); err == nil {
		t.Error("nothing at all is enough")
	}
	config, _, err := Load("", nothing, Overrides{Bootstrap: []string{"a:1"}})
	if err != nil || config.protocol() != "PLAINTEXT" {
		t.Errorf("with a bootstrap address alone: %+v, %v", config, err)
	}
}

func TestUnsecuredToken(t *testing.T) {
	parts := strings.Split(unsecured("app", time.Unix(1000, 0)), ".")
	var decoded []string
	for _, part := range parts {
		text := must.Get(base64.RawURLEncoding.DecodeString(part))(t)
		decoded = append(decoded, string(text))
	}
	if want := []string{`{"alg":"none"}`, `{"exp":4600,"iat":1000,"sub":"app"}`, ""}; !slices.Equal(decoded, want) {
		t.Errorf("got %q, want %q", decoded, want)
	}
	config, _, err := Load(
		write(t, "p", "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"+
			"sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "+
			"unsecuredLoginStringClaim_sub='app';\n"), nothing, Overrides{})
	if err != nil || !strings.HasPrefix(config.SASL.Token.Reveal(), parts[0]+".") {
		t.Errorf("the token is %q, %v", config.SASL.Token.Reveal(), err)
	}
}

// Any user and password, written in JAAS syntax, are read correctly.
func TestJAASQuoting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.MapOf(rapid.StringMatching(`[a-z]{1,5}`), rapid.String()).Draw(t, "options")
		var text strings.Builder
		text.WriteString("a.b.Module required")
		for key, value := range options {
			fmt.Fprintf(&text, " %s=\"%s\"", key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
		}
		module, got, err := parseJAAS(text.String() + ";")
		if err != nil || module != "a.b.Module" || len(got) != len(options) {
			t.Fatalf("%q: %q, %q, %v", text.String(), module, got, err)
		}
		for key, value := range options {
			if got[key] != value {
				t.Fatalf("%s is %q, want %q", key, got[key], value)
			}
		}
	})
}

// Reading any file content ends, and leaves nothing running (TestMain checks).
func TestAnyText(t *testing.T) {
	path := write(t, "any.properties", "")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(
			rapid.SliceOf(rapid.SampledFrom([]string{"ssl.", "a", "=", ":", " ", "\\", "\\u12", "\n", "\r", "#", "\"", "\x00",
				"ä"})).Draw(t, "text"), "")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		config, _, err := Load(path, nothing, Overrides{})
		if err == nil {
			t.Fatalf("%q is enough: %+v", text, config)
		}
	})
}

func TestUnder(t *testing.T) {
	for name, want := range map[string]bool{
		"run-1": true, "run-1.input": true, "run-1-app-changelog": true, "run-1_x": true, "run-12": false,
		"run-12.input": false, "run": false, "": false, "other": false,
	} {
		if got := under("run-1", name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
	if under("", ".input") {
		t.Error("everything is under no prefix")
	}
}
