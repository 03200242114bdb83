package tap

import (
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rewriteAddresses replaces every broker address in a response by the address of the instance's own listener for
// that broker, so that the client stays on the tap. It leaves out brokers without a listener: an address that
// bypasses the tap would make all later observations incomplete. It reports whether the response was changed.
func (c *conn) rewriteAddresses(response kmsg.Response) bool {
	switch r := response.(type) {
	case *kmsg.MetadataResponse:
		r.Brokers = rewriteNodes(c, r.Brokers, func(b *kmsg.MetadataResponseBroker) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	case *kmsg.DescribeClusterResponse:
		r.Brokers = rewriteNodes(c, r.Brokers, func(b *kmsg.DescribeClusterResponseBroker) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	case *kmsg.FindCoordinatorResponse:
		c.rewriteCoordinators(r)
	case *kmsg.DescribeQuorumResponse:
		c.rewriteQuorum(r)
	case *kmsg.ProduceResponse:
		return rewriteEndpoints(c, &r.Brokers, func(b *kmsg.ProduceResponseBroker) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	case *kmsg.FetchResponse:
		return rewriteEndpoints(c, &r.Brokers, func(b *kmsg.FetchResponseBroker) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	case *kmsg.ShareFetchResponse:
		return rewriteEndpoints(c, &r.NodeEndpoints, func(b *kmsg.ShareFetchResponseNodeEndpoint) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	case *kmsg.ShareAcknowledgeResponse:
		return rewriteEndpoints(c, &r.NodeEndpoints, func(b *kmsg.ShareAcknowledgeResponseNodeEndpoint) endpoint {
			return endpoint{b.NodeID, &b.Host, &b.Port}
		})
	default:
		return false
	}
	return true
}

// endpoint is a broker's address inside a response.
type endpoint struct {
	node int32
	host *string
	port *int32
}

// rewriteNodes rewrites a list of brokers in place.
func rewriteNodes[N any](c *conn, nodes []N, at func(*N) endpoint) []N {
	kept := nodes[:0]
	for i := range nodes {
		to := at(&nodes[i])
		if host, port, ok := c.listenerOf(to.node); ok {
			*to.host, *to.port = host, port
			kept = append(kept, nodes[i])
		}
	}
	return kept
}

// rewriteEndpoints rewrites the brokers that an answer names only when a partition has moved. It returns false if
// there are none.
func rewriteEndpoints[N any](c *conn, nodes *[]N, at func(*N) endpoint) bool {
	if len(*nodes) == 0 {
		return false
	}
	*nodes = rewriteNodes(c, *nodes, at)
	return true
}

// rewriteCoordinators handles both forms of the answer. If a coordinator is not reachable through the tap, the
// answer says that it is not available, and clients retry.
func (c *conn) rewriteCoordinators(r *kmsg.FindCoordinatorResponse) {
	if r.Version < 4 && r.ErrorCode == 0 {
		if host, port, ok := c.listenerOf(r.NodeID); ok {
			r.Host, r.Port = host, port
		} else {
			r.ErrorCode, r.NodeID, r.Host, r.Port = kerr.CoordinatorNotAvailable.Code, -1, "", -1
		}
	}
	for i := range r.Coordinators {
		at := &r.Coordinators[i]
		if at.ErrorCode != 0 {
			at.Host, at.Port = "", -1
			continue
		}
		if host, port, ok := c.listenerOf(at.NodeID); ok {
			at.Host, at.Port = host, port
		} else {
			at.ErrorCode, at.NodeID, at.Host, at.Port = kerr.CoordinatorNotAvailable.Code, -1, "", -1
		}
	}
}

// rewriteQuorum keeps the nodes that have a listener and replaces all their addresses by that listener's.
func (c *conn) rewriteQuorum(r *kmsg.DescribeQuorumResponse) {
	kept := r.Nodes[:0]
	for _, node := range r.Nodes {
		host, port, ok := c.listenerOf(node.NodeID)
		if !ok {
			continue
		}
		for i := range node.Listeners {
			node.Listeners[i].Host, node.Listeners[i].Port = host, uint16(port)
		}
		kept = append(kept, node)
	}
	r.Nodes = kept
}

// listenerOf returns the address of the instance's listener for a broker.
func (c *conn) listenerOf(node int32) (host string, port int32, ok bool) {
	listener := c.instance.listeners[node]
	if listener == nil {
		c.log.Warn().Int32("node", node).
			Msg("a broker that the tap has no link to was left out of an answer: list every broker among the tap's upstreams")
		return "", 0, false
	}
	address := listener.Addr().(*net.TCPAddr)
	return address.IP.String(), int32(address.Port), true
}
