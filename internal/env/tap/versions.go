package tap

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's API keys that the tap handles specially.
const (
	keyProduce                 = 0
	keyFetch                   = 1
	keyMetadata                = 3
	keyOffsetCommit            = 8
	keyFindCoordinator         = 10
	keyJoinGroup               = 11
	keyHeartbeat               = 12
	keyLeaveGroup              = 13
	keySyncGroup               = 14
	keySaslHandshake           = 17
	keySaslAuthenticate        = 36
	keyAPIVersions             = 18
	keyCreateTopics            = 19
	keyEndTxn                  = 26
	keyTxnOffsetCommit         = 28
	keyDescribeQuorum          = 55
	keyDescribeCluster         = 60
	keyConsumerGroupHeartbeat  = 68
	keyDescribeTopicPartitions = 75
	keyShareGroupHeartbeat     = 76
	keyShareFetch              = 78
	keyShareAcknowledge        = 79
	keyStreamsGroupHeartbeat   = 88
)

// apis are the APIs and versions that the tap reads: those that kmsg can decode.
type apis struct{ max, flexible []int16 }

// newAPIs queries kmsg. Kafka numbers its keys consecutively; 256 leaves room.
func newAPIs() *apis {
	const keys = 256
	a := &apis{max: make([]int16, keys), flexible: make([]int16, keys)}
	for key := range int16(keys) {
		a.max[key], a.flexible[key] = -1, 1<<15-1
		request := kmsg.RequestForKey(key)
		if request == nil {
			continue
		}
		a.max[key] = request.MaxVersion()
		for version := range request.MaxVersion() + 1 {
			request.SetVersion(version)
			if request.IsFlexible() {
				a.flexible[key] = version
				break
			}
		}
	}
	return a
}

// maxVersion returns the newest version of the API that the tap reads, -1 if it does not read the API.
func (a *apis) maxVersion(key int16) int16 {
	if key < 0 || int(key) >= len(a.max) {
		return -1
	}
	return a.max[key]
}

func (a *apis) isFlexible(key, version int16) bool {
	return key >= 0 && int(key) < len(a.flexible) && version >= a.flexible[key]
}

// responseHeader returns the length of a response's header: the correlation id and, for flexible versions, tags. The
// answer to ApiVersions never has tags, because a client reads it before it knows the broker's versions (KIP-511).
func (h header) responseHeader(payload []byte) (int, error) {
	w := wire{rest: payload}
	w.int32()
	if h.flexible && h.key != keyAPIVersions {
		w.tags()
	}
	if w.bad {
		return 0, fmt.Errorf("reading the response header of a %s: %w", apiName(h.key), errShort)
	}
	return len(payload) - len(w.rest), nil
}

// clamp removes from an ApiVersions response everything that the tap does not read, so that no client uses it. It
// returns descriptions of the removed items.
func (a *apis) clamp(response *kmsg.ApiVersionsResponse) (taken []string) {
	kept := response.ApiKeys[:0]
	for _, api := range response.ApiKeys {
		offered := api.MaxVersion
		api.MaxVersion = min(api.MaxVersion, a.maxVersion(api.ApiKey))
		if api.MaxVersion < api.MinVersion {
			taken = append(taken, apiName(api.ApiKey))
			continue
		}
		if api.MaxVersion < offered {
			taken = append(taken, fmt.Sprintf("%s above version %d", apiName(api.ApiKey), api.MaxVersion))
		}
		kept = append(kept, api)
	}
	response.ApiKeys = kept
	return taken
}

// unsupported returns a broker's answer to an ApiVersions request newer than itself: version 0, with the range to
// retry in (KIP-511).
func (a *apis) unsupported() *kmsg.ApiVersionsResponse {
	response := kmsg.NewPtrApiVersionsResponse()
	response.ErrorCode = kerr.UnsupportedVersion.Code
	own := kmsg.NewApiVersionsResponseApiKey()
	own.ApiKey, own.MaxVersion = keyAPIVersions, a.maxVersion(keyAPIVersions)
	response.ApiKeys = append(response.ApiKeys, own)
	return response
}

// authenticates reports whether requests of the API carry credentials. They pass unread: no interceptor is called,
// and no part of them is decoded.
func authenticates(key int16) bool { return key == keySaslHandshake || key == keySaslAuthenticate }

// decodesRequest reports whether requests of the API are decoded.
func decodesRequest(key int16) bool {
	switch key {
	case keyProduce, keyFetch, keyOffsetCommit, keyTxnOffsetCommit, keyEndTxn, keyFindCoordinator, keyJoinGroup,
		keySyncGroup, keyHeartbeat, keyLeaveGroup, keyConsumerGroupHeartbeat, keyShareGroupHeartbeat, keyShareFetch,
		keyShareAcknowledge, keyStreamsGroupHeartbeat:
		return true
	}
	return false
}

// decodesResponse reports whether responses of the API are decoded: observed ones, and all that can carry a broker's
// address or a topic's id.
func decodesResponse(key int16) bool {
	switch key {
	case keyMetadata, keyAPIVersions, keyCreateTopics, keyDescribeQuorum, keyDescribeCluster,
		keyDescribeTopicPartitions, keySaslHandshake:
		return true
	case keyLeaveGroup:
		return false // only the request matters
	}
	return decodesRequest(key)
}

// notLibrdkafka reports whether the first ApiVersions request of a connection shows another client. librdkafka asks in
// version 3 or newer (since 1.4), under its own name or that of a library that is built on it.
func notLibrdkafka(h header, payload []byte) bool {
	if h.version < 3 {
		return true
	}
	request := kmsg.NewPtrApiVersionsRequest()
	request.SetVersion(h.version)
	if !h.known || request.ReadFrom(payload[h.body:]) != nil {
		return false
	}
	return slices.Contains([]string{"apache-kafka-java", "kafka-python", "kgo", "sarama"}, request.ClientSoftwareName)
}

// apiName returns Kafka's name of the API, or its key if the API has no name yet.
func apiName(key int16) string {
	if kmsg.RequestForKey(key) == nil {
		return fmt.Sprintf("API key %d", key)
	}
	return kmsg.NameForKey(key)
}
