package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

func TestPlace(t *testing.T) {
	for _, one := range []struct {
		topic  cluster.Topic
		shared []int32
		want   [][]int32
	}{
		{cluster.Topic{Partitions: 2}, []int32{1}, [][]int32{{1}, {1}}},
		{cluster.Topic{Partitions: 3}, []int32{1, 2}, [][]int32{{1, 2}, {2, 1}, {1, 2}}},
		{cluster.Topic{Partitions: 4}, []int32{1, 2, 3, 4}, [][]int32{{1, 2, 3}, {2, 3, 4}, {3, 4, 1}, {4, 1, 2}}},
		{cluster.Topic{Partitions: 2, Broker: 3}, []int32{1, 2}, [][]int32{{3}, {3}}},
	} {
		got := Place(one.topic, one.shared)
		if !slices.EqualFunc(got, one.want, slices.Equal) {
			t.Errorf("%+v on %v lies on %v, want %v", one.topic, one.shared, got, one.want)
		}
	}
}

// Topics without a reservation avoid reserved brokers, every replica is on a different broker, and leaders rotate.
func TestPlacementHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := make([]int32, rapid.IntRange(1, 9).Draw(t, "brokers"))
		for i := range brokers {
			brokers[i] = int32(i + 1)
		}
		topics := map[string]cluster.Topic{}
		for _, name := range []string{"a", "b", "c"} {
			topics[name] = cluster.Topic{
				Name: name, Partitions: rapid.IntRange(1, 12).Draw(t, "partitions"),
				Broker: rapid.Int32Range(0, int32(len(brokers))).Draw(t, "broker"),
			}
		}
		free := Shared(brokers, maps.Values(topics))
		reserved := map[int32]bool{}
		for _, topic := range topics {
			reserved[topic.Broker] = true
		}
		delete(reserved, 0)
		led := map[int32]int{}
		for name, topic := range topics {
			for _, replicas := range Place(topic, free) {
				distinct := map[int32]bool{}
				for _, number := range replicas {
					distinct[number] = true
					if topic.Broker == 0 && reserved[number] && len(reserved) < len(brokers) {
						t.Fatalf("%s lies on broker %d, which is reserved", name, number)
					}
				}
				want := min(3, len(free))
				if topic.Broker != 0 {
					want = 1
				}
				if len(distinct) != want || len(replicas) != want {
					t.Fatalf("%s has replicas %v, want %d", name, replicas, want)
				}
				if name == "a" && topic.Broker == 0 {
					led[replicas[0]]++
				}
			}
		}
		if counts := slices.Sorted(maps.Values(led)); len(counts) == len(free) && counts[len(counts)-1]-counts[0] > 1 {
			t.Fatalf("the leaders are not spread: %v", led)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, one := range []struct {
		topic cluster.Topic
		want  string
	}{
		{cluster.Topic{Name: "x", Partitions: 1, Broker: 2}, ""},
		{cluster.Topic{Name: "x"}, "creating topic x: 0 partitions were asked for: 1 to 1000 are possible"},
		{cluster.Topic{Name: "x", Partitions: 1, Broker: 3},
			"creating topic x: it is to lie on broker 3: the cluster has brokers 1 to 2"},
	} {
		err := validate(one.topic, []int32{1, 2})
		if one.want == "" && err != nil || one.want != "" && (err == nil || err.Error() != one.want) {
			t.Errorf("%+v: %v, want %q", one.topic, err, one.want)
		}
	}
}

// The numbers are Java's: Utils.abs("…".hashCode()) % partitions.
func TestGroupPartition(t *testing.T) {
	for group, abs := range map[string]int{
		"": 0, "group": 98629247, "orders": 1008770331, "dlqbench-smoke-1": 2072448403, "polygenelubricants": 0,
		"größe": 98762257, "\U0001F600": 1772899,
	} {
		if got := groupPartition(group, 50); got != abs%50 {
			t.Errorf("%q is kept in partition %d, want %d", group, got, abs%50)
		}
	}
}

func TestNext(t *testing.T) {
	for _, one := range []struct {
		leader   int32
		isr, may []int32
		want     int32
	}{
		{1, []int32{3, 1, 2}, []int32{1, 2, 3}, 2},
		{3, []int32{3, 1, 2}, []int32{1, 2, 3}, 1},
		{1, []int32{1, 2, 3}, []int32{1, 3}, 3},
		{3, []int32{1, 2, 3}, []int32{2, 3}, 2},
		{1, []int32{1, 2}, []int32{1}, 0},
		{1, []int32{1}, []int32{1, 2}, 0},
	} {
		if got := next(Partition{Leader: one.leader, ISR: one.isr}, one.may); got != one.want {
			t.Errorf("after %d of %v, where %v may, comes %d, want %d", one.leader, one.isr, one.may, got, one.want)
		}
	}
	if got := rotated([]int32{1, 2, 3}, 3); !slices.Equal(got, []int32{3, 1, 2}) {
		t.Errorf("rotated: %v", got)
	}
}

// The error of an unsuccessful wait says what was missing.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := wait(t.Context(), "rain", func(context.Context) string { asked++; return "it is dry" })
		if err == nil || !strings.Contains(err.Error(), "waiting for rain: it is dry") ||
			!errors.Is(err, context.DeadlineExceeded) || asked < 2 {
			t.Errorf("after %d questions: %v", asked, err)
		}
		asked = 0
		if err := wait(t.Context(), "rain", func(context.Context) string {
			if asked++; asked < 3 {
				return "it is dry"
			}
			return ""
		}); err != nil || asked != 3 {
			t.Errorf("after %d questions: %v", asked, err)
		}
	})
}

func TestRefusal(t *testing.T) {
	why := "because"
	if err := refusal(kerr.PolicyViolation.Code, &why); !isRefusal(err, kerr.PolicyViolation) ||
		!strings.HasSuffix(err.Error(), ": because") {
		t.Errorf("it says %v", err)
	}
	if err := refusal(0, nil); err != nil {
		t.Errorf("no error is %v", err)
	}
}

// Topics of fewer than three replicas stay writable with one of them.
func TestTolerant(t *testing.T) {
	const setting = "min.insync.replicas"
	asked := map[string]string{setting: "2", "x": "y"}
	for _, one := range []struct {
		brokers, broker int32
		others          []int32
		want            string
	}{
		{1, 0, nil, "1"}, {2, 0, nil, "1"}, {3, 0, nil, ""}, {3, 0, []int32{3}, "1"}, {4, 0, []int32{3}, ""},
		{3, 0, []int32{1, 2, 3}, ""}, {4, 4, nil, "1"},
	} {
		brokers, topics := []int32{1, 2, 3, 4}[:one.brokers], map[string]cluster.Topic{}
		for _, number := range append(one.others, one.broker) {
			topics[fmt.Sprint(number)] = cluster.Topic{Broker: number}
		}
		plain := cluster.Topic{Name: "a", Partitions: 2, Broker: one.broker}
		set := cluster.Topic{Name: "b", Partitions: 1, Broker: one.broker, Configs: asked}
		got := tolerant([]cluster.Topic{plain, set}, Shared(brokers, maps.Values(topics)))
		if got[0].Configs[setting] != one.want || !maps.Equal(got[1].Configs, asked) || len(plain.Configs) != 0 {
			t.Errorf("%d brokers, on broker %d, %v reserved: %v", one.brokers, one.broker, one.others, got)
		}
	}
}
