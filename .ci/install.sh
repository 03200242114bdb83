# Sourced by .ci/run and .ci/docker.sh: what they install, and where.
#
# DLQBENCH_INSTALL=yes lets them install Debian packages on this machine, no forbids it. Where it is not set, root may
# in CI and where no terminal is attached. On a person's machine, nothing is installed unasked: what is missing is
# reported as skipped.
if [ -z "${DLQBENCH_INSTALL:-}" ]; then
	DLQBENCH_INSTALL=no
	if [ "$(id -u)" = 0 ] && { [ -n "${CI:-}" ] || ! [ -t 0 ] || ! [ -t 1 ]; }; then
		DLQBENCH_INSTALL=yes
	fi
	export DLQBENCH_INSTALL # also for what runs in the background, with no terminal
fi

have() { command -v "$1" >/dev/null 2>&1; }

allowed() { [ "$DLQBENCH_INSTALL" = yes ] && have apt-get; }

install() { # install COMMAND PACKAGE…: Debian packages, where that is allowed; $apt_options are options of apt-get
	have "$1" && return 0
	allowed || return 1
	local wanted=$1
	shift
	printf 'installing %s\n' "$*"
	# shellcheck disable=SC2086
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ${apt_options:-} "$@"; } \
		</dev/null >/dev/null 2>&1
	have "$wanted"
}

# postgres FOLDER: a PostgreSQL to start private servers from. Where there is none, Debian's package is unpacked into
# FOLDER: installing it would start a server, add a user, and write to /etc. PATH then leads to wrappers, as its
# libraries are in FOLDER, too.
postgres() {
	have initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && return 0
	allowed || return 1
	printf 'unpacking postgresql\n'
	local folder=$1 libraries bin one
	mkdir -p "$folder/debs/partial" "$folder/root" "$folder/bin"
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends --download-only \
		-o Dir::Cache::archives="$folder/debs" -o APT::Sandbox::User=root postgresql; } </dev/null >/dev/null 2>&1 || return 1
	for one in "$folder"/debs/*.deb; do dpkg -x "$one" "$folder/root" || return 1; done
	rm -rf "$folder/debs"
	bin=$(ls -d "$folder"/root/usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
	[ -n "$bin" ] || return 1
	libraries=$(ls -d "$folder"/root/usr/lib/*-linux-gnu* "$folder"/root/lib/*-linux-gnu* 2>/dev/null | paste -sd:)
	for one in initdb postgres; do
		printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%s\nexec %s "$@"\n' "$libraries" "$bin/$one" >"$folder/bin/$one"
	done
	# Servers don't run as root: another user must get there.
	chmod -R a+rX "$folder" && chmod 0755 "$folder"/bin/*
	"$folder/bin/postgres" --version && PATH=$folder/bin:$PATH
}
