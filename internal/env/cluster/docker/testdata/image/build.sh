#!/usr/bin/env bash
# Assembles an image of Apache Kafka for the tests from what the machine has, where no image can be pulled: the jars by Maven, a Java runtime by jlink
# with the libraries that ldd names, and busybox as its shell. It is configured by Apache Kafka's own kafka.docker.KafkaDockerWrapper, as the public image
# is, so it obeys the same KAFKA_ variables; it is another image all the same, and is named for what it is.
#
#	build.sh [VERSION]      default 4.4.0; the image is dlqbench-test/kafka:VERSION, and its name the last line of the output
#	KAFKA_LIBS=DIR build.sh takes the jars of this directory instead of asking Maven
#
# It needs a Docker engine, a JDK of 17 or later with jlink, Maven (but for KAFKA_LIBS) and busybox-static. An image that is there is not built again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=${1:-4.4.0}
image=dlqbench-test/kafka:$version
# A change of these files makes another image.
recipe=$(cd "$here" && cat build.sh Dockerfile pom.xml run server.properties log4j2.yaml tools-log4j2.yaml | sha256sum | cut -c1-16)

if [ "$(docker image inspect -f '{{index .Config.Labels "dlqbench.recipe"}}' "$image" 2>/dev/null)" = "$recipe" ]; then
	echo "$image"
	exit 0
fi
for tool in docker jlink ldd busybox; do
	command -v "$tool" >/dev/null || { echo "building $image: $tool is needed, and there is none" >&2; exit 1; }
done
if ! busybox --list >/dev/null || ldd "$(command -v busybox)" >/dev/null 2>&1; then
	echo "building $image: busybox must be the static one (Debian: busybox-static)" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,etc/kafka/docker,mnt/shared/config,opt/kafka/config,opt/kafka/libs,tmp,var/lib/kafka/data}
chmod 1777 "$root/tmp"
chmod 777 "$root"/{mnt/shared/config,opt/kafka/config,var/lib/kafka/data}

if [ -n "${KAFKA_LIBS:-}" ]; then
	cp "$KAFKA_LIBS"/*.jar "$root/opt/kafka/libs/"
else
	cp "$here/pom.xml" "$work/"
	mvn -q -B -Dstyle.color=never -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$root/opt/kafka/libs" -Dkafka.version="$version" >&2
fi
jlink --output "$root/opt/java" --strip-debug --no-header-files --no-man-pages \
	--add-modules java.base,java.compiler,java.desktop,java.logging,java.management,java.naming,java.net.http,java.rmi,java.scripting,java.security.jgss,java.security.sasl,java.sql,java.xml,jdk.crypto.ec,jdk.management,jdk.security.auth,jdk.unsupported,jdk.zipfs

# The runtime's shared libraries, to the paths where its programs look for them; those that it brings itself are there already.
find "$root/opt/java" -type f \( -name '*.so' -o -path '*/bin/*' \) -print0 | xargs -0 -n1 ldd 2>/dev/null |
	sed -nE 's/.*=> (\/[^ ]+) .*/\1/p; s/^\s*(\/[^ ]+) .*/\1/p' | sort -u | while read -r library; do
	case $library in "$root"/*) continue ;; esac
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done

cp "$(command -v busybox)" "$root/bin/busybox"
for applet in sh cat ls env id nc sleep wget; do ln -s busybox "$root/bin/$applet"; done
cp "$here"/{server.properties,log4j2.yaml,tools-log4j2.yaml} "$root/etc/kafka/docker/"
install -m 755 "$here/run" "$root/etc/kafka/docker/run"
echo 'appuser:x:1000:1000::/opt/kafka:/bin/sh' >"$root/etc/passwd"
cp "$here/Dockerfile" "$work/"

# The classic builder, as BuildKit is a package of its own.
DOCKER_BUILDKIT=0 docker build -q --label "dlqbench.recipe=$recipe" -t "$image" "$work" >&2
echo "$image"
