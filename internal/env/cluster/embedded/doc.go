// Package embedded owns the Kafka inside this process. It starts the Kafka, creates topics on their prescribed
// brokers, and stops and starts single brokers. It knows nothing of scenarios, faults or histories: who stops a
// broker, and why, is up to its caller.
//
// The embedded Kafka is kfake, which keeps all its logs and groups in one place and has no concept of a broker that
// is down for a while (its RemoveNode moves every leader, every coordinator and, permanently, the controller). So a
// broker is never removed from kfake. It is taken off the net, and other brokers' statements about it are corrected:
//
//	client ──▶ gate (one per broker: refuses or accepts) ──▶ brokerConn (edits what names brokers) ──▶ kfake
//
// kfake treats the members of a consumer group differently from Kafka in some cases, and a killed consumer would
// hold up the others for minutes. This is corrected in the same way (parked.go lists the cases).
//
// Brokers are numbered from 1, as users count, and that number is the node id that clients see.
package embedded
