// Package network injects faults into TCP links. A Link stands between a client and its upstream. An Injector carries
// out the network faults of a schedule on it. The package does not know the protocol spoken over the links or the
// reason for a fault. There are two kinds of links: a Relay of this process, and a way through a toxiproxy server.
//
//	client ──▶ Relay ──▶ pump ─────────────────────────────────▶ upstream     no fault: read, write
//	                     └──▶ line: toxic ▸ toxic ▸ writer ───▶             a fault is in force
//
// Each connection has two pumps, one per direction. Only the pump decides, chunk by chunk, which path data takes. It
// switches the path only when all earlier chunks have been written. So a fault takes effect on live connections
// without stopping them, and the order of data is kept.
//
// Toxics run in toxiproxy's stubs (package toxics), but not in its proxy. That proxy holds a lock while it adds and
// removes toxics and waits for every connection to take part, so one peer that does not read stops it for good. It
// sends FIN where a reset was asked for, dials upstream inside its accept loop and draws toxicity and jitter from a
// global source. Here, injecting and lifting a fault never wait for a connection. The slicer is toxiproxy's. Latency
// and bandwidth have their own toxics, see delay and throttle. A fault that ends, silences or cuts short a connection
// is not a toxic: it must also apply to data on its way, and must be known when a peer goes away.
//
// A link through a toxiproxy server has what that server has. Its toxics are added and removed through its API:
//
//	client ──▶ Relay ──▶ proxy of the server ──▶ Relay ──▶ upstream
//
// The two relays measure what the server does to each connection, see passage. They also hand resets on as resets.
package network
