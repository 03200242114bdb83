#!/bin/sh
# Fetches the jars that the pom.xml of the current folder names, once, and compiles its sources. Where there is no JDK or
# no Maven it says so, with code 77.
set -eu
command -v javac >/dev/null 2>&1 || { echo "no JDK: install one (17 or newer)"; exit 77; }
if ! cmp -s pom.xml target/pom.xml; then
	command -v mvn >/dev/null 2>&1 || { echo "no mvn in the PATH: install Maven"; exit 77; }
	rm -rf target
	mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/libs
	cp pom.xml target/pom.xml
fi
javac -d target/classes -cp 'target/libs/*' $(find src -name '*.java')
