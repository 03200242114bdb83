package clients_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// wireClient is one connection that speaks frames, so that every byte of an answer can be looked at.
type wireClient struct {
	net.Conn
	t *testing.T
}

func (r *rig) wire(t *testing.T, broker int) *wireClient {
	t.Helper()
	conn, err := net.Dial("tcp", strings.Split(r.bootstrap, ",")[broker-1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wireClient{conn, t}
}

// answer sends a request of its version and returns the answer's payload and what it decodes to.
func (w *wireClient) answer(request kmsg.Request) ([]byte, kmsg.Response) {
	w.t.Helper()
	if _, err := w.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, request, 1)); err !=
		nil {
		w.t.Fatal(err)
	}
	payload, err := w.receive()
	if err != nil {
		w.t.Fatalf("waiting for the answer to %s v%d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	response, body := request.ResponseKind(), payload[4:]
	if response.IsFlexible() && request.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:]
	}
	if err := response.ReadFrom(body); err != nil {
		w.t.Fatalf("decoding the answer to %s v%d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	return payload, response
}

func (w *wireClient) receive() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w, size[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(w, payload)
	return payload, err
}

// names says whether a message holds the host and port as Kafka writes them: the port is four bytes, in DescribeQuorum
// two.
func names(message []byte, key int16, port int) bool {
	host := []byte("127.0.0.1")
	if key == kmsg.DescribeQuorum.Int16() {
		return bytes.Contains(message, binary.BigEndian.AppendUint16(host, uint16(port)))
	}
	return bytes.Contains(message, binary.BigEndian.AppendUint32(host, uint32(port)))
}

// askedForAddresses are requests whose answers name brokers. Partition 0 is led by the first broker: another refuses a
// Produce to it and says who leads, as it does for a Fetch in a leader epoch of the past.
func (r *rig) askedForAddresses(id [16]byte) []kmsg.Request {
	metadata := kmsg.NewPtrMetadataRequest()
	group, several := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest()
	group.CoordinatorKey, group.CoordinatorKeys = r.group, []string{r.group}
	several.CoordinatorType, several.CoordinatorKey, several.CoordinatorKeys = 1, "one",
		[]string{"one", "two", "three", "four"}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	of := kmsg.NewDescribeQuorumRequestTopic()
	of.Topic, of.Partitions = "__cluster_metadata", append(of.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorum.Topics = append(quorum.Topics, of)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes = 1 << 20
	asked, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = 1<<20, 0
	asked.Topic, asked.TopicID, asked.Partitions = r.input, id, append(asked.Partitions, partition)
	fetch.Topics = append(fetch.Topics, asked)
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 5000
	written, into := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	into.Records = oneRecord()
	written.Topic, written.TopicID, written.Partitions = r.input, id, append(written.Partitions, into)
	produce.Topics = append(produce.Topics, written)
	return []kmsg.Request{metadata, group, several, kmsg.NewPtrDescribeClusterRequest(), quorum, fetch, produce}
}

// oneRecord is a batch with one record.
func oneRecord() []byte {
	const lengthAt, crcAt, crcEnd = 8, 17, 21
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		Records: []byte{14, 0, 0, 0, 1, 2, 'x', 0}, // length, attributes, two deltas, no key, a value of one byte, no headers
	}
	data := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(data[lengthAt:], uint32(len(data)-lengthAt-4))
	binary.BigEndian.PutUint32(data[crcAt:], crc32.Checksum(data[crcEnd:], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// versions are those of an API that the tap lets a client use.
func (w *wireClient) versions() map[int16][2]int16 {
	w.t.Helper()
	request := kmsg.NewPtrApiVersionsRequest()
	request.SetVersion(3)
	request.ClientSoftwareName, request.ClientSoftwareVersion = "wire", "1"
	_, response := w.answer(request)
	found := map[int16][2]int16{}
	for _, api := range response.(*kmsg.ApiVersionsResponse).ApiKeys {
		found[api.ApiKey] = [2]int16{api.MinVersion, api.MaxVersion}
	}
	return found
}

// TestAnswersNameTheTapAlone asks a real broker for addresses in every version that a client may use, and looks at the
// bytes.
func TestAnswersNameTheTapAlone(t *testing.T) {
	r := startCluster(t).newRig(t)
	// Afterwards no partition is in its first leader epoch any more, and partition 0 is led by the first broker.
	r.moveLeaders(t, 1)
	r.moveLeaders(t, 0)
	topics, err := r.admin.ListTopics(within(t), r.input)
	if err != nil {
		t.Fatal(err)
	}
	var own []int
	for address := range strings.SplitSeq(r.bootstrap, ",") {
		var port int
		if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &port); err != nil {
			t.Fatal(err)
		}
		own = append(own, port)
	}
	w := r.wire(t, 2)
	allowed := w.versions()
	withTap := map[string]int{}
	for _, request := range r.askedForAddresses(topics[r.input].ID) {
		name := kmsg.NameForKey(request.Key())
		first := allowed[request.Key()][0]
		if request.Key() == kmsg.Produce.Int16() {
			first = max(first, 3) // Kafka offers older ones for the sake of old librdkafkas, and takes none (KIP-896)
		}
		for version := first; version <= allowed[request.Key()][1]; version++ {
			request.SetVersion(version)
			answer, _ := w.answer(request)
			for port := range r.ports(t) {
				if names(answer, request.Key(), port) {
					t.Errorf("the answer to %s v%d names the broker at port %d", name, version, port)
				}
			}
			for _, port := range own {
				if names(answer, request.Key(), port) {
					withTap[name]++
					break
				}
			}
		}
	}
	t.Logf("answers that name the tap, by API: %v", withTap)
	for _, name := range []string{"Metadata", "FindCoordinator", "DescribeCluster", "DescribeQuorum", "Fetch", "Produce"} {
		if withTap[name] == 0 {
			t.Errorf("no answer to %s names a broker: nothing is shown", name)
		}
	}
}

// TestWhatCannotBeDecoded: clients are told of nothing that the tap could not decode, and one that uses it all the same
// is refused with a closed connection.
func TestWhatCannotBeDecoded(t *testing.T) {
	r := startCluster(t).newRig(t)
	for key, versions := range r.wire(t, 1).versions() {
		if request := kmsg.RequestForKey(key); request == nil || request.MaxVersion() < versions[1] {
			t.Errorf("API %d (%s) is offered up to version %d, which can't be decoded", key, kmsg.NameForKey(key), versions[1])
		}
	}
	for what, at := range map[string][2]int16{
		"an API that nobody knows": {900, 0}, "a Fetch of the future": {kmsg.Fetch.Int16(), 99},
		"an API of brokers among themselves": {6, 7},
	} {
		w := r.wire(t, 1)
		payload := binary.BigEndian.AppendUint16(nil, uint16(at[0]))
		payload = binary.BigEndian.AppendUint16(payload, uint16(at[1]))
		payload = append(payload, 0, 0, 0, 9, 0, 1, 'x', 0, 0)
		if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)); err != nil {
			t.Fatal(err)
		}
		timeout := net.Error(nil)
		if answer, err := w.receive(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s is not refused: %d bytes, %v", what, len(answer), err)
		}
	}
	// The tap refuses two of them, the brokers the third, which it reads.
	if unread := r.events.of(history.KindUnreadable); len(unread) != 2 {
		t.Errorf("recorded as unreadable: %v", unread)
	}
	if len(r.wire(t, 1).versions()) == 0 {
		t.Error("after that the tap serves nobody any more")
	}
}
