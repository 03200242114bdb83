package registry

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientsFindTheSchema asks as serializers and deserializers do: by id, by the latest version, and with a schema of
// their own for another topic.
func TestClientsFindTheSchema(t *testing.T) {
	schema := sr.Schema{Schema: `{"type":"string"}`, Type: sr.TypeAvro}
	r, err := Start("orders-value", 1, schema)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sr.NewClient(sr.URLs("http://" + r.Address()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.SchemaByID(t.Context(), 1); err != nil || got.Schema != schema.Schema {
		t.Errorf("schema 1 is %v, %v", got, err)
	}
	if got, err := client.SchemaByVersion(t.Context(), "orders-value", -1); err != nil || got.ID != 1 {
		t.Errorf("the latest is %v, %v", got, err)
	}
	added, err := client.CreateSchema(t.Context(), "orders.DLT-value", sr.Schema{Schema: `{"type":"long"}`, Type: sr.TypeAvro})
	if err != nil || added.ID <= 1 {
		t.Errorf("a schema of the subject's own is %v, %v", added, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.SchemaByID(context.Background(), 1); err == nil {
		t.Error("it answers after Close")
	}
}
