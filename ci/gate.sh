#!/bin/sh
# Runs the suite of a repository's dlqbench.yaml in a CI: the one script behind the GitHub Action and the snippets for
# GitLab CI and Jenkins. It takes the dlqbench on the PATH; without one it builds one with `go install`, and says from
# what.
#
#	ci/gate.sh [FLAGS of dlqbench gate…]
#
# DLQBENCH_CONFIG     the suite (default: dlqbench.yaml)
# DLQBENCH_ARTIFACTS  folder for what the CI keeps (default: gate)
# DLQBENCH_SHARD      part i/n of the suite, such as 2/3 (default: all of it)
# DLQBENCH_FAIL_FAST  true: stop after the first run that does not pass
# DLQBENCH_VERSION    what to install if there is no dlqbench: a version, a branch or a commit (default: the source that
#                     this script is part of)
#
# Exit code: that of dlqbench gate (docs/exit-codes.md); 2 for settings that contradict themselves, 3 if there is no
# dlqbench and none can be built.
set -eu

module=github.com/dlqbench/dlqbench

say() { printf 'gate.sh: %s\n' "$*" >&2; }

if program=$(command -v dlqbench); then
	say "using $program"
	[ -z "${DLQBENCH_VERSION:-}" ] || say "DLQBENCH_VERSION=$DLQBENCH_VERSION is not looked at, as there is a dlqbench"
else
	if ! command -v go >/dev/null; then
		say 'there is no dlqbench on the PATH, and no go to build one: install one of them in a step before this'
		exit 3
	fi
	source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
	program=$(go env GOBIN)
	if [ -z "$program" ]; then
		program=$(go env GOPATH)
		program=${program%%:*}/bin
	fi
	program=$program/dlqbench
	if [ -n "${DLQBENCH_VERSION:-}" ]; then
		say "building $module at $DLQBENCH_VERSION with go install, into $program"
		CGO_ENABLED=0 go install "$module/cmd/dlqbench@$DLQBENCH_VERSION" || exit 3
	elif grep -qsx "module $module" "$source/go.mod"; then
		say "building $source with go install, into $program"
		(cd "$source" && CGO_ENABLED=0 go install ./cmd/dlqbench) || exit 3
	else
		say 'there is no dlqbench on the PATH: set DLQBENCH_VERSION to the one that shall be built with go install'
		exit 3
	fi
fi

[ -z "${DLQBENCH_CONFIG:-}" ] || set -- --config "$DLQBENCH_CONFIG" "$@"
[ -z "${DLQBENCH_ARTIFACTS:-}" ] || set -- --artifacts "$DLQBENCH_ARTIFACTS" "$@"
[ -z "${DLQBENCH_SHARD:-}" ] || set -- --shard "$DLQBENCH_SHARD" "$@"
case ${DLQBENCH_FAIL_FAST:-false} in
true) set -- --fail-fast "$@" ;;
false) ;;
*)
	say "DLQBENCH_FAIL_FAST is $DLQBENCH_FAIL_FAST: write true or false"
	exit 2
	;;
esac

exec "$program" gate "$@"
