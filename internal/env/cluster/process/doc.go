// Package process runs Apache Kafka as JVM processes on loopback: a cluster of 1 to 9 brokers in KRaft mode that can be
// stopped, killed and paused for real. It owns the processes, their configuration, their data below one directory, and
// what is counted when a broker is broken. What it runs comes from package install; who starts the processes, so that
// they die with dlqbench, is the caller's Starter. It knows nothing of scenarios, faults or histories.
//
// Each broker has three listeners: CLIENTS, which is the address that others are told; INTERNAL, for the other brokers
// and for this package itself; and CONTROLLER. So what is connected to CLIENTS is clients, and nothing else, and can be
// counted.
//
//	<dir>/broker-1/server.properties, data/, tmp/
//	<dir>/logs/broker-1.log                          what it prints
package process
