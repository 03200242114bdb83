#!/bin/sh
# Installs pyspark, and the jars of its Kafka connector beside it. Where there is no JDK or no Maven it says so, with
# code 77.
set -eu
sh ../../venv.sh
cmp -s pom.xml target/pom.xml && exit 0
for needed in java mvn; do
	command -v "$needed" >/dev/null 2>&1 || { echo "no $needed in the PATH"; exit 77; }
done
rm -rf target
# Without the rest, which pyspark has.
mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/libs \
	-DincludeArtifactIds=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2
cp pom.xml target/pom.xml
