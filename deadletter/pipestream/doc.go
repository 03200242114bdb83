// Package pipestream owns the wire format of messages in a graph of nodes (pipestream.proto and the code generated
// from it): the stream that travels from node to node, the dead letter, and the service of the module behind a node.
// It knows nothing of Kafka, of the settings of nodes, or of the routing of messages.
package pipestream

//go:generate sh generate.sh
