package reports

import "testing"

func TestEffectsAreNumbered(t *testing.T) {
	for _, one := range []struct {
		effect string
		n      int64
		want   string
	}{
		{"connections cut", 1, "connection cut"}, {"connections cut", 2, "connections cut"},
		{"process ended", 1, "process ended"}, {"process ended", 3, "processes ended"},
		{"entries locked by a worker whose clock is wrong", 1, "entry locked by a worker whose clock is wrong"},
		{"dead letters written again", 1, "dead letter written again"}, {"responses dropped", 1, "response dropped"},
		{"database stopped", 2, "database stopped"},
	} {
		if got := numbered(one.effect, one.n); got != one.want {
			t.Errorf("%d %s, want %s", one.n, got, one.want)
		}
	}
}
