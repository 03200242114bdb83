#!/usr/bin/env bash
# Runs a command with a container engine: one that answers, or a dockerd that it starts (Linux, root) and stops
# afterwards. It installs missing programs where .ci/install.sh may. The image of Apache Kafka for the tests is
# assembled from parts, because none may be pulled.
#
#	.ci/docker.sh [COMMAND…]        default: the tests of internal/env/cluster/docker
#
# The command gets DOCKER_HOST, DLQBENCH_DOCKER_TESTS=1 and DLQBENCH_DOCKER_IMAGE. Exit code: the command's; 77 when
# there can be no engine or no image here, with one line that says why (a skip, to be counted); 130 or 143 when
# interrupted.
set -uo pipefail
cd "$(dirname "$0")/.."

skip() {
	printf 'no container engine for the tests: %s\n' "$1"
	exit 77
}

. .ci/install.sh
apt_options=--no-install-recommends

work=
daemon=
stop() {
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null
		for _ in $(seq 150); do
			kill -0 "$daemon" 2>/dev/null || break
			sleep 0.1
		done
		if kill -0 "$daemon" 2>/dev/null; then
			printf 'dockerd does not end, and is killed\n'
			kill -KILL "$daemon"
		fi
		wait "$daemon" 2>/dev/null
		daemon=
	fi
	if [ -n "$work" ]; then
		umount "$work"/exec/netns/* 2>/dev/null # what containers in the host's network leave mounted
		rm -rf "$work"
		work=
	fi
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

answers() { timeout 5 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

install docker docker.io iptables ||
	skip 'there is no docker command; install Docker, or let docker.io be installed (DLQBENCH_INSTALL=yes, as root)'
if ! answers; then
	[ "$(uname)" = Linux ] || skip 'no engine answers; start Docker'
	[ "$(id -u)" = 0 ] || skip 'no engine answers, and only root can start dockerd'
	install dockerd docker.io iptables || skip 'no engine answers, and docker.io can not be installed'
	work=$(mktemp -d)
	export DOCKER_HOST=unix://$work/docker.sock
	unset DOCKER_CONTEXT
	# --iptables is on first; where the kernel has none of it, ports are still published, by docker-proxy.
	for options in '' '--iptables=false --ip6tables=false' '--iptables=false --ip6tables=false --storage-driver=vfs'; do
		# shellcheck disable=SC2086
		dockerd --host "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" $options \
			>"$work/log" 2>&1 &
		daemon=$!
		for _ in $(seq 300); do
			answers && break 2
			kill -0 "$daemon" 2>/dev/null || break
			sleep 0.1
		done
		if kill -0 "$daemon" 2>/dev/null; then
			kill "$daemon"
		fi
		wait "$daemon" 2>/dev/null
		daemon=
	done
	if [ -z "$daemon" ]; then
		tail -n 5 "$work/log"
		skip 'dockerd does not start here; its last lines are above'
	fi
	printf 'started dockerd %s\n' "$(docker version --format '{{.Server.Version}}')"
fi

if [ -z "${DLQBENCH_DOCKER_IMAGE:-}" ]; then
	install jlink openjdk-17-jdk-headless || skip 'the image needs a JDK of 17 or later with jlink'
	[ -n "${KAFKA_LIBS:-}" ] || install mvn maven ||
		skip 'the image needs Maven, or the jars of Apache Kafka in KAFKA_LIBS'
	install busybox busybox-static || skip 'the image needs busybox-static'
	DLQBENCH_DOCKER_IMAGE=$(internal/env/cluster/docker/testdata/image/build.sh) ||
		skip 'the image of Apache Kafka could not be assembled'
fi
export DLQBENCH_DOCKER_IMAGE DLQBENCH_DOCKER_TESTS=1
printf 'image %s\n' "$DLQBENCH_DOCKER_IMAGE"

[ $# -gt 0 ] || set -- go test -count=1 -v ./internal/env/cluster/docker
"$@"
