// Package install provides the programs for brokers as processes: a Java runtime, and the jars of an Apache Kafka
// version. Maven resolves the jars into the user's cache, or an unpacked release (KAFKA_HOME) contains them. The
// package owns that cache. The cache's content is complete, verified by checksums on use, and can be installed
// concurrently. The package does not know how a broker is configured or started.
//
//	<cache>/4.1.0/manifest.json   what was installed, with the SHA-256 of each jar
//	<cache>/4.1.0/libs/           the jars
//	<cache>/4.1.0/derived/        disposable files that other packages derive from the jars
//	<cache>/4.1.0.lock            held while the version is installed
package install
