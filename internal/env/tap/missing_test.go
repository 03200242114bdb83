package tap

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A topic that does not exist is told, until it does.
func TestMissingTopics(t *testing.T) {
	_, r := cluster(t, 1, nil)
	admin := kadm.NewClient(client(t, r.open(t, 0)))
	ask := func(want ...string) {
		t.Helper()
		if _, err := admin.Metadata(context.Background(), runTopics()[0].Name, "outbox", "audit"); err != nil {
			t.Fatal(err)
		}
		if got := r.Missing(); !slices.Equal(got, want) {
			t.Errorf("missing %q, want %q", got, want)
		}
	}
	ask("audit", "outbox")
	if _, err := admin.CreateTopic(context.Background(), 1, 1, nil, "outbox"); err != nil {
		t.Fatal(err)
	}
	ask("audit")
}
