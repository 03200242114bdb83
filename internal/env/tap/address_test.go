package tap

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
)

// fill gives every field of a message a value. Lists get two elements, hosts and ports get recognisable addresses,
// node ids are 1 and 99.
func fill(v reflect.Value, index int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch {
			case !v.Field(i).CanSet() || name == "Version" || name == "UnknownTags":
			case name == "Host":
				v.Field(i).SetString(fmt.Sprintf("leak-%d", index))
			case name == "NodeID" || name == "BrokerID":
				v.Field(i).SetInt([]int64{1, 99}[index])
			case name == "ErrorCode":
			default:
				fill(v.Field(i), index)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			if v.Index(i).CanAddr() {
				if fresh, ok := v.Index(i).Addr().Interface().(interface{ Default() }); ok {
					fresh.Default()
				}
			}
			fill(v.Index(i), i)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), index)
	case reflect.String:
		v.SetString("text")
	case reflect.Int32, reflect.Int64, reflect.Uint16:
		if v.CanInt() {
			v.SetInt(9092)
		} else {
			v.SetUint(9092)
		}
	default:
	}
}

// between reports whether brokers and controllers use the API among themselves. No client of a subject receives its
// answers.
func between(key int16) bool {
	// Vote, Begin- and EndQuorumEpoch, FetchSnapshot, UpdateRaftVoter, ReadShareGroupStateSummary
	return slices.Contains([]int16{52, 53, 54, 59, 82, 87}, key)
}

// No answer of any API and version that kmsg knows carries an address that bypasses the tap, including APIs that a
// later kmsg adds.
func TestNoAddressLeaks(t *testing.T) {
	r := newRig(t, []Upstream{{NodeID: 1, Dial: network.Upstream{Address: "127.0.0.1:1"}.Connect}}, nil)
	own := r.open(t, 0)
	c := newConn(r.Tap, r.Upstreams[0], r.instances[0], nil)
	c.log = zerolog.Nop()
	carriers := map[string]bool{}
	for key := range int16(256) {
		request := kmsg.RequestForKey(key)
		if request == nil || between(key) {
			continue
		}
		for version := range request.MaxVersion() + 1 {
			response := kmsg.ResponseForKey(key)
			response.SetVersion(version)
			fill(reflect.ValueOf(response).Elem(), 0)
			head := header{key: key, version: version, known: true, flexible: response.IsFlexible()}
			fr := &frame{data: encodeResponse(head, response)}
			if !strings.Contains(string(fr.data), "leak-") || strings.HasPrefix(apiName(key), "StreamsGroup") {
				continue // StreamsGroup: the endpoints belong to the users
			}
			if response.Key() == keyDescribeQuorum || strings.Contains(string(fr.data), "leak-") {
				_, out, err := c.prepare(&pending{header: head}, fr)
				if err != nil {
					t.Fatalf("%s v%d: %v", apiName(key), version, err)
				}
				if strings.Contains(string(out), "leak-") && !isHostOfClient(key) {
					t.Errorf("%s v%d leaks an address", apiName(key), version)
				}
				if !isHostOfClient(key) {
					if !strings.Contains(string(out), "127.0.0.1") {
						t.Errorf("%s v%d does not name the tap %s", apiName(key), version, own)
					}
					carriers[apiName(key)] = true
				}
			}
		}
	}
	for _, name := range []string{"Produce", "Fetch", "Metadata", "FindCoordinator", "DescribeCluster", "DescribeQuorum",
		"ShareFetch", "ShareAcknowledge"} {
		if !carriers[name] {
			t.Errorf("%s was not tried with an address", name)
		}
	}
}

// isHostOfClient reports whether the Host of an API's messages is where a client may come from, as in access control
// lists.
func isHostOfClient(key int16) bool { return key == 29 || key == 31 }

// Ports and node ids in answers are those of the instance's listeners. Unknown nodes are removed.
func TestRewrittenAddresses(t *testing.T) {
	r := newRig(t, []Upstream{
		{NodeID: 1, Dial: network.Upstream{Address: "a:1"}.Connect},
		{NodeID: 5, Dial: network.Upstream{Address: "b:2"}.Connect},
	}, nil)
	addresses := strings.Split(r.open(t, 0), ",")
	c := newConn(r.Tap, r.Upstreams[0], r.instances[0], nil)
	c.log = zerolog.Nop()
	metadata := kmsg.NewPtrMetadataResponse()
	for _, node := range []int32{5, 99, 1} {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = node, "kafka", 9092
		metadata.Brokers = append(metadata.Brokers, b)
	}
	c.rewriteAddresses(metadata)
	for i, want := range []struct {
		node int32
		at   string
	}{{5, addresses[1]}, {1, addresses[0]}} {
		got := metadata.Brokers[i]
		if got.NodeID != want.node || net.JoinHostPort(got.Host, fmt.Sprint(got.Port)) != want.at {
			t.Errorf("broker %+v, want %+v", got, want)
		}
	}
	if len(metadata.Brokers) != 2 {
		t.Errorf("%d brokers are left", len(metadata.Brokers))
	}
	for _, version := range []int16{2, 4} {
		found := kmsg.NewPtrFindCoordinatorResponse()
		found.SetVersion(version)
		found.NodeID, found.Host, found.Port = 99, "kafka", 9092
		found.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{NodeID: 99, Host: "kafka", Port: 9092},
			{NodeID: 5, Host: "kafka", Port: 9092}}
		c.rewriteAddresses(found)
		one, two := found.Coordinators[0], found.Coordinators[1]
		if one.ErrorCode != kerr.CoordinatorNotAvailable.Code || one.Host != "" || two.ErrorCode != 0 ||
			two.Host != "127.0.0.1" {
			t.Errorf("v%d: %+v", version, found)
		}
		if version < 4 && (found.ErrorCode != kerr.CoordinatorNotAvailable.Code || found.NodeID != -1 || found.Host != "") {
			t.Errorf("v%d: %+v", version, found)
		}
	}
}

// A client connects to nothing but the tap, also when partitions move and brokers are described.
func TestClientsStayOnTheTap(t *testing.T) {
	c, r := cluster(t, 3, nil)
	bootstrap := strings.Split(r.open(t, 0), ",")
	var mu sync.Mutex
	dialed := map[string]bool{}
	dialer := kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed[address] = true
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	cl := client(t, bootstrap[0], dialer, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t.input"))
	produced := 0
	for round := range int32(3) {
		for p := range int32(6) {
			if err := c.MoveTopicPartition("t.input", p, (round+p)%3); err != nil {
				t.Fatal(err)
			}
		}
		direct(t, c.ListenAddrs(), r.ids, "t.input", produced, 6)
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.input", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produced += 7
	}
	for n := 0; n < produced; {
		n += poll(t, cl).NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(cl).BrokerMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	mu.Lock()
	defer mu.Unlock()
	for address := range dialed {
		if !slices.Contains(bootstrap, address) {
			t.Errorf("the client went to %s; the tap is %v", address, bootstrap)
		}
	}
	if len(dialed) != 3 {
		t.Errorf("the client went to %d brokers, want all 3", len(dialed))
	}
	if len(r.log.of(history.KindFetched)) == 0 {
		t.Error("nothing was fetched through the tap")
	}
}
