package network

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/internal/units"
)

const millisecond = units.Duration(time.Millisecond)

// A toxic becomes the fault that a toxiproxy server would carry out by that toxic.
func TestFromToxicIsTheInverseOfToxics(t *testing.T) {
	for _, fault := range []Network{
		{Latency: 80 * millisecond, Jitter: 40 * millisecond}, {Latency: millisecond}, {Bandwidth: 64000}, {Timeout: true},
		{SlowClose: 5 * millisecond}, {LimitData: 100}, {Reset: true},
		{Slicer: &Slicer{Size: 16, Delay: units.Duration(10 * time.Microsecond)}},
	} {
		for _, direction := range []string{directionRequests, directionResponses} {
			fault.Link, fault.Toxicity = "broker 1", 0.3
			if fault.directed() {
				fault.Direction = direction
			}
			for _, toxic := range fault.Toxics("x") {
				got, err := FromToxic("broker 1", overWire(t, toxic))
				if err != nil || !reflect.DeepEqual(got, fault) {
					t.Errorf("%+v became %+v, want %+v (%v)", toxic, got, fault, err)
				}
			}
		}
	}
}

// overWire returns a toxic as it is after the API's JSON, with its default attributes left out.
func overWire(t *testing.T, toxic toxiproxy.Toxic) (out toxiproxy.Toxic) {
	t.Helper()
	delete(toxic.Attributes, "size_variation")
	text, err := json.Marshal(toxic)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFromToxicRefuses(t *testing.T) {
	for _, test := range []struct {
		kind, attributes, stream string
		toxicity                 float32
		want                     string
	}{
		{"latency", `{}`, "upstream", 1, "must be more than the jitter"},
		{"latency", `{"latency": 10, "jitter": 10}`, "upstream", 1, "must be more than the jitter"},
		{"latency", `{"latency": 1e12}`, "upstream", 1, "whole number above 0"},
		{"latency", `{"latency": 1.5}`, "upstream", 1, "reading the attributes"},
		{"latency", `{"latency": 10, "jiter": 1}`, "upstream", 1, `unknown field "jiter"`},
		{"latency", `{"latency": 10}`, "sideways", 1, "write upstream"},
		{"latency", `{"latency": 10}`, "upstream", 0, "more than 0, and at most 1"},
		{"latency", `{"latency": 10}`, "upstream", 1.5, "more than 0, and at most 1"},
		{"bandwidth", `{"rate": -1}`, "upstream", 1, "whole number above 0"},
		{"slow_close", `{}`, "upstream", 1, "delay is 0"},
		{"limit_data", `{}`, "upstream", 1, "bytes is 0"},
		{"slicer", `{"average_size": 0}`, "upstream", 1, "average_size is 0"},
		{"slicer", `{"average_size": 9, "size_variation": 3}`, "upstream", 1, "one size"},
		{"slicer", `{"average_size": 9, "delay": -3}`, "upstream", 1, "microseconds"},
		{"timeout", `{"timeout": 100}`, "upstream", 1, "must be 0, or left out"},
		{"reset_peer", `{"timeout": 100}`, "upstream", 1, "must be 0, or left out"},
		{"noop", `{}`, "upstream", 1, "there is no such type"},
	} {
		toxic := toxiproxy.Toxic{Type: test.kind, Stream: test.stream, Toxicity: test.toxicity}
		if err := json.Unmarshal([]byte(test.attributes), &toxic.Attributes); err != nil {
			t.Fatal(err)
		}
		if _, err := FromToxic("broker 1", toxic); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: got %v, want %q", test.kind, test.attributes, err, test.want)
		}
	}
}
