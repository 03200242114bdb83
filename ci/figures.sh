#!/usr/bin/env bash
# The figures of docs/development.md, in Markdown: lines of code without blank, comment, generated and test lines; the
# size of ./dlqbench; with --cold also how long the build takes with an empty cache (minutes). The packages that only
# tests import (such as internal/testkit, the generated histories and the reference checker) count as tests.
#
#	ci/figures.sh [--cold]
set -euo pipefail
cd "$(dirname "$0")/.."

code() { # code: lines of code in the Go files named on stdin
	xargs grep -L '^// Code generated .* DO NOT EDIT\.$' | xargs awk '
		FNR == 1 { inside = 0 }
		{ line = $0; gsub(/^[ \t]+|[ \t]+$/, "", line) }
		inside { if (line ~ /\*\//) inside = 0; next }
		line == "" || line ~ /^\/\// { next }
		line ~ /^\/\*/ { if (line !~ /\*\//) inside = 1; next }
		{ n++ }
		END { print n + 0 }'
}

files() { git ls-files '*.go' | grep -v -e /testdata/ -e '^ci/' -e '^examples/' -e '^test/'; }

tests=(-e '_test\.go$' -e '^internal/testkit/' -e '^store/storetest/' -e '^internal/schemagen/'
	-e '^internal/verify/\(agreement\|generate\|reference\)/')

row() { printf '| %-32s | %8s |\n' "$1" "$2"; }

row figure value
row '--------------------------------' -------:
for folder in $(files | grep / | cut -d / -f 1 | sort -u); do
	row "lines of code in $folder" "$(files | grep "^$folder/" | grep -v "${tests[@]}" | code)"
done
row 'lines of code, core' "$(files | grep -v "${tests[@]}" | code)"
row 'lines of code, tests' "$(files | grep "${tests[@]}" | code)"
modules=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/dlqbench | sort -u | grep -c .)
row 'modules in the binary' "$modules"
[ -x dlqbench ] || make -s build
row 'binary, MB' "$(wc -c <dlqbench | awk '{ printf "%.1f", $1 / 1e6 }')"
if [ "${1:-}" = --cold ]; then
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	began=$SECONDS
	GOCACHE=$scratch make -s build
	row "cold build, s ($(getconf _NPROCESSORS_ONLN) processors)" $((SECONDS - began))
fi
