#!/bin/sh
# Fetches the Connect runtime of pom.xml with Maven, once, and compiles the plugin. Where a tool is missing it says so,
# with code 77.
set -eu
command -v curl >/dev/null 2>&1 || { echo "no curl in the PATH: install it"; exit 77; }
sh ../../maven.sh
mkdir -p target/plugins/payments-sink
jar --create --file target/plugins/payments-sink/payments-sink.jar -C target/classes . -C src/main/resources META-INF
