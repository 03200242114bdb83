package engine

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/authconfig"
	"go.uber.org/goleak"
)

func TestNoPermission(t *testing.T) {
	denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)}
	for _, err := range []error{denied,
		errors.New("permission denied while trying to connect to the docker API at unix:///var/run/docker.sock")} {
		err := noEngine("unix:///var/run/docker.sock", err)
		want := "no container engine may be used at unix:///var/run/docker.sock, as its socket denies permission: add this " +
			"user to the group of the socket (usually docker), or do without containers: --cluster process or embedded, " +
			"subjects of kind process"
		if err.Error() != want {
			t.Errorf("it says: %v", err)
		}
	}
}

// Ports are published on the loopback of the engine's machine, which must be this one.
func TestLocalEngine(t *testing.T) {
	for host, want := range map[string]bool{
		"unix:///var/run/docker.sock": true, "npipe:////./pipe/docker_engine": true, "tcp://localhost:2375": true,
		"tcp://127.0.0.1:2375": true, "tcp://[::1]:2375": true,
		"tcp://192.0.2.1:2375": false, "ssh://user@example.org": false, "tcp://docker:2376": false,
	} {
		err := local(host)
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
		if err != nil && (!errors.Is(err, ErrNoEngine) || strings.Contains(err.Error(), "user@")) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// pinged is an engine at a socket that knows who asked for what.
func pinged(t *testing.T, socket string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.48")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// What names an engine counts, in this order, and nothing takes its place.
func TestConnect(t *testing.T) {
	home := t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	rootless, named, silent := at("run/docker.sock"), at("named.sock"), "unix://"+at("nothing.sock")
	pinged(t, rootless)
	pinged(t, named)
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, host := range map[string]string{"mine": "unix://" + named, "gone": silent} {
		write(fmt.Sprintf("contexts/meta/%x/meta.json", sha256.Sum256([]byte(name))),
			fmt.Sprintf(`{"Name": %q, "Endpoints": {"docker": {"Host": %q}}}`, name, host))
	}
	t.Setenv("XDG_RUNTIME_DIR", at("run"))
	t.Setenv("DOCKER_CONFIG", home)
	usual := "unix://" + sockets()[0] // the system's, if there is an engine
	for _, test := range []struct{ name, host, context, config, want string }{
		{"a usual socket", "", "", "", usual},
		{"the default context", "", "", `{"currentContext": "default"}`, usual},
		{"the context in use", "", "", `{"currentContext": "mine"}`, "unix://" + named},
		{"a context for this command", "", "mine", `{"currentContext": "gone"}`, "unix://" + named},
		{"a context whose engine is silent", "", "gone", "", ""},
		{"no such context", "", "other", "", ""},
		{"an address", "unix://" + named, "gone", "", "unix://" + named},
		{"an address that is silent", silent, "mine", "", ""},
	} {
		write("config.json", cmp.Or(test.config, "{}"))
		t.Setenv("DOCKER_HOST", test.host)
		t.Setenv("DOCKER_CONTEXT", test.context)
		engine, err := Connect(t.Context())
		switch {
		case err != nil:
			if test.want != "" || !errors.Is(err, ErrNoEngine) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		case engine.DaemonHost() != test.want:
			t.Errorf("%s: %s, not %s", test.name, engine.DaemonHost(), test.want)
		}
		_ = engine.Close()
	}
}

func TestLogin(t *testing.T) {
	const secrets = `{"auths": {"https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
		"registry.example:5000": {"username": "me", "password": "mine"}, "https://old.example/v1/": {"auth": "b2xkOnNlY3JldA=="},
		"token.example": {"identitytoken": "t"}}}`
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	check := func() {
		t.Helper()
		for image, want := range map[string]string{
			"apache/kafka:4.1.0":                                    "hub secret  https://index.docker.io/v1/",
			"registry.example:5000/kafka":                           "me mine  registry.example:5000",
			"old.example/kafka":                                     "old secret  https://old.example/v1/",
			"token.example/kafka@sha256:" + strings.Repeat("0", 64): "  t token.example",
		} {
			text, err := login(image)
			if err != nil {
				t.Fatal(err)
			}
			got, err := authconfig.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join([]string{got.Username, got.Password, got.IdentityToken, got.ServerAddress}, " "); got != want {
				t.Errorf("%s: %q, not %q", image, got, want)
			}
		}
	}
	t.Setenv("DOCKER_AUTH_CONFIG", secrets)
	check()
	if text, err := login("public.example/kafka"); text != "" || err != nil {
		t.Errorf("a login for a public image: %q, %v", text, err)
	}
	t.Setenv("DOCKER_AUTH_CONFIG", "")
	if text, err := login("apache/kafka"); text != "" || err != nil {
		t.Errorf("a login without a configuration: %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(secrets), 0o600); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
