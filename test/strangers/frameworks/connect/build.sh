#!/bin/sh
# Fetches the Connect runtime of pom.xml with Maven, once, and compiles the plugin. Where a tool is missing it says so,
# with code 77.
set -eu
command -v javac >/dev/null 2>&1 || { echo "no JDK: install one (17 or newer)"; exit 77; }
command -v curl >/dev/null 2>&1 || { echo "no curl in the PATH: install it"; exit 77; }
if ! cmp -s pom.xml target/pom.xml; then
	command -v mvn >/dev/null 2>&1 || { echo "no mvn in the PATH: install Maven"; exit 77; }
	rm -rf target
	mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/libs
	cp pom.xml target/pom.xml
fi
javac -d target/classes -cp 'target/libs/*' $(find src -name '*.java')
mkdir -p target/plugins/payments-sink
jar --create --file target/plugins/payments-sink/payments-sink.jar -C target/classes . -C src/main/resources META-INF
