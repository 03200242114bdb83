// Package network breaks TCP links. A Link stands between a client and its upstream inside this process; an Injector
// carries out the network faults of a schedule on it. It knows nothing of what is spoken over the links, nor why they
// are to break.
//
//	client ──▶ Link ──▶ pump ─────────────────────────────────▶ upstream     no fault: read, write
//	                     └──▶ line: toxic ▸ toxic ▸ writer ───▶             a fault is in force
//
// Each connection has two pumps, one per direction. A pump alone decides, chunk by chunk, which way data takes, so a
// fault takes effect on living connections without stopping them, and order is kept: it sends the next chunk another
// way only when all before it have been written.
//
// Toxics run in toxiproxy's stubs (package toxics), but not in its proxy: that adds and removes toxics holding a lock
// while it waits for every connection to take part, and one peer that does not read stops it for good; it sends FIN
// where a reset was asked for, dials upstream inside its accept loop and draws toxicity and jitter from a global
// source. Here nothing that injects or heals waits for a connection. The slicer is toxiproxy's; latency and bandwidth
// are toxics of our own, see delay and throttle. What ends, silences or cuts short a connection is no toxic: it must
// hold for what is on its way too, and be known when a peer goes away.
package network
