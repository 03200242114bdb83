// Package embedded owns the Kafka inside this process: starting it, creating topics on the brokers they are meant for,
// and stopping and starting single brokers. It knows nothing of scenarios, faults or histories: who stops a broker, and
// why, is its caller's business.
//
// The embedded Kafka is kfake, which keeps all its logs and groups in one place and has nothing like a broker that is
// down for a while (its RemoveNode moves every leader, every coordinator and, for good, the controller). So a broker is
// never removed from kfake. It is taken off the net, and what the others say of it is put right:
//
//	client ──▶ gate (one per broker: refuses or accepts) ──▶ brokerConn (edits what names brokers) ──▶ kfake
//
// Where kfake treats the members of a consumer group otherwise than Kafka, and a killed consumer would hold up the
// others for minutes, that is mended on the same way (parked.go tells where).
//
// Brokers are numbered as users count, from 1, and that number is the node id which clients see.
package embedded
