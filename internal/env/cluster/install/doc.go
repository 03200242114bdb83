// Package install provides the programs that brokers as processes are run from: a Java, and the jars of an Apache Kafka
// version, which Maven resolves into the user's cache or which an unpacked release (KAFKA_HOME) brings along. It owns
// that cache: what is in it is complete, checked by its sums when it is used, and safe to install side by side. It does
// not know how a broker is configured or started.
//
//	<cache>/4.1.0/manifest.json   what was installed, with the SHA-256 of each jar
//	<cache>/4.1.0/libs/           the jars
//	<cache>/4.1.0/derived/        what others make from the jars and may throw away
//	<cache>/4.1.0.lock            held while the version is installed
package install
