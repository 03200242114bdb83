package security

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestAnAuthorityIsTrustedByItsCertificateAlone(t *testing.T) {
	one := must.Get(NewAuthority("dlqbench test"))(t)
	other := must.Get(NewAuthority("dlqbench test"))(t)
	for host, trusted := range map[string]*Authority{
		"127.0.0.1": one, "localhost": one, "::1": one, "refused: 127.0.0.1": other, "refused: example.com": one,
	} {
		name, refused := strings.CutPrefix(host, "refused: ")
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(trusted.PEM) {
			t.Fatal("the certificate is not PEM")
		}
		err := dial(t, one.Server, &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
		if (err != nil) != refused {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// dial returns the client's error of a handshake.
func dial(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", server))(t)
	defer listener.Close()
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake() // its error is the other side of the client's
			conn.Close()
		}
	})
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err == nil {
		conn.Close()
	}
	return err
}

// Java reads the trust store with and without a password.
func TestJavaReadsTheTrustStore(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("no keytool (Java) is installed")
	}
	one := must.Get(NewAuthority("dlqbench test"))(t)
	file := filepath.Join(t.TempDir(), "ca.p12")
	must.Do(t, os.WriteFile(file, one.TrustStore, 0o600))
	for _, password := range [][]string{nil, {"-storepass", "changeit"}} {
		command := exec.Command(keytool, append([]string{"-list", "-keystore", file}, password...)...)
		command.Env = append(os.Environ(), "LC_ALL=C")
		command.Stdin = strings.NewReader("\n")
		text, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "trustedCertEntry") {
			t.Errorf("%v: %v\n%s", password, err, text)
		}
	}
}
