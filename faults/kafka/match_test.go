package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/tap"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

func inGroup(api, group string) kmsg.Request {
	switch r := one(api).(type) {
	case *kmsg.OffsetCommitRequest:
		r.Group = group
		return r
	case *kmsg.TxnOffsetCommitRequest:
		r.Group = group
		return r
	case *kmsg.JoinGroupRequest:
		r.Group = group
		return r
	case *kmsg.SyncGroupRequest:
		r.Group = group
		return r
	case *kmsg.HeartbeatRequest:
		r.Group = group
		return r
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group = group
		return r
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKeys = []string{"another", group}
		return r
	case *kmsg.ShareGroupHeartbeatRequest:
		r.GroupID = group
		return r
	case *kmsg.ShareFetchRequest:
		r.GroupID = &group
		return r
	case *kmsg.ShareAcknowledgeRequest:
		r.GroupID = &group
		return r
	}
	panic(api)
}

func TestGroupsAreMatched(t *testing.T) {
	for api := range strings.SplitSeq(withGroup, ", ") {
		for _, c := range []struct {
			spec, group string
			want        bool
		}{
			{"subject", "g", true}, {"subject", "h", false}, {"h", "h", true}, {"h", "g", false}, {"", "h", true},
		} {
			in := NewInjector(runTopics())
			inject(t, in, &eventLog{}, Kafka{API: api, Group: c.spec, DropRequest: true}, 1)
			x := tap.NewExchange(0, 0, inGroup(api, c.group))
			x.Group = "g"
			action := in.Intercept(x)
			if action.DropRequest != c.want {
				t.Errorf("%s of group %s, the fault is for %q: hit %v", api, c.group, c.spec, action.DropRequest)
			}
			if action.Done != nil {
				action.Done()
			}
		}
	}
	transactional := kmsg.NewPtrFindCoordinatorRequest()
	transactional.CoordinatorType, transactional.CoordinatorKey = 1, "g"
	if tap.NewExchange(0, 0, transactional).InGroup("g") {
		t.Error("a transactional id is taken for a group")
	}
	transactional.CoordinatorType = 0
	if !tap.NewExchange(0, 0, transactional).InGroup("g") {
		t.Error("the old form of FindCoordinator is not understood")
	}
}

func TestPartitionsAndVersionsAreMatched(t *testing.T) {
	zero, first, nine, ten := 0, 1, 9, 10
	for name, c := range map[string]struct {
		spec    Kafka
		request kmsg.Request
		want    bool
	}{
		"its partition": {Kafka{API: "Produce", Topic: "dlq", Partition: &zero},
			produceTo("r.dlq"), true},
		"another partition": {Kafka{API: "Produce", Topic: "dlq", Partition: &first}, produceTo("r.dlq"),
			false},
		"the partition of a topic else": {Kafka{API: "Produce", Topic: "dlq", Partition: &zero}, produceTo("r.input"),
			false},
		"its version":     {Kafka{API: "Produce", Version: &nine}, produceTo("r.dlq"), true},
		"another version": {Kafka{API: "Produce", Version: &ten}, produceTo("r.dlq"), false},
		"a topic of a Metadata": {Kafka{API: "Metadata", Topic: "input"},
			metadataOf(9, "r.dlq", "r.input"), true},
		"another topic of a Metadata": {Kafka{API: "Metadata", Topic: "input"}, metadataOf(9, "r.dlq"), false},
	} {
		in := NewInjector(runTopics())
		c.spec.DelayResponse = units.Duration(time.Second)
		inject(t, in, &eventLog{}, c.spec, 1)
		if got := hit(in, 0, c.request); got != c.want {
			t.Errorf("%s: hit %v", name, got)
		}
	}
}

// Only matching requests are counted, over all instances, from the start of the fault. A share is drawn in addition.
func TestTheNthIsCounted(t *testing.T) {
	struck := func(spec Kafka, seed uint64) (list []int) {
		in := NewInjector(runTopics())
		spec.API, spec.Topic, spec.DropResponse = "Produce", "dlq", true
		inject(t, in, &eventLog{}, spec, seed)
		for n := 1; n <= 12; n++ {
			if hit(in, 0, produceTo("r.input")) || hit(in, 0, commitOf("r.input")) {
				t.Fatal("what does not match was hit")
			}
			if hit(in, n%3, produceTo("r.dlq")) {
				list = append(list, n)
			}
		}
		return list
	}
	for _, c := range []struct {
		spec Kafka
		want []int
	}{
		{Kafka{Nth: 1}, []int{1}}, {Kafka{Nth: 5}, []int{5}}, {Kafka{EveryNth: 4}, []int{4, 8, 12}},
		{Kafka{EveryNth: 1, Nth: 2}, []int{2}},
	} {
		if got := struck(c.spec, 1); !slices.Equal(got, c.want) {
			t.Errorf("nth %d, every_nth %d: %v", c.spec.Nth, c.spec.EveryNth, got)
		}
	}
	var want []int
	for n := range 12 {
		if hits(3, uint64(n), 0.5) && (n+1)%2 == 0 {
			want = append(want, n+1)
		}
	}
	if got := struck(Kafka{EveryNth: 2, Probability: 0.5}, 3); !slices.Equal(got, want) ||
		len(got) == 0 || len(got) == 6 {
		t.Errorf("every second of half: %v, want %v", got, want)
	}
}

// Requests that name topics by id are matched by name, including the first request with an id.
func TestTopicIDsAreMatchedByName(t *testing.T) {
	s := newStage(t)
	byID := func(api, topic string) kmsg.Request {
		id := s.kafka.TopicInfo(topic).TopicID
		request := one(api)
		switch r := request.(type) {
		case *kmsg.ProduceRequest:
			r.SetVersion(13)
			r.Topics[0].Topic, r.Topics[0].TopicID = "", id
		case *kmsg.FetchRequest:
			r.SetVersion(16)
			r.Topics[0].Topic, r.Topics[0].TopicID = "", id
		case *kmsg.OffsetCommitRequest:
			r.SetVersion(10)
			r.Topics[0].Topic, r.Topics[0].TopicID = "", id
		case *kmsg.MetadataRequest:
			r.SetVersion(12)
			r.Topics[0].Topic, r.Topics[0].TopicID = nil, id
		}
		return request
	}
	for _, api := range []string{"Produce", "Fetch", "OffsetCommit", "Metadata"} {
		topic, other := "input", "r.dlq"
		if api == "Produce" {
			topic, other = "dlq", "r.input"
		}
		heal := s.inject(Kafka{API: api, Topic: topic, Error: "UNKNOWN_SERVER_ERROR"})
		before := len(s.log.effects())
		client := s.dial()
		client.ask(byID(api, other))
		if n := len(s.log.effects()); n != before {
			t.Errorf("%s: a request for another topic was hit: %+v", api, s.log.effects()[before:])
		}
		client.ask(byID(api, "r."+topic))
		checkEffects(t, api, s.log.effects()[before:], []string{"requests answered UNKNOWN_SERVER_ERROR"})
		heal()
	}
}

func TestTheClientIDIsMatched(t *testing.T) {
	s := newStage(t)
	for id, want := range map[string]int{"tester": 1, "other": 0} {
		before := len(s.log.effects())
		heal := s.inject(Kafka{API: "Metadata", ClientID: id, Throttle: units.Duration(time.Second)})
		s.dial().ask(one("Metadata"))
		if got := len(s.log.effects()) - before; got != want {
			t.Errorf("client id %q: %d effects, want %d", id, got, want)
		}
		heal()
	}
}

// In a session (KIP-227) a Fetch names only changes. All partitions of the session are matched and rejected, and the
// session continues after the fault.
func TestFetchSessionsAreMatched(t *testing.T) {
	s, first := newStage(t), 1
	client := s.dial()
	session := client.ask(fetchOf(12, 0, 0, 0, 1)).(*kmsg.FetchResponse).SessionID
	if session == 0 {
		t.Fatal("the broker gave no session")
	}
	epoch := int32(0)
	next := func(numbers ...int32) map[int32]int16 {
		t.Helper()
		epoch++
		answer := client.ask(fetchOf(12, session, epoch, numbers...)).(*kmsg.FetchResponse)
		if answer.ErrorCode != 0 {
			t.Fatalf("the session has ended: %d", answer.ErrorCode)
		}
		told := map[int32]int16{}
		for _, topic := range answer.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					told[p.Partition] = p.ErrorCode
				}
			}
		}
		return told
	}
	next()
	heal := s.inject(Kafka{API: "Fetch", Topic: "input", Partition: &first, Error: "NOT_LEADER_FOR_PARTITION"})
	for range 2 {
		if told := next(); len(told) != 1 || told[1] != 6 {
			t.Errorf("a Fetch that names nothing was told %v, want partition 1 to be refused", told)
		}
	}
	heal()
	if n := len(s.log.effects()); n != 2 {
		t.Errorf("%d effects", n)
	}
	if told := next(); len(told) != 0 {
		t.Errorf("after heal: %v", told)
	}
	heal = s.inject(Kafka{API: "Fetch", Topic: "dlq", DropRequest: true})
	next(0)
	heal()
	if n := len(s.log.effects()); n != 2 {
		t.Errorf("a Fetch of another topic was hit")
	}
}

// A broker that has lost the session reports that for the whole Fetch.
func TestALostFetchSession(t *testing.T) {
	s := newStage(t)
	client := s.dial()
	heal := s.inject(Kafka{API: "Fetch", Topic: "input", Error: "FETCH_SESSION_ID_NOT_FOUND"})
	seen := s.reached(1)
	answer := client.ask(fetchOf(12, 0, 0, 0)).(*kmsg.FetchResponse)
	if answer.ErrorCode != 70 || len(answer.Topics) != 0 || s.reached(1) != seen {
		t.Errorf("the client was told %+v", answer)
	}
	heal()
}

func TestWhatCanBeMade(t *testing.T) {
	one := 1
	for want, spec := range map[string]Kafka{
		"a Heartbeat names no topic":    {API: "Heartbeat", Topic: "input", DropRequest: true},
		"a Metadata names no partition": {API: "Metadata", Topic: "input", Partition: &one, DropRequest: true},
		"a Produce names no group":      {API: "Produce", Group: "subject", DropRequest: true},
		"partition goes with topic":     {API: "Produce", Partition: &one, DropRequest: true},
		"close and throttle exclude":    {API: "Produce", Close: true, Throttle: units.Duration(time.Second)},
		"the longest is":                {API: "Produce", Throttle: units.Duration(1000 * time.Hour)},
	} {
		spec.Probability = 1
		if defects := spec.Validate(faults.Setting{}); len(defects) != 1 || !strings.Contains(defects[0].Message, want) {
			t.Errorf("%+v: %+v, want %q", spec, defects, want)
		}
	}
	for _, action := range everyAction() {
		for api := range strings.SplitSeq(withTopics+", "+withGroup+", AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, InitProducerId", ", ") {
			spec := action.spec
			spec.API, spec.Probability = api, 1
			if defects := spec.Validate(faults.Setting{}); defects != nil {
				t.Errorf("%s: %+v", api, defects)
			}
		}
	}
}

// Only the matching request and those after it on its connection are closed or lost. Earlier requests are answered
// and recorded as answered.
func TestEarlierAnswersComeBeforeTheEnd(t *testing.T) {
	for name, spec := range map[string]Kafka{
		"close": {API: "Produce", Close: true, Nth: 2}, "drop_request": {API: "Produce", DropRequest: true, Nth: 2},
	} {
		s := newStage(t)
		heal := s.inject(spec)
		client := s.dial()
		for range 3 {
			client.send(one("Produce"))
		}
		if _, err := client.answer(one("Produce"), 1); err != nil {
			t.Errorf("%s: the first: %v", name, err)
		}
		if name == "close" {
			client.ended(name)
		} else {
			client.silent(name)
		}
		wait.Until(t, "all requests to be noted", func() bool { return len(s.log.of(history.KindProduceRequest)) == 3 })
		heal()
		client.ended(name)
		if n := len(s.log.of(history.KindProduceResponse)); n != 1 || s.reached(0) != 1 {
			t.Errorf("%s: %d answers recorded, %d requests reached the broker", name, n, s.reached(0))
		}
	}
}

// A client that gives up closes its connection and so ends what a lost request has left behind.
func TestGivingUpOnALostRequest(t *testing.T) {
	s := newStage(t)
	heal := s.inject(Kafka{API: "Produce", DropRequest: true})
	client := s.dial()
	client.send(one("Produce"))
	wait.Until(t, "the effect", func() bool { return len(s.log.effects()) == 1 })
	_ = client.Close()
	s.dial().ask(one("Metadata"))
	rule := (*s.in.rules.Load())[0]
	wait.Until(t, "nothing to be held", func() bool {
		rule.mu.Lock()
		defer rule.mu.Unlock()
		return rule.held == 0
	})
	heal()
	if n := len(s.log.effects()); n != 1 {
		t.Errorf("%d effects: a connection that the client closed is counted as closed by the fault", n)
	}
}

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th",
		21: "21st", 102: "102nd", 111: "111th"} {
		if have := ordinal(n); have != want {
			t.Errorf("%d: %s, want %s", n, have, want)
		}
	}
}

func TestErrorNames(t *testing.T) {
	names := ErrorNames()
	for _, name := range []string{"UNKNOWN_SERVER_ERROR", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS",
		"FENCED_INSTANCE_ID"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
	if slices.Contains(names, "NONE") || len(names) < 100 {
		t.Errorf("%d names: %v", len(names), names)
	}
}

// Beginning a transaction takes requests of its own only before transaction protocol 2.
func TestFaultsOfBeginningTransactions(t *testing.T) {
	for api, own := range map[string]bool{"AddPartitionsToTxn": true, "AddOffsetsToTxn": true, "EndTxn": false} {
		spec := Kafka{API: api, Error: "CONCURRENT_TRANSACTIONS", Probability: 1}
		if told := strings.Contains(spec.Traits().Idle.Do, "KIP-890"); told != own {
			t.Errorf("%s without an effect: %q", api, spec.Traits().Idle.Do)
		}
		for transactions, want := range map[bool]int{true: 0, false: 1} {
			setting := faults.Setting{Reference: &faults.ReferenceSetting{Transactions: transactions}}
			if defects := spec.Validate(setting); len(defects) != want {
				t.Errorf("%s with transactions %t: %+v", api, transactions, defects)
			}
		}
	}
}
