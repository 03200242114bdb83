// Package process runs Apache Kafka as JVM processes on loopback: a cluster of 1 to 9 brokers in KRaft mode that can
// really be stopped, killed and paused. It owns the processes, their configuration, their data below one directory,
// and the counting of faults' effects. The programs come from package install. The caller's Starter starts the
// processes, so that they die with dlqbench. The package knows nothing of scenarios, faults or histories.
//
// Each broker has three listeners: CLIENTS, which is the advertised address; INTERNAL, for the other brokers and for
// this package itself; and CONTROLLER. So only clients connect to CLIENTS, and their connections can be counted.
//
//	<dir>/broker-1/server.properties, data/, tmp/
//	<dir>/logs/broker-1.log                          its output
package process
