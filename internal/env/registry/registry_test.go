package registry

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientsFindTheSchema asks as serializers and deserializers do: by id, by the latest version, and with a schema of
// their own for another topic.
func TestClientsFindTheSchema(t *testing.T) {
	schema := sr.Schema{Schema: `{"type":"string"}`, Type: sr.TypeAvro}
	r := must.Get(Start(Schema{"orders-value", schema}, Schema{"orders-key", schema}))(t)
	client := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	if got, err := client.SchemaByID(t.Context(), 1); err != nil || got.Schema != schema.Schema {
		t.Errorf("schema 1 is %v, %v", got, err)
	}
	if got, err := client.SchemaByVersion(t.Context(), "orders-value", -1); err != nil || got.ID != 1 {
		t.Errorf("the latest is %v, %v", got, err)
	}
	for i, want := range []string{"orders-value", "orders-key"} {
		if known := r.Known[i]; known.Subject != want || known.ID != i+1 {
			t.Errorf("it was started with %+v", known)
		}
		if got, err := client.SchemaByGUID(t.Context(), r.Known[i].GUID); err != nil || got.Schema.Schema != schema.Schema {
			t.Errorf("the schema with the GUID %s is %v, %v", r.Known[i].GUID, got, err)
		}
	}
	added, err := client.CreateSchema(t.Context(), "orders.DLT-value", sr.Schema{Schema: `{"type":"long"}`,
		Type: sr.TypeAvro})
	if err != nil || added.ID <= 1 {
		t.Errorf("a schema of the subject's own is %v, %v", added, err)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := client.SchemaByID(context.Background(), 1); err == nil {
		t.Error("it answers after Close")
	}
}

// Of several schemas of a subject the last one is the latest version, and each is found by its id.
func TestVersionsOfASubject(t *testing.T) {
	older, newer := avro("string"), avro("long")
	r := must.Get(Start(Schema{"orders-value", older}, Schema{"orders-value", newer}, Schema{"orders-key", newer}))(t)
	defer r.Close(context.Background()) //nolint:errcheck // of no interest here
	client := must.Get(sr.NewClient(sr.URLs("http://" + r.Address())))(t)
	if got, err := client.SchemaByVersion(t.Context(), "orders-value", -1); err != nil || got.ID != 2 || got.Version != 2 {
		t.Errorf("the latest is %+v, %v", got, err)
	}
	for id, want := range map[int]sr.Schema{1: older, 2: newer} {
		if got, err := client.SchemaByID(t.Context(), id); err != nil || got.Schema != want.Schema {
			t.Errorf("schema %d is %v, %v; want %v", id, got, err, want)
		}
	}
	if last := r.Known[2]; last.Subject != "orders-key" || last.Version != 1 {
		t.Errorf("the third one is known as %+v", last)
	}
}

// TestApicurioClientsFindTheSchema asks as Apicurio's deserializers do.
func TestApicurioClientsFindTheSchema(t *testing.T) {
	r := must.Get(Start(Schema{"orders-value", sr.Schema{Schema: `"string"`, Type: sr.TypeAvro}}))(t)
	defer r.Close(context.Background())
	for path, want := range map[string]string{
		"/apis/registry/v2/ids/globalIds/1": `"string"`, "/apis/registry/v3/ids/contentIds/1?references=x": `"string"`,
		"/apis/registry/v3/ids/contentIds/1/references": "[]", "/apis/registry/v2/ids/globalIds/7": "404",
		"/apis/ccompat/v7/schemas/ids/1": `{"schema":"\"string\""}`, "/schemas/ids/1": `{"schema":"\"string\""}`,
		"/apis/registry/v4/ids/globalIds/1": "404",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Address()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response := must.Get(http.DefaultClient.Do(request))(t)
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		got := strings.TrimSpace(string(body))
		if response.StatusCode != http.StatusOK {
			got = strconv.Itoa(response.StatusCode)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
