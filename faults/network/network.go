package network

// This file defines how faults of links are written, checked, described and explained.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// LinkStore is the Network.Link of the dead-letter store's database.
const LinkStore = "store"

// LinkRegistry is the Network.Link of the schema registry.
const LinkRegistry = "registry"

// The values of Network.Direction besides "both".
const (
	directionRequests  = "requests"
	directionResponses = "responses"
)

// Network breaks a TCP link through toxiproxy. Exactly one of Latency, Bandwidth, Timeout, SlowClose, Slicer,
// LimitData, HalfOpen, Down, Reset is set (Jitter goes with Latency).
type Network struct {
	// Link is "broker N" (N from 1), "brokers" (all of them), "dlq" (the broker that holds the DLQ topic; needs
	// topics.dlq.broker) or "downstream" (the one that decides; "downstream NAME" is another one of subject.yaml. In a
	// graph the modules of all nodes; those of one node are "downstream of NODE"), "store" (the database of the
	// dead-letter store, where it is a server), or "registry" (the schema registry, where the subject's records have a
	// schema).
	Link string `json:"link" jsonschema:"required"`
	// Direction limits latency, bandwidth, timeout, slicer and limit_data to what the subject sends (requests) or gets
	// (responses); default both.
	Direction string `json:"direction,omitempty" jsonschema:"enum=both,enum=requests,enum=responses"`
	// Toxicity is the share of the connections that is hit, drawn from the seed; default 100%.
	Toxicity units.Percent `json:"toxicity,omitempty"`
	// Latency delays every chunk; Jitter adds up to that much, at random.
	Latency units.Duration `json:"latency,omitempty"`
	Jitter  units.Duration `json:"jitter,omitempty"`
	// Bandwidth limits the link, in bytes per second ("64KiB" = 64 KiB/s).
	Bandwidth units.Size `json:"bandwidth,omitempty"`
	// Timeout: data is swallowed, connections stay open and silent.
	Timeout bool `json:"timeout,omitempty"`
	// SlowClose: when one side closes a connection the other learns of it this much later.
	SlowClose units.Duration `json:"slow_close,omitempty"`
	// Slicer cuts the data into small pieces.
	Slicer *Slicer `json:"slicer,omitempty"`
	// LimitData: each connection is closed once it has carried so many bytes in a direction, in the middle of a
	// message.
	LimitData units.Size `json:"limit_data,omitempty"`
	// HalfOpen: the far side of the existing connections is gone and the subject is not told; what it sends is
	// swallowed. New connections work.
	HalfOpen bool `json:"half_open,omitempty"`
	// Down: existing connections are closed, new ones refused.
	Down bool `json:"down,omitempty"`
	// Reset: existing connections are reset (a true RST), new ones are reset when they send.
	Reset bool `json:"reset,omitempty"`
}

// UnmarshalJSON fills in the defaults that are not the zero value.
func (n *Network) UnmarshalJSON(data []byte) error {
	type plain Network
	*n = Network{Toxicity: 1}
	return json.Unmarshal(data, (*plain)(n))
}

// Slicer sends data on in pieces of Size bytes, Delay apart.
type Slicer struct {
	Size  units.Size     `json:"size" jsonschema:"required"`
	Delay units.Duration `json:"delay,omitempty"`
}

// kind is what a fault does to a link.
type kind int

const (
	latency kind = iota
	bandwidth
	slicing
	limit
	slowClose
	silence // Network.Timeout
	halfOpen
	down
	resets
)

// DownstreamOf returns the name of the link of a node's modules.
func DownstreamOf(node string) string { return "downstream of " + node }

// action is one link fault.
type action = faults.Action[Network, kind]

// actions returns all link faults.
func actions() []action { return append(impediments(), breaks()...) }

const (
	made = "toxiproxy's toxics, in this process or on a server (--toxiproxy), act on the subject's connections; the " +
		"workload's own connections are not affected. The link is \"broker N\", brokers (all of them), dlq (the broker " +
		"that holds the DLQ topic alone; needs topics.dlq.broker), downstream (the stub) or registry (the schema " +
		"registry). toxicity limits the fault to that share of the connections, drawn from the seed."
	eitherWay = " direction limits it to requests (what the subject sends) or responses."
)

func keys(own ...string) []string {
	return append([]string{"network.link", "network.toxicity"}, own...)
}

// impediments returns the faults that delay, split or block data. Silence in one direction is enough to block,
// because a request that does not arrive is not answered. Delays and limits do not block: responses get through.
func impediments() []action {
	return []action{{
		Do: latency,
		What: func(n *Network) string {
			if n.Jitter > 0 {
				return fmt.Sprintf("delayed by %s plus up to %s", n.Latency, n.Jitter)
			}
			return fmt.Sprintf("delayed by %s", n.Latency)
		},
		Entry: faults.Entry{Name: "network.latency", Summary: "A link is slow.", Made: made + eitherWay,
			Does: "Every chunk of data is delayed, by latency plus up to jitter. If both directions are affected, a request " +
				"and its response are delayed once each.",
			Shows: "A correct consumer only slows down. Bugs: a timeout shorter than the delay that counts as a failure of " +
				"the record, commits that overtake the dead letter they should follow.",
			Effects: []string{"bytes delayed"}, Keys: keys("network.latency", "network.jitter", "network.direction"),
			Example: "{at: 1s, for: 2s, network: {link: downstream, latency: 200ms, jitter: 50ms}}"},
	}, {
		Do:   bandwidth,
		What: func(n *Network) string { return fmt.Sprintf("limited to %s/s", n.Bandwidth) },
		Entry: faults.Entry{Name: "network.bandwidth", Summary: "A link has little bandwidth.", Made: made + eitherWay,
			Does: "The link carries at most that many bytes per second; further data waits.",
			Shows: "A correct consumer falls behind and catches up. Bugs: memory that grows without a bound, poll loops that " +
				"miss their deadline and lose the partition again and again.",
			Effects: []string{"bytes throttled"}, Keys: keys("network.bandwidth", "network.direction"),
			Example: `{at: 1s, for: 2s, network: {link: broker 1, bandwidth: 64KiB}}`},
	}, {
		Do: silence, Blocks: true,
		What: func(*Network) string { return "silent: data swallowed, connections open" },
		Entry: faults.Entry{Name: "network.timeout", Summary: "A link goes silent.", Made: made + eitherWay,
			Does: "Data is discarded while connections stay open. The subject sees no error, only its own timeouts.",
			Shows: "A correct consumer waits as long as it says, retries, and commits nothing that it does not know to be " +
				"done. Bugs: calls without a timeout, silence taken for a yes, a dead letter given up and committed past.",
			Effects: []string{"bytes swallowed", "connections cut"}, Keys: keys("network.timeout", "network.direction"),
			Example: "{at: 1s, for: 2s, network: {link: brokers, timeout: true}}"},
	}, {
		Do:   slowClose,
		What: func(n *Network) string { return fmt.Sprintf("closes its connections %s late", n.SlowClose) },
		Entry: faults.Entry{Name: "network.slow_close", Summary: "A closed connection looks open for a while.", Made: made,
			Does: "When one side closes a connection, the other side learns of it only after this delay.",
			Shows: "A correct consumer relies on its own timeouts. Bugs: pools that hand out dead connections again and " +
				"again, a shutdown that waits for its connections to close.",
			Effects: []string{"closes delayed"}, Keys: keys("network.slow_close"),
			Example: "{at: 1s, for: 2s, network: {link: downstream, slow_close: 500ms}}"},
	}, {
		Do: slicing,
		What: func(n *Network) string {
			if n.Slicer.Delay > 0 {
				return fmt.Sprintf("cut into pieces of %s, %s apart", n.Slicer.Size, n.Slicer.Delay)
			}
			return fmt.Sprintf("cut into pieces of %s", n.Slicer.Size)
		},
		Entry: faults.Entry{Name: "network.slicer", Summary: "A link delivers data in small pieces.", Made: made + eitherWay,
			Does: "Data is forwarded in pieces of size bytes, delay apart. Messages arrive in many reads, and slowly if " +
				"there is a delay.",
			Shows: "A correct consumer notices nothing. Bugs: clients of the downstream that take a short read for a " +
				"complete response.",
			Effects: []string{"bytes sliced"}, Keys: keys("network.slicer", "network.direction"),
			Example: "{at: 1s, for: 2s, network: {link: downstream, slicer: {size: 16B, delay: 1ms}}}"},
	}}
}

// breaks returns the faults that end connections. A half-open link accepts new connections.
func breaks() []action {
	return []action{{
		Do:   limit,
		What: func(n *Network) string { return fmt.Sprintf("closes each connection after %s", n.LimitData) },
		Entry: faults.Entry{Name: "network.limit_data", Summary: "Connections break in the middle of a message.",
			Made: made + eitherWay,
			Does: "Each connection is closed once it has carried that many bytes in a direction.",
			Shows: "A correct consumer repeats unanswered requests. Bugs: a partial response that is taken for a complete " +
				"one, a dead letter that was cut off and is never written again.",
			Effects: []string{"connections cut"}, Keys: keys("network.limit_data", "network.direction"),
			Example: "{at: 1s, for: 2s, network: {link: dlq, limit_data: 64KiB}}"},
	}, {
		Do:   halfOpen,
		What: func(*Network) string { return "half open: the far side of its connections is gone without a word" },
		Entry: faults.Entry{
			Name: "network.half_open", Summary: "The far side of a connection disappears without closing it.", Made: made,
			Does: "Existing connections lead nowhere: data that the subject sends is discarded, nothing comes back, and they " +
				"stay open. New connections work. This happens when a machine loses power, or when a firewall drops a connection " +
				"from its table.",
			Shows: "A correct consumer closes such a connection after its request timeout and continues on a new one. Bugs: " +
				"requests without a timeout that wait for ever.",
			Effects: []string{"connections half-opened", "bytes swallowed", "connections cut"},
			Keys:    keys("network.half_open"), Example: "{at: 1s, for: 2s, network: {link: broker 1, half_open: true}}"},
	}, {
		Do: down, Blocks: true,
		What: func(*Network) string { return "down: connections closed and refused" },
		Entry: faults.Entry{Name: "network.down", Summary: "A link is down.", Made: made,
			Does: "Existing connections are closed, new ones are refused.",
			Shows: "A correct consumer holds its offsets back and continues when the link is up again. Bugs: crashes, " +
				"reconnects without a pause, dead letters that are logged and forgotten.",
			Effects: []string{"connections cut", "connections refused"}, Keys: keys("network.down"),
			Example: `{at: 1s, for: 2s, network: {link: broker 1, down: true}}`},
	}, {
		Do: resets, Blocks: true,
		What: func(*Network) string { return "resets its connections" },
		Entry: faults.Entry{Name: "network.reset", Summary: "A link resets its connections.", Made: made,
			Does: "Existing connections are reset (a true RST), new ones are reset when they send.",
			Shows: "A correct consumer treats it as a retriable failure. Bugs: a reset taken for a permanent failure of the " +
				"record, which is then dead-lettered without a retry.",
			Effects: []string{"connections cut"}, Keys: keys("network.reset"),
			Example: "{at: 1s, for: 2s, network: {link: downstream, reset: true}}"},
	}}
}

// Entries implements faults.Fault.
func (*Network) Entries() []faults.Entry { return faults.Entries(actions()) }

// Traits implements faults.Fault.
func (n *Network) Traits() faults.Traits {
	chosen, found := faults.Chosen(actions(), n)
	if !found {
		return faults.Traits{}
	}
	traits := chosen.Traits(n)
	traits.What = n.Link + " " + traits.What
	if n.Direction == directionRequests || n.Direction == directionResponses {
		traits.What = n.Direction + " on " + traits.What
	}
	if n.Toxicity > 0 && n.Toxicity < 1 {
		traits.What += fmt.Sprintf(" (%s of the connections)", n.Toxicity)
	}
	traits.Target, traits.Name, traits.Patient = n.target(), faults.Dashed(n.Link+" "+chosen.Key()), true
	traits.FailsAttempts, traits.Idle = n.Link == "downstream" && n.Down, n.idle()
	if chosen.Blocks && n.Toxicity >= 1 {
		traits.Blocks = n.blocks()
	}
	return traits
}

// idle returns the reasons for which the fault may have no effect.
func (n *Network) idle() history.Idle {
	idle := history.Idle{
		Needs: history.NeedRecord,
		Why: "nothing of what it breaks came over that link in the " + history.InForce + " in which it was in force: no " +
			"data, no connection that was hit, or none that carried enough",
		Do: "make it longer, or put load on the link (a subject that has caught up only polls)",
	}
	switch n.target() {
	case "downstream":
		idle.Needs = history.NeedAttempt
	case "dlq":
		idle.Needs = history.NeedDeadLetter
	}
	return idle
}

// target returns the name of the link. The link of a node's modules is a downstream link.
func (n *Network) target() string {
	if strings.HasPrefix(n.Link, DownstreamOf("")) {
		return "downstream"
	}
	return n.Link
}

// blocks returns the brokers to which the link leads, as in faults.Traits.Blocks.
func (n *Network) blocks() int {
	switch number, _ := n.broker(); {
	case n.Link == "brokers":
		return faults.EveryBroker
	case n.Link == "dlq":
		return faults.DLQBroker
	case strings.HasPrefix(n.Link, history.TargetOther):
		return faults.Here
	default:
		return max(number, 0)
	}
}

// directed reports whether the action affects data, which has a direction, and not whole connections.
func (n *Network) directed() bool {
	chosen, _ := faults.Chosen(actions(), n)
	return slices.Contains(chosen.Keys, "network.direction")
}

// Validate implements faults.Fault.
func (n *Network) Validate(setting faults.Setting) []faults.Defect {
	asked, defects := faults.CheckActions(actions(), n)
	if n.Direction != "" && len(asked) > 0 && !n.directed() {
		defects = append(defects, faults.At("/direction", "direction goes with latency, bandwidth, timeout, slicer and "+
			"limit_data: %s concerns whole connections", asked[0])...)
	}
	return slices.Concat(n.link(setting), defects,
		faults.AtIf(n.Jitter > 0 && n.Latency == 0, "/jitter", "jitter goes with latency: add latency"),
		faults.AtIf(n.Toxicity <= 0, "/toxicity", "at 0%% this fault could have no effect"),
		faults.AtIf(n.Slicer != nil && n.Slicer.Size <= 0, "/slicer/size",
			"a piece needs at least one byte, such as size: 64B"))
}

func (n *Network) link(setting faults.Setting) []faults.Defect {
	known := []string{"brokers", "downstream"}
	if setting.DLQBroker > 0 {
		known = append(known, "dlq")
	}
	for broker := range setting.Brokers {
		known = append(known, fmt.Sprintf("broker %d", broker+1))
	}
	for _, node := range setting.Nodes {
		known = append(known, DownstreamOf(node))
	}
	for _, one := range setting.Downstreams {
		if !one.Topic {
			known = append(known, history.TargetOther+one.Name)
		}
	}
	if setting.StoreLink {
		known = append(known, LinkStore)
	}
	if setting.Registry {
		known = append(known, LinkRegistry)
	}
	number, isBroker := n.broker()
	at := func(message string) []faults.Defect {
		return []faults.Defect{{Path: "/link", Message: message, Got: n.Link, Known: known}}
	}
	switch {
	case n.Link == "":
		return nil // the schema reports that it is missing
	case n.Link == "dlq" && setting.Letters != "":
		return faults.At("/link", "%s: write link: %s%s", setting.LettersElsewhere(), history.TargetOther, setting.Letters)
	case n.Link == "dlq" && setting.DLQBroker == 0:
		return faults.At("/link", "there is no link \"dlq\": it needs topics.dlq.broker, the broker that holds the DLQ "+
			"topic alone")
	case n.Link == "dlq" && setting.NoDeadLetters:
		return faults.At("/link", "%s", faults.NoLetters+", so nothing goes over the link \"dlq\"")
	case n.Link == LinkRegistry && !setting.Registry:
		return faults.At("/link", "there is no link \"registry\": %s", faults.NoRegistry)
	case n.Link == "downstream" && !setting.Stub:
		return faults.At("/link", "%s", faults.NoDownstream)
	case n.Link == "downstream" && setting.Output, slices.ContainsFunc(setting.Downstreams,
		func(d faults.DownstreamSetting) bool { return d.Topic && n.Link == history.TargetOther+d.Name }):
		return faults.At("/link", "%s, so there is no link %q: break the links of brokers", faults.OutputOnly, n.Link)
	case isBroker && number < 1:
		return at("brokers are numbered from 1")
	case isBroker && setting.Brokers > 0 && number > setting.Brokers:
		return faults.At("/link", "%s", setting.NoBroker(number))
	case !isBroker && !slices.Contains([]string{"brokers", "downstream", "dlq"}, n.Link) &&
		!slices.Contains(known, n.Link):
		return at(fmt.Sprintf(`there is no link %q: write "broker N", brokers, dlq, downstream or registry`, n.Link))
	}
	return nil
}

// broker returns N from the link name "broker N".
func (n *Network) broker() (number int, is bool) {
	_, err := fmt.Sscanf(n.Link, "broker %d", &number)
	return number, err == nil && n.Link == fmt.Sprintf("broker %d", number)
}
