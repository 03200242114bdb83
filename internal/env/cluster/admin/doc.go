// Package admin provides the operations of a real Kafka that every provider of one needs, through Kafka's admin
// protocol. It creates topics in the places that cluster.Topic prescribes, moves leaders and coordinators and
// restores them, and reports leaders and coordinators. It owns the rules of placement. It does not know how the
// brokers run, nor who wants a leader moved, and why.
//
// Brokers are identified by their numbers (cluster.Broker.Number). Node ids occur only in the protocol.
package admin
