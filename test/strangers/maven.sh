#!/bin/sh
# Builds what is in the current folder with Maven: fetches the jars that its pom.xml names, once, and compiles its
# sources. With arguments, Maven packages an application instead, if a source is newer than the file that is named
# first. Further arguments go to Maven. Where there is no JDK or no Maven it says so, with code 77.
set -eu
maven() {
	command -v mvn >/dev/null 2>&1 || { echo "no mvn in the PATH: install Maven"; exit 77; }
	rm -rf target
	mvn -q -B "$@"
}
command -v javac >/dev/null 2>&1 || { echo "no JDK: install one (17 or newer)"; exit 77; }
if [ $# -gt 0 ]; then
	[ -n "$(find pom.xml src -newer "$1" 2>&1)" ] || exit 0
	shift
	maven package "$@"
	exit
fi
if ! cmp -s pom.xml target/pom.xml; then
	maven dependency:copy-dependencies -DoutputDirectory=target/libs
	cp pom.xml target/pom.xml
fi
javac -d target/classes -cp 'target/libs/*' $(find src -name '*.java')
