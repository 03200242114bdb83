package embedded

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file makes answers describe stopped brokers as a real cluster does. An answer that kfake made just before a
// broker stopped may be edited just after. It then calls a partition leaderless that has a new leader, and the
// client asks again.

// edit corrects an answer.
func (e *Kafka) edit(request kmsg.Request, response kmsg.Response) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	switch response := response.(type) {
	case *kmsg.MetadataResponse:
		e.editMetadata(response)
	case *kmsg.DescribeClusterResponse:
		response.Brokers = slices.DeleteFunc(response.Brokers, func(b kmsg.DescribeClusterResponseBroker) bool {
			return !e.layout.alive[b.NodeID]
		})
		response.ControllerID = e.controllerID(response.ControllerID)
	case *kmsg.FindCoordinatorResponse:
		e.editCoordinators(request.(*kmsg.FindCoordinatorRequest), response)
	case *kmsg.OffsetForLeaderEpochResponse:
		e.editEpochEnds(request.(*kmsg.OffsetForLeaderEpochRequest), response)
	case *kmsg.FetchResponse:
		withoutLeaders(response)
	case *kmsg.OffsetFetchResponse:
		withoutOffsets(request.(*kmsg.OffsetFetchRequest), response)
		withTexts(response)
	case *kmsg.CreateTopicsResponse:
		withSources(response)
	case *kmsg.DescribeTopicPartitionsResponse:
		e.editDescribed(response)
	case *kmsg.ApiVersionsResponse:
		response.SupportedFeatures = slices.DeleteFunc(response.SupportedFeatures,
			func(f kmsg.ApiVersionsResponseSupportedFeature) bool { return f.MinVersion == 0 })
	}
}

// withRebalanceTimeout gives the other members of the group as much time to join as Kafka does (up to 3.9) after
// version 0 of JoinGroup, which names none: that of the session (JoinGroupRequest.maybeOverrideRebalanceTimeout). kfake
// gives them none, so that whoever joins expels all others, and a group of several members never settles
// (sarama-cluster 2.1).
//
//nolint:revive // the signature is kfake's
func withRebalanceTimeout(request kmsg.Request) (answer kmsg.Response, err error, handled bool) {
	if join, ok := request.(*kmsg.JoinGroupRequest); ok && join.Version == 0 {
		join.RebalanceTimeoutMillis = join.SessionTimeoutMillis
	}
	return nil, nil, false
}

// failsAtLevelZero reports whether clients that ask in this version of ApiVersions may fail at a feature whose lowest
// level is 0, as Java's do before 3.9 (KAFKA-17492). Kafka leaves such features out below version 4; kfake names them.
func failsAtLevelZero(version int16) bool { return version == 3 }

// withSources says of the settings of new topics that they are the topics' own. kfake leaves open where they are from,
// and answers null for a topic that is created without any. Java's Admin then fails for good
// (DescribeConfigsResponse.ConfigSource.forId, KafkaAdminClient.getCreateTopicsCall).
func withSources(response *kmsg.CreateTopicsResponse) {
	for i := range response.Topics {
		if response.Topics[i].Configs == nil {
			response.Topics[i].Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		for c := range response.Topics[i].Configs {
			response.Topics[i].Configs[c].Source = int8(kmsg.ConfigSourceDynamicTopicConfig)
		}
	}
}

// withoutOffsets answers for a group that does not exist as Kafka does: no partition has a commit
// (OffsetMetadataManager.fetchOffsets). kfake refuses the request, which ends a consumer that assigns partitions to
// itself and begins at the committed offsets, as its first commit makes the group.
func withoutOffsets(request *kmsg.OffsetFetchRequest, response *kmsg.OffsetFetchResponse) {
	// Up to version 7, an answer is about one group, and says before version 2 only what is said of its partitions.
	if response.ErrorCode == kerr.GroupIDNotFound.Code || response.Version < 2 && len(response.Topics) == 0 {
		response.ErrorCode = 0
		for _, asked := range request.Topics {
			topic := kmsg.OffsetFetchResponseTopic{Topic: asked.Topic}
			for _, p := range asked.Partitions {
				none := kmsg.NewOffsetFetchResponseTopicPartition()
				none.Partition, none.Offset = p, -1
				topic.Partitions = append(topic.Partitions, none)
			}
			response.Topics = append(response.Topics, topic)
		}
	}
	for g := range min(len(response.Groups), len(request.Groups)) {
		group := &response.Groups[g]
		if group.ErrorCode != kerr.GroupIDNotFound.Code {
			continue
		}
		group.ErrorCode = 0
		for _, asked := range request.Groups[g].Topics {
			topic := kmsg.OffsetFetchResponseGroupTopic{Topic: asked.Topic, TopicID: asked.TopicID}
			for _, p := range asked.Partitions {
				none := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				none.Partition, none.Offset = p, -1
				topic.Partitions = append(topic.Partitions, none)
			}
			group.Topics = append(group.Topics, topic)
		}
	}
}

// namesLeaderTooEarly reports whether kfake names the new leader in an answer of this version of Fetch, and Kafka does
// not. The field exists since version 12, but Kafka fills it in since version 16 only, which has the leader's address
// beside it (KafkaApis.handleFetchRequest). kafka-python 3.0 follows it to a broker that it does not know yet, and its
// poll then fails.
func namesLeaderTooEarly(version int16) bool { return version >= 12 && version < 16 }

func withoutLeaders(response *kmsg.FetchResponse) {
	for i := range response.Topics {
		for p := range response.Topics[i].Partitions {
			response.Topics[i].Partitions[p].CurrentLeader = kmsg.NewFetchResponseTopicPartitionCurrentLeader()
		}
	}
}

// withTexts says that no text was committed with an offset as Kafka does, which has no null there
// (OffsetFetchResponse.NO_METADATA). sarama 1.45 fails at null in versions 6 and 7, and its members never begin to
// consume.
func withTexts(response *kmsg.OffsetFetchResponse) {
	none := ""
	for i := range response.Topics {
		for p := range response.Topics[i].Partitions {
			found := &response.Topics[i].Partitions[p]
			found.Metadata = cmp.Or(found.Metadata, &none)
		}
	}
	for i := range response.Groups {
		for t := range response.Groups[i].Topics {
			for p := range response.Groups[i].Topics[t].Partitions {
				found := &response.Groups[i].Topics[t].Partitions[p]
				found.Metadata = cmp.Or(found.Metadata, &none)
			}
		}
	}
}

// editEpochEnds corrects the end of an epoch after which nothing was written yet. Kafka knows that the epoch is
// still the last one in the log and answers with the end of the log (LeaderEpochFileCache.endOffsetFor). kfake
// answers that it does not know the epoch. A client must take that for a divergence that cannot be located, and
// restarts from the beginning of the partition. It happens in this sequence: a broker stops, leaders move, and a
// consumer validates its position before the next record is written.
func (e *Kafka) editEpochEnds(request *kmsg.OffsetForLeaderEpochRequest, response *kmsg.OffsetForLeaderEpochResponse) {
	for i := range response.Topics {
		topic := &response.Topics[i]
		for p := range topic.Partitions {
			found := &topic.Partitions[p]
			asked, known := askedEpoch(request, topic.Topic, found.Partition)
			info := e.kafka.PartitionInfo(topic.Topic, found.Partition)
			if !known || info == nil || found.ErrorCode != 0 || found.EndOffset >= 0 || asked > info.Epoch {
				continue
			}
			// Reading the end after kfake has answered is correct: the log only grows, so the position is valid either
			// way.
			found.LeaderEpoch, found.EndOffset = asked, info.HighWatermark
		}
	}
}

func askedEpoch(request *kmsg.OffsetForLeaderEpochRequest, topic string, partition int32) (epoch int32, known bool) {
	for _, asked := range request.Topics {
		for _, p := range asked.Partitions {
			if asked.Topic == topic && p.Partition == partition {
				return p.LeaderEpoch, true
			}
		}
	}
	return 0, false
}

// controllerID returns the controller, or -1 (unknown) while its broker is stopped.
func (e *Kafka) controllerID(id int32) int32 {
	if e.layout.alive[id] {
		return id
	}
	return -1
}

// editMetadata leaves out stopped brokers, and sets the actual leaders, replicas, in-sync and offline replicas. It
// also learns of topics that clients created, so that their leaders move as well when a broker stops.
func (e *Kafka) editMetadata(response *kmsg.MetadataResponse) {
	response.Brokers = slices.DeleteFunc(response.Brokers, func(b kmsg.MetadataResponseBroker) bool {
		return !e.layout.alive[b.NodeID]
	})
	response.ControllerID = e.controllerID(response.ControllerID)
	for i := range response.Topics {
		topic := &response.Topics[i]
		if topic.ErrorCode != 0 || topic.Topic == nil {
			continue
		}
		leaders := make(map[int32]int32, len(topic.Partitions))
		for _, partition := range topic.Partitions {
			leaders[partition.Partition] = partition.Leader
		}
		e.layout.learn(*topic.Topic, leaders)
		for p := range topic.Partitions {
			e.editPartition(*topic.Topic, &topic.Partitions[p])
		}
	}
}

func (e *Kafka) editPartition(topic string, partition *kmsg.MetadataResponseTopicPartition) {
	replicas, isr, offline, known := e.placed(topic, partition.Partition)
	if !known {
		return
	}
	partition.Replicas, partition.ISR, partition.OfflineReplicas = replicas, isr, offline
	if !e.layout.alive[partition.Leader] {
		partition.ErrorCode, partition.Leader = kerr.LeaderNotAvailable.Code, -1
	}
}

// placed returns the replicas of a partition, those that are in sync, and those that are offline. It does not know a
// topic that a client has created until the first Metadata request for it.
func (e *Kafka) placed(topic string, partition int32) (replicas, isr, offline []int32, known bool) {
	if table := e.layout.topics[topic]; table == nil || int(partition) >= len(table.homes) {
		return nil, nil, nil, false
	}
	replicas = e.layout.replicas(topic, partition)
	for _, id := range replicas {
		if e.layout.alive[id] {
			isr = append(isr, id)
		} else {
			offline = append(offline, id)
		}
	}
	return replicas, isr, offline, true
}

// editDescribed is editMetadata for the request with which Java's Admin describes topics. kfake leaves out the lists of
// eligible leaders (KIP-966). Kafka always sends them, and Java's Admin fails without them
// (DescribeTopicPartitionsResponse.partitionToTopicPartitionInfo).
func (e *Kafka) editDescribed(response *kmsg.DescribeTopicPartitionsResponse) {
	for i := range response.Topics {
		topic := &response.Topics[i]
		for p := range topic.Partitions {
			partition := &topic.Partitions[p]
			partition.EligibleLeaderReplicas, partition.LastKnownELR = []int32{}, []int32{}
			if replicas, isr, offline, known := e.placed(*topic.Topic, partition.Partition); known {
				partition.Replicas, partition.ISR, partition.OfflineReplicas = replicas, isr, offline
			}
			if !e.layout.alive[partition.LeaderID] {
				partition.LeaderID = -1 // without an error, as in KRaftMetadataCache
			}
		}
	}
}

// editCoordinators answers with coordinators that are alive and on no reserved broker, and moves them if necessary.
func (e *Kafka) editCoordinators(request *kmsg.FindCoordinatorRequest, response *kmsg.FindCoordinatorResponse) {
	if response.Version <= 3 {
		if response.ErrorCode == 0 {
			response.NodeID, response.Host, response.Port, response.ErrorCode = e.coordinatorOf(request.CoordinatorKey)
		}
		return
	}
	for i := range response.Coordinators {
		found := &response.Coordinators[i]
		if found.ErrorCode == 0 {
			found.NodeID, found.Host, found.Port, found.ErrorCode = e.coordinatorOf(found.Key)
		}
	}
}

// coordinatorOf returns the coordinator of a group or transactional id. It moves the coordinator first if the broker
// may not coordinate.
func (e *Kafka) coordinatorOf(key string) (node int32, host string, port int32, code int16) {
	node = e.kafka.CoordinatorFor(key)
	if !slices.Contains(e.layout.mayCoordinate(), node) {
		e.layout.coordinators[key] = coordinator{}
		e.frozen(func() { e.settleCoordinators() })
		node = e.kafka.CoordinatorFor(key)
	}
	if !e.layout.alive[node] {
		return -1, "", -1, kerr.CoordinatorNotAvailable.Code
	}
	if place := e.layout.coordinators[key]; place.home == 0 {
		e.layout.coordinators[key] = coordinator{home: node, now: node}
	}
	address := e.gates[node].address
	return node, address.IP.String(), int32(address.Port), 0
}
