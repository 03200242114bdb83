#!/bin/sh
# Builds the application with Maven, if a source is newer. Where there is no JDK or no Maven it says so, with code 77.
set -eu
command -v javac >/dev/null 2>&1 || { echo "no JDK: install one (17 or newer)"; exit 77; }
command -v mvn >/dev/null 2>&1 || { echo "no mvn in the PATH: install Maven"; exit 77; }
[ -n "$(find pom.xml src -newer target/orders-1.0.jar 2>&1)" ] || exit 0
rm -rf target
mvn -q -B -Dmaven.test.skip=true package dependency:copy-dependencies -DincludeScope=runtime \
	-DoutputDirectory=target/libs
