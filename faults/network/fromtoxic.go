package network

// This file reads a toxic of toxiproxy's API as a fault, and shows a fault as toxics.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Toxics returns the toxics that show the fault in toxiproxy's API, one for each direction that it hits. A link that is
// down has none: its proxy is disabled.
func (n *Network) Toxics(name string) []toxiproxy.Toxic { return toxicsOf(newFault(*n, 0, nil), name) }

// FromToxic returns the fault that does on a link what the toxic does on a proxy. Its Stream must be "upstream" or
// "downstream". An error says why there is no such fault, and what to write instead.
func FromToxic(link string, toxic toxiproxy.Toxic) (Network, error) {
	// As a float64, a toxicity of 0.3 is 0.30000001192.
	share := math.Round(float64(toxic.Toxicity)*1e6) / 1e6
	n := Network{Link: link, Toxicity: units.Percent(share)}
	if share <= 0 || share > 1 {
		return n, fmt.Errorf("a toxicity of %v: write more than 0, and at most 1", toxic.Toxicity)
	}
	attributes, err := json.Marshal(toxic.Attributes)
	if err != nil {
		return n, fmt.Errorf("reading the attributes: %w", err)
	}
	if err := n.setToxic(toxic.Type, attributes); err != nil {
		return n, fmt.Errorf("%s: %w", toxic.Type, err)
	}
	if n.directed() {
		switch toxic.Stream {
		case stream.Upstream.String():
			n.Direction = directionRequests
		case stream.Downstream.String():
			n.Direction = directionResponses
		default:
			return n, fmt.Errorf("the stream %q: write upstream (what the consumer sends) or downstream", toxic.Stream)
		}
	}
	return n, nil
}

// setToxic sets what a type of toxic with its attributes does.
func (n *Network) setToxic(kind string, attributes []byte) error {
	switch kind {
	case "latency":
		return attributesOf(attributes, n.setLatency)
	case "bandwidth":
		return attributesOf(attributes, func(t toxics.BandwidthToxic) error {
			n.Bandwidth = units.Size(t.Rate * toxicRate)
			return positive("rate", t.Rate)
		})
	case "slow_close":
		return attributesOf(attributes, func(t toxics.SlowCloseToxic) error {
			n.SlowClose = milliseconds(t.Delay)
			return positive("delay", t.Delay)
		})
	case "limit_data":
		return attributesOf(attributes, func(t toxics.LimitDataToxic) error {
			n.LimitData = units.Size(t.Bytes)
			return positive("bytes", t.Bytes)
		})
	case "slicer":
		return attributesOf(attributes, n.setSlicer)
	case "timeout":
		return attributesOf(attributes, func(t toxics.TimeoutToxic) error {
			n.Timeout = true
			return zero("timeout", t.Timeout)
		})
	case "reset_peer":
		return attributesOf(attributes, func(t toxics.ResetToxic) error {
			n.Reset = true
			return zero("timeout", t.Timeout)
		})
	}
	return errors.New("there is no such type: latency, bandwidth, slow_close, timeout, reset_peer, slicer or limit_data")
}

// setLatency sets a latency. toxiproxy's jitter goes in both directions from it, a link's is added to it.
func (n *Network) setLatency(t toxics.LatencyToxic) error {
	if t.Jitter < 0 || t.Latency <= t.Jitter {
		return fmt.Errorf("a latency of %d ms with a jitter of %d ms: the latency must be more than the jitter", t.Latency,
			t.Jitter)
	}
	n.Latency, n.Jitter = milliseconds(t.Latency-t.Jitter), milliseconds(2*t.Jitter)
	return positive("latency", t.Latency)
}

func (n *Network) setSlicer(t toxics.SlicerToxic) error {
	n.Slicer = &Slicer{Size: units.Size(t.AverageSize), Delay: units.Duration(time.Duration(t.Delay) * time.Microsecond)}
	if t.SizeVariation != 0 {
		return errors.New("size_variation: the pieces of a link have one size; leave it out")
	}
	if t.Delay < 0 || t.Delay > longest {
		return fmt.Errorf("delay is %d: write the microseconds between two pieces, or leave it out", t.Delay)
	}
	return positive("average_size", int64(t.AverageSize))
}

// attributesOf reads a toxic's attributes, which are whole numbers, and passes them on.
func attributesOf[T any](text []byte, set func(T) error) error {
	var toxic T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&toxic); err != nil {
		return fmt.Errorf("reading the attributes: %w", err)
	}
	return set(toxic)
}

// longest bounds what an attribute can ask for: three years in milliseconds, and no overflow anywhere.
const longest = 100e9

func positive(name string, value int64) error {
	if value <= 0 || value > longest {
		return fmt.Errorf("%s is %d: write a whole number above 0", name, value)
	}
	return nil
}

func zero(name string, value int64) error {
	if value != 0 {
		return fmt.Errorf("%s must be 0, or left out: a link does this until the toxic is removed", name)
	}
	return nil
}

func milliseconds(n int64) units.Duration { return units.Duration(time.Duration(n) * time.Millisecond) }
