package clients_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// beginEarly makes the share group begin at the start of its topics, not at their ends. It returns when every broker
// knows: one that leads a partition and has not heard of it lets the group begin behind what is there, and the client
// would wait for those records for ever.
func (r *rig) beginEarly(t *testing.T) {
	t.Helper()
	const key = "share.auto.offset.reset"
	// What was handed out with an answer that was lost comes back when its lock runs out: 15 s is the least that
	// brokers allow, 30 s the default.
	r.configure(t, kmsg.ConfigResourceTypeGroupConfig, r.group,
		map[string]string{key: "earliest", "share.record.lock.duration.ms": "15000"})
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, r.group,
		[]string{key}
	request.Resources = append(request.Resources, resource)
	for _, b := range r.running.Brokers() {
		wait.Until(t, fmt.Sprintf("broker %d knows where the share group begins", b.Number), func() bool {
			response, err := r.client.Broker(int(b.ID)).Request(within(t), request)
			if err != nil {
				t.Fatalf("asking broker %d: %v", b.Number, err)
			}
			return slices.ContainsFunc(response.(*kmsg.DescribeConfigsResponse).Resources,
				func(d kmsg.DescribeConfigsResponseResource) bool {
					return slices.ContainsFunc(d.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
						return c.Name == key && c.Value != nil && *c.Value == "earliest"
					})
				})
		})
	}
}

// place is an offset of the input.
type place struct {
	partition int32
	offset    int64
}

// told is what the tap saw of one offset in a share group, in order.
type told struct {
	counts []int32 // delivery counts
	acks   []int32 // acknowledgements that the broker took
	// after counts deliveries that follow an acknowledgement which should have been the last. The broker promises
	// at-least-once (KIP-932): while the leader of a partition changes it may forget one.
	after int
}

func (r *rig) shareTraces() map[place]*told {
	found := map[place]*told{}
	for _, e := range r.events.of(history.KindShareAcquired, history.KindShareAckResponse) {
		for at := e.Offset; at <= e.Aux; at++ {
			where := place{e.Partition, at}
			if found[where] == nil {
				found[where] = &told{}
			}
			switch {
			case e.Kind == history.KindShareAcquired:
				found[where].counts = append(found[where].counts, e.N)
				if slices.Contains(found[where].acks, history.AckAccept) || slices.Contains(found[where].acks, history.AckReject) {
					found[where].after++
				}
			case e.Code == 0:
				found[where].acks = append(found[where].acks, e.N)
			}
		}
	}
	return found
}

// showUnfinished tells, when a test has failed, what the tap saw of those offsets that nobody accepted or rejected, and
// of what the client asks for.
func (r *rig) showUnfinished(t *testing.T) {
	if !t.Failed() {
		return
	}
	traces := r.shareTraces()
	for where, trace := range traces {
		if !slices.Contains(trace.acks, history.AckAccept) && !slices.Contains(trace.acks, history.AckReject) {
			t.Logf("not finished: partition %d offset %d, delivery counts %v, acknowledged as %v", where.partition, where.offset,
				trace.counts, trace.acks)
		}
	}
	t.Logf("%d offsets were handed out at all, of %d; spoken: %s", len(traces), records, r.spoken)
	t.Logf("what the client asks for: %s", r.asked)
	last := map[int32]history.Event{}
	for _, e := range r.events.of(history.KindShareAckResponse) {
		last[e.Partition] = e
	}
	for partition, e := range last {
		t.Logf("partition %d: the last acknowledgement, of offset %d, was answered %d at %s", partition, e.Offset, e.Code,
			e.Time)
	}
	handed := map[int32]history.Event{}
	for _, e := range r.events.of(history.KindShareAcquired) {
		handed[e.Partition] = e
	}
	for partition, e := range handed {
		t.Logf("partition %d: the last records handed out, offsets %d to %d, at %s", partition, e.Offset, e.Aux, e.Time)
	}
}

// expectShareGroup: each record was handed out, with delivery counts that grow, and was acknowledged as the client says
// it was.
func (r *rig) expectShareGroup(t *testing.T) {
	t.Helper()
	traces := r.shareTraces()
	var accepted, released, rejected, again, after int
	for where, trace := range traces {
		after += trace.after
		if len(trace.counts) == 0 {
			t.Errorf("partition %d offset %d was acknowledged, and nobody was seen to acquire it", where.partition, where.offset)
			continue
		}
		for i := 1; i < len(trace.counts); i++ {
			if trace.counts[i] < trace.counts[i-1] {
				t.Errorf("partition %d offset %d: delivery counts %v, acknowledged as %v", where.partition, where.offset,
					trace.counts, trace.acks)
			}
			again++
		}
		for _, how := range trace.acks {
			switch how {
			case history.AckAccept:
				accepted++
			case history.AckRelease:
				released++
			case history.AckReject:
				rejected++
			default:
				t.Errorf("partition %d offset %d was acknowledged as %d", where.partition, where.offset, how)
			}
		}
	}
	t.Logf(
		"%d offsets acquired; %d accepted, %d released, %d rejected; %d deliveries after the first, %d after the last word",
		len(traces), accepted, released, rejected, again, after)
	if len(traces) != records || accepted == 0 || released == 0 || rejected == 0 || again == 0 {
		t.Errorf("%d offsets of a share group were seen, want %d; or no acknowledgement of some kind", len(traces), records)
	}
	refused := map[int16]int{}
	for _, e := range r.events.of(history.KindShareAckResponse) {
		if e.Code != 0 {
			refused[e.Code]++
		}
	}
	if len(refused) > 0 {
		t.Logf("acknowledgements that were refused, by error code: %v", refused)
	}
}
