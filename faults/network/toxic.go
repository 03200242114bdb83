package network

// This file says what a toxiproxy server makes of a fault, and what it cannot make.

import (
	"fmt"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/dlqbench/dlqbench/faults"
)

// toxicRate is the unit of toxiproxy's bandwidth toxic, in bytes per second.
const toxicRate = 1000

// OnToxiproxy returns why a toxiproxy server cannot carry out the fault, or nil if it can.
func (n *Network) OnToxiproxy() error {
	chosen, found := faults.Chosen(actions(), n)
	if !found {
		return nil // the fault's own check reports it
	}
	switch {
	case chosen.Do == halfOpen:
		return refused("half_open", "it closes both sides of a connection, never one of them alone")
	case chosen.Do == down && n.Toxicity > 0 && n.Toxicity < 1:
		return refused("down with a toxicity", "it disables a proxy as a whole; leave out toxicity, or use reset")
	case chosen.Do == bandwidth && n.Bandwidth.Bytes()%toxicRate != 0:
		return refused(fmt.Sprintf("a bandwidth of %s/s", n.Bandwidth), "it counts in whole kB/s; write a multiple "+
			"of 1000B, such as %dB", max(n.Bandwidth.Bytes()/toxicRate, 1)*toxicRate)
	case chosen.Do == latency && (n.Latency.D()+n.Jitter.D()/2)%time.Millisecond != 0,
		n.Jitter.D()%(2*time.Millisecond) != 0:
		return refused(fmt.Sprintf("latency %s with jitter %s", n.Latency, n.Jitter), "it counts in whole "+
			"milliseconds; write whole milliseconds, and an even number of them for jitter")
	case chosen.Do == slowClose && n.SlowClose.D()%time.Millisecond != 0:
		return refused(fmt.Sprintf("slow_close %s", n.SlowClose), "it counts in whole milliseconds")
	case chosen.Do == slicing && n.Slicer.Delay.D()%time.Microsecond != 0:
		return refused(fmt.Sprintf("a slicer's delay of %s", n.Slicer.Delay), "it counts in whole microseconds")
	}
	return nil
}

func refused(what, why string, args ...any) error {
	return fmt.Errorf("toxiproxy cannot do %s: %s; or run it without --toxiproxy", what, fmt.Sprintf(why, args...))
}

// toxicsOf returns the toxics that make up a fault, one for each direction that it hits. It returns none for a link
// that is down, for which the proxy is disabled.
func toxicsOf(f *fault, name string) []toxiproxy.Toxic {
	if f.kind == down {
		return nil
	}
	var toxics []toxiproxy.Toxic
	kind, attributes := f.toxic()
	for direction, hit := range f.directions {
		if hit {
			towards := stream.Direction(direction).String()
			toxics = append(toxics, toxiproxy.Toxic{Name: name + "-" + towards, Type: kind, Stream: towards,
				Toxicity: float32(f.share), Attributes: attributes})
		}
	}
	return toxics
}

// toxic returns the type and the attributes of the fault's toxics. toxiproxy's jitter goes in both directions from the
// latency. A link's is added to it.
func (f *fault) toxic() (kind string, attributes toxiproxy.Attributes) {
	switch f.kind {
	case latency:
		around := f.spec.Jitter.D() / 2
		return "latency", toxiproxy.Attributes{"latency": (f.spec.Latency.D() + around).Milliseconds(),
			"jitter": around.Milliseconds()}
	case bandwidth:
		return "bandwidth", toxiproxy.Attributes{"rate": f.spec.Bandwidth.Bytes() / toxicRate}
	case slicing:
		return "slicer", toxiproxy.Attributes{"average_size": f.spec.Slicer.Size.Bytes(), "size_variation": 0,
			"delay": f.spec.Slicer.Delay.D().Microseconds()}
	case limit:
		return "limit_data", toxiproxy.Attributes{"bytes": f.spec.LimitData.Bytes()}
	case slowClose:
		return "slow_close", toxiproxy.Attributes{"delay": f.spec.SlowClose.D().Milliseconds()}
	case resets:
		return "reset_peer", toxiproxy.Attributes{"timeout": 0}
	case halfOpen: // no server has it; see OnToxiproxy
		return "half_open", toxiproxy.Attributes{}
	default:
		return "timeout", toxiproxy.Attributes{"timeout": 0}
	}
}
