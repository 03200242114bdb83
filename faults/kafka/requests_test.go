package kafka

import "testing"

// What a fault hits decides for which consumers it can have an effect.
func TestWhoMakesTheRequests(t *testing.T) {
	t.Parallel()
	type kinds struct{ classic, group, commits bool }
	for api, want := range map[string]kinds{
		apiJoinGroup: {classic: true, group: true}, apiHeartbeat: {classic: true, group: true},
		apiConsumerGroup: {group: true}, apiShareGroup: {group: true}, apiFindCoordinator: {group: true},
		apiOffsetCommit: {commits: true}, apiTxnOffsetCommit: {commits: true}, apiFetch: {}, apiProduce: {}, apiMetadata: {},
	} {
		k := Kafka{API: api}
		if got := (kinds{k.OfClassicGroup(), k.OfGroup(), k.OfCommits()}); got != want {
			t.Errorf("%s: %+v, want %+v", api, got, want)
		}
	}
}
