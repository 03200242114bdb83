package clients_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// A member of a share group may lose a partition for good by a bug of franz-go v1.22.2, without anything lost on the
// way:
//
//   - It has records of a partition in hand, and the partition's leader goes to another broker and back. The broker has
//     forgotten by then to whom it gave them, and refuses the ShareAcknowledge for the partition with
//     UNKNOWN_TOPIC_OR_PARTITION; or it has handed some of them out again, and refuses the second acknowledgement with
//     INVALID_RECORD_STATE.
//   - Only for NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH does a broker say who leads. For other errors Kafka's
//     CurrentLeader has the default of its fields, which is 0 and not -1 as in a Fetch: leader 0, epoch 0.
//   - franz-go takes that for a leader, whatever the error (shareAck in consumer_share.go), and asks broker 0 for the
//     partition from now on, and nobody else. A broker 0, where there is one, would say who leads. Ours are 1, 2 and 3.
//   - Each later Metadata names the leader that franz-go has already heard of, so it changes nothing. Only another
//     leader or epoch does.
//
// So the situation is told from what the client says, and the partition gets yet another leader. All that is asked of
// the tap and of the client is asked as ever: it is the same member, and it must get and acknowledge every record.
// TestFranzGo/stranded makes the situation on purpose.

// leaderless says whether an answer with the error code names no leader.
func leaderless(code int16) bool {
	return code != 0 && code != kerr.NotLeaderForPartition.Code && code != kerr.FencedLeaderEpoch.Code
}

const (
	// lookups is how often a stranded client has asked for the leaders since it last asked for the partition.
	lookups = 3
	// idle is how long it has neither written nor asked for the partition: one that works on what it has asks for no
	// more meanwhile.
	idle = 2 * metadataAge
)

// asked is what the member of a share group asks the brokers for: each remembers what a share session (KIP-932) is
// about, requests name only changes.
type asked struct {
	now func() time.Duration

	mu       sync.Mutex
	sessions map[int32]map[int32]bool // the input's partitions, by broker
	wrote    time.Duration
	last     map[int32]time.Duration // when a broker was last asked for the partition
	lookups  map[int32]int           // how often the client looked for leaders since then
}

func newAsked(now func() time.Duration) *asked {
	return &asked{now: now, sessions: map[int32]map[int32]bool{}, last: map[int32]time.Duration{},
		lookups: map[int32]int{}}
}

// note takes a request. The topic that a ShareFetch asks for is the input: members ask for no other.
func (a *asked) note(x *tap.Exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch x.APIKey {
	case kmsg.Produce.Int16():
		a.wrote = a.now()
	case kmsg.Metadata.Int16():
		for p := range a.lookups {
			a.lookups[p]++
		}
	case kmsg.ShareFetch.Int16():
		if request, err := x.Request(); err == nil {
			a.fetch(x.Broker, request.(*kmsg.ShareFetchRequest))
		}
	}
}

// fetch keeps a session as the broker does: what a request names is added, then what it forgets goes. mu is held.
func (a *asked) fetch(broker int32, r *kmsg.ShareFetchRequest) {
	if r.ShareSessionEpoch == 0 || a.sessions[broker] == nil {
		a.sessions[broker] = map[int32]bool{}
	}
	session := a.sessions[broker]
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			session[p.Partition] = true
		}
	}
	for _, topic := range r.ForgottenTopicsData {
		for _, p := range topic.Partitions {
			delete(session, p)
		}
	}
	for p := range session {
		a.last[p], a.lookups[p] = a.now(), 0
	}
}

// lost takes note that a broker was stopped, and its sessions with it.
func (a *asked) lost(broker int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, broker)
}

// afresh begins to wait for the client's requests again, as it has to hear of new leaders first.
func (a *asked) afresh() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.last {
		a.last[p], a.lookups[p] = a.now(), 0
	}
}

// ofNobody returns the partitions that the client asks no broker for, though it has nothing else to do and knows who
// leads.
func (a *asked) ofNobody() (found []int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, p := range slices.Sorted(maps.Keys(a.last)) {
		inSession := false
		for _, session := range a.sessions {
			inSession = inSession || session[p]
		}
		if !inSession && a.lookups[p] >= lookups && now-a.last[p] >= idle && now-a.wrote >= idle {
			found = append(found, p)
		}
	}
	return found
}

// String says of each partition of the input whom the client asks for it, and since when it has asked nobody.
func (a *asked) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all strings.Builder
	for _, p := range slices.Sorted(maps.Keys(a.last)) {
		var brokers []int32
		for broker, session := range a.sessions {
			if session[p] {
				brokers = append(brokers, broker)
			}
		}
		fmt.Fprintf(&all,
			"partition %d: in the sessions of brokers %v, last asked for %s ago, %d look-ups of its leader since; ",
			p, brokers, (a.now() - a.last[p]).Round(time.Millisecond), a.lookups[p])
	}
	fmt.Fprintf(&all, "last write %s ago", (a.now() - a.wrote).Round(time.Millisecond))
	return all.String()
}

// stranded returns the partitions of the input that franz-go asks nobody for, and of which the last acknowledgement was
// refused without a leader.
func (r *rig) stranded() (found []int32) {
	last := map[int32]int16{}
	for _, e := range r.events.of(history.KindShareAckResponse) {
		last[e.Partition] = e.Code
	}
	for _, p := range r.asked.ofNobody() {
		if leaderless(last[p]) {
			found = append(found, p)
		}
	}
	return found
}

// free gives every partition another leader when franz-go waits for one at a broker that there is not, and says so.
func (r *rig) free(t *testing.T) {
	t.Helper()
	if found := r.stranded(); len(found) > 0 {
		r.freed++
		t.Logf("KNOWN BUG OF THE CLIENT, for the %d. time: franz-go asks no broker for partitions %v since an "+
			"acknowledgement was refused that names no leader: it waits for them at a broker 0. Their leaders move once more",
			r.freed, found)
		r.moveLeaders(t, r.placed+1)
		r.asked.afresh()
	}
}

func TestAskedOfNobody(t *testing.T) {
	type step func(*asked)
	fetch := func(broker, epoch int32, wanted, forgotten []int32) step {
		request := kmsg.NewPtrShareFetchRequest()
		request.ShareSessionEpoch = epoch
		topic, without := kmsg.NewShareFetchRequestTopic(), kmsg.NewShareFetchRequestForgottenTopicsData()
		for _, p := range wanted {
			topic.Partitions = append(topic.Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: p})
		}
		without.Partitions = forgotten
		request.Topics, request.ForgottenTopicsData = append(request.Topics, topic),
			append(request.ForgottenTopicsData, without)
		x := tap.NewExchange(0, 0, request)
		x.Broker = broker
		return func(a *asked) { a.note(x) }
	}
	produce := func(a *asked) { a.note(tap.NewExchange(0, 0, kmsg.NewPtrProduceRequest())) }
	look := func(a *asked) { a.note(tap.NewExchange(0, 0, kmsg.NewPtrMetadataRequest())) }
	var now time.Duration
	wait := func(*asked) { now += idle }
	stop := func(a *asked) { a.lost(3) }
	both, dropped := fetch(3, 0, []int32{0, 1}, nil), fetch(3, 1, nil, []int32{0})
	for name, one := range map[string]struct {
		steps []step
		want  []int32
	}{
		"a forgotten partition": {[]step{both, dropped, look, look, look, wait}, []int32{0}},
		"the broker is stopped": {[]step{both, stop, look, look, look, wait}, []int32{0, 1}},
		"a new session without it": {[]step{both, fetch(3, 0, []int32{1}, nil), look, look, look, wait},
			[]int32{0}},
		"it is asked of another broker": {[]step{both, dropped, fetch(1, 0, []int32{0}, nil), look, look, look,
			wait}, nil},
		"another broker was asked before": {[]step{both, fetch(1, 0, []int32{0}, nil), dropped, look, look, look,
			wait}, nil},
		"the session goes on, and nothing is fetched": {[]step{both, look, look, look, wait}, nil},
		"the client has not looked for the leader":    {[]step{both, dropped, look, look, wait}, nil},
		"it happened just now":                        {[]step{wait, both, dropped, look, look, look}, nil},
		"the client writes":                           {[]step{both, dropped, look, look, look, wait, produce}, nil},
		"nothing was asked for":                       {[]step{look, look, look, wait}, nil},
		"leaders have moved once more":                {[]step{both, dropped, look, look, look, wait, (*asked).afresh}, nil},
	} {
		now = 0
		a := newAsked(func() time.Duration { return now })
		for _, step := range one.steps {
			step(a)
		}
		if got := a.ofNobody(); !slices.Equal(got, one.want) {
			t.Errorf("%s: %v are asked of nobody, want %v", name, got, one.want)
		}
	}
}

// strand makes the situation, through the tap: the leader of partition 0 goes and comes back while the client has
// records of it in hand. Its source holds the rest of them, so the client asks for nothing meanwhile and learns of the
// leaders from Metadata alone.
func (r *rig) strand(ctx context.Context, t *testing.T, client *kgo.Client) {
	t.Helper()
	var inHand *kgo.Record
	for inHand == nil || inHand.Partition != 0 {
		found := client.PollRecords(ctx, 1).Records()
		if ctx.Err() != nil {
			t.Fatalf("polling: %v", ctx.Err())
		}
		if len(found) > 0 {
			inHand = found[0]
		}
	}
	r.moveLeaders(t, 1)
	r.moveLeaders(t, 3)
	r.spread(t)
	before := r.spoken.count(kmsg.Metadata.Int16())
	wait.Until(t, "the client has heard who leads now", func() bool {
		client.ForceMetadataRefresh()
		// it asks again only when it has taken the answer before
		return r.spoken.count(kmsg.Metadata.Int16()) >= before+lookups
	})
	inHand.Ack(kgo.AckAccept)
	if err := client.FlushAcks(ctx); err != nil {
		t.Fatalf("acknowledging: %v", err)
	}
	if !slices.ContainsFunc(r.events.of(history.KindShareAckResponse), func(e history.Event) bool {
		return e.Partition == 0 && leaderless(e.Code)
	}) {
		t.Fatal("no acknowledgement was refused, so this shows nothing")
	}
}

// spread waits until every broker tells of the same leader of partition 0 in the same epoch, so that nothing new is
// heard of it afterwards.
func (r *rig) spread(t *testing.T) {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &r.input
	request.Topics = append(request.Topics, topic)
	wait.Until(t, "every broker knows who leads", func() bool {
		heard := map[[2]int32]int{}
		for _, b := range r.running.Brokers() {
			response, err := r.client.Broker(int(b.ID)).Request(within(t), request)
			if err != nil {
				t.Fatalf("asking broker %d: %v", b.Number, err)
			}
			for _, p := range response.(*kmsg.MetadataResponse).Topics[0].Partitions {
				if p.Partition == 0 {
					heard[[2]int32{p.Leader, p.LeaderEpoch}]++
				}
			}
		}
		return len(heard) == 1
	})
}

// freesStranded: a partition that franz-go asks nobody for is told from others and freed, and the same member gets all
// there is.
func (r *rig) freesStranded(t *testing.T) {
	t.Helper()
	const early, late = 60, 30
	r.feed(t, 0, early, 0)
	j := job{bootstrap: strings.Split(r.bootstrap, ","), input: r.input, output: r.output, group: r.group}
	client, err := kgo.NewClient(j.shareOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := within(t)
	r.strand(ctx, t, client)
	r.feed(t, early, late, 0)
	seen := map[int32]bool{}
	wait.Until(t, "the client has got what was written after its partition was lost to it", func() bool {
		r.free(t)
		short, cancel := context.WithTimeout(ctx, metadataAge/10)
		defer cancel()
		client.PollRecords(short, 50).EachRecord(func(one *kgo.Record) {
			if id, ok := r.ids.Find(one.Value); ok && id >= early {
				seen[id] = true
			}
		})
		return len(seen) == late
	})
	if r.freed == 0 {
		t.Error("franz-go asks for its partition again by itself: what frees it, and this test, can go")
	}
}
