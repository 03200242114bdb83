package registry

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const secret = "Basic dXNlcjpwYXNz"

// theirs is a registry that takes only those who know the secret, with a schema under orders-value.
func theirs(t *testing.T) (*srfake.Registry, Own) {
	t.Helper()
	fake := srfake.NewRegistry()
	fake.SeedSchema("orders-value", 1, 7, avro("string"))
	checked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fake.Handler().ServeHTTP(w, r)
	})
	server := httptest.NewTLSServer(http.StripPrefix("/api", checked))
	t.Cleanup(func() { server.Close(); fake.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return fake, Own{URL: server.URL + "/api", Authorization: secret, Roots: roots}
}

func avro(of string) sr.Schema { return sr.Schema{Schema: `"` + of + `"`, Type: sr.TypeAvro} }

// versions returns the versions of a subject, those that were deleted softly, too.
func versions(t *testing.T, own Own, subject string) []int {
	t.Helper()
	client := clientOf(t, own)
	all, err := client.SubjectVersions(sr.WithParams(t.Context(), sr.ShowDeleted), subject)
	if err != nil && !absent(err) {
		t.Fatal(err)
	}
	return all
}

func clientOf(t *testing.T, own Own) *sr.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = own.Roots
	t.Cleanup(transport.CloseIdleConnections)
	client := must.Get(sr.NewClient(sr.URLs(own.URL), sr.HTTPClient(&http.Client{Transport: authorized{transport,
		own.Authorization}})))(t)
	return client
}

// TestOwnRegistryIsLeftAsItWas forwards to a registry, to which both dlqbench and the service add schemas.
func TestOwnRegistryIsLeftAsItWas(t *testing.T) {
	_, own := theirs(t)
	r := must.Get(Forward(t.Context(), own, "run-1", Schema{"orders-value", avro("string")},
		Schema{"orders-key", avro("long")},
		Schema{"run-1.input-value", avro("int")}))(t)
	for i, want := range []string{"orders-value", "run-1.orders-key", "run-1.input-value"} {
		if known := r.Known[i]; known.Subject != want || (known.ID == 7) != (i == 0) || known.GUID == "" {
			t.Errorf("schema %d is %+v, want %s", i, known, want)
		}
	}
	service := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	if got, err := service.SchemaByID(t.Context(), 7); err != nil || got.Schema != `"string"` {
		t.Errorf("without credentials: schema 7 is %v, %v", got, err)
	}
	for subject, schema := range map[string]sr.Schema{"orders-value": avro("bytes"), "orders.DLT-value": avro("string")} {
		must.Get(service.CreateSchema(t.Context(), subject, schema))(t)
	}
	if _, err := service.CreateSchema(t.Context(), "orders-value", avro("string")); err != nil { // it is there
		t.Fatal(err)
	}
	if got := versions(t, own, "orders-value"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("during the run, orders-value has the versions %v", got)
	}
	must.Do(t, r.Close(t.Context()))
	for subject, want := range map[string][]int{
		"orders-value": {1}, "orders.DLT-value": nil, "run-1.orders-key": nil, "run-1.input-value": nil,
	} {
		if got := versions(t, own, subject); !slices.Equal(got, want) {
			t.Errorf("after the run, %s has the versions %v, want %v", subject, got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestFaultsInFrontOfOwnRegistry answers in the place of the user's registry, which does not get the request.
func TestFaultsInFrontOfOwnRegistry(t *testing.T) {
	_, own := theirs(t)
	r := must.Get(Forward(t.Context(), own, "run-1", Schema{"orders-value", avro("string")}))(t)
	service := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	end := r.Answer(func(_, registers bool) int { return map[bool]int{true: http.StatusConflict}[registers] })
	if _, err := service.CreateSchema(t.Context(), "orders.DLT-value", avro("long")); err == nil {
		t.Error("a schema was registered")
	}
	if got := versions(t, own, "orders.DLT-value"); got != nil {
		t.Errorf("the user's registry has the versions %v", got)
	}
	end()
	if _, err := service.CreateSchema(t.Context(), "orders.DLT-value", avro("long")); err != nil {
		t.Errorf("after the fault: %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestOwnRegistryThatCannotBeUsed leaves nothing running, and nothing registered.
func TestOwnRegistryThatCannotBeUsed(t *testing.T) {
	_, own := theirs(t)
	for what, change := range map[string]func(*Own){
		"no credentials": func(o *Own) { o.Authorization = "" },
		"no authority":   func(o *Own) { o.Roots = nil },
		"no registry":    func(o *Own) { o.URL = "http://127.0.0.1:1" },
	} {
		broken := own
		change(&broken)
		if _, err := Forward(t.Context(), broken, "run-1", Schema{"orders-key", avro("long")}); err == nil {
			t.Errorf("%s: started", what)
		}
	}
	_, err := Forward(t.Context(), own, "run-1", Schema{"orders-key", avro("long")},
		Schema{"orders-more", sr.Schema{Schema: "{"}})
	if err == nil || versions(t, own, "run-1.orders-key") != nil {
		t.Errorf("after a second schema that is none: %v, %v", err, versions(t, own, "run-1.orders-key"))
	}
}

// TestSubjectsWithSlashes forwards names that are escaped in paths as they are, and removes what was added under them.
func TestSubjectsWithSlashes(t *testing.T) {
	const their, added = "shop/orders 100%-value", "shop/orders.DLT-value"
	fake, own := theirs(t)
	fake.SeedSchema(their, 1, 8, avro("bytes"))
	r := must.Get(Forward(t.Context(), own, "run-1", Schema{their, avro("bytes")}))(t)
	if known := r.Known[0]; known.Subject != their || known.ID != 8 {
		t.Errorf("the schema is %+v", known)
	}
	service := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	if got, err := service.SchemaByVersion(t.Context(), their, -1); err != nil || got.ID != 8 {
		t.Errorf("the latest version of %s is %+v, %v", their, got, err)
	}
	must.Get(service.CreateSchema(t.Context(), added, avro("long")))(t)
	if got := versions(t, own, added); !slices.Equal(got, []int{1}) {
		t.Errorf("during the run, %s has the versions %v", added, got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for subject, want := range map[string][]int{their: {1}, added: nil} {
		if got := versions(t, own, subject); !slices.Equal(got, want) {
			t.Errorf("after the run, %s has the versions %v, want %v", subject, got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
