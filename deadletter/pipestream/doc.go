// Package pipestream owns the messages of a graph of nodes as they are on the wire (pipestream.proto and the code made
// of it): the stream that travels from node to node, the dead letter, and the service of the module behind a node. It
// knows nothing of Kafka, of nodes' settings, or of who sends what where.
package pipestream

//go:generate sh generate.sh
