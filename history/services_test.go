package history

import "testing"

func TestServicesByInstanceAndTopic(t *testing.T) {
	h := Header{Services: []Service{{Name: "orders", Input: 0, Retry: 1, Instances: 2},
		{Name: "billing", Input: 2, Retry: 3, First: 2, Instances: 1}}}
	for instance, want := range map[int16]int{0: 0, 1: 0, 2: 1, 3: None, None: None, Replayer: None} {
		if have := h.ServiceOf(instance); have != want {
			t.Errorf("instance %d is one of service %d, want %d", instance, have, want)
		}
	}
	for topic, want := range map[int16]int{0: 0, 1: 0, 2: 1, 3: 1, 4: None, None: None} {
		if have := h.ServiceReading(topic); have != want {
			t.Errorf("topic %d is read by service %d, want %d", topic, have, want)
		}
	}
	if none := (&Header{}); none.ServiceOf(0) != None || none.ServiceReading(0) != None {
		t.Error("without services there is one")
	}
}
