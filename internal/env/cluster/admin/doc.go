// Package admin does to a real Kafka, through its admin protocol, what every provider of one needs: it creates topics
// where cluster.Topic says that they belong, moves leaders and coordinators and brings them back, and tells who leads
// and coordinates what. It owns the rules of placement. It does not know what the brokers run as, nor who wants a
// leader moved, and why.
//
// Brokers are spoken of by their numbers (cluster.Broker.Number); their node ids are used on the wire alone.
package admin
