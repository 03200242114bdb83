#!/usr/bin/env bash
# Collects the licences of the modules linked into dlqbench, on all platforms that it is released for.
#
#	ci/licenses.sh [FILE]    writes them to FILE (default: dist/THIRD_PARTY_LICENSES), and a table to stdout
#
# Exit code 1: a module has no licence file, a licence that is not permissive, or a notice that NOTICE does not repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
file=${1:-dist/THIRD_PARTY_LICENSES}
mkdir -p "$(dirname "$file")"
list=$(for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	GOOS=${target%/*} GOARCH=${target#*/} go list -deps \
		-f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/dlqbench
done | sort -u)
wrong=0

complain() {
	printf 'licenses.sh: %s\n' "$*" >&2
	wrong=1
}

# plain FILE: its text in one line, so that where its lines break does not matter.
plain() { tr -s '[:space:]' ' ' <"$1"; }

kind() { # kind FILE: the permissive licences that its text grants; "other" where it grants none, or a copyleft too
	local text found=()
	text=$(plain "$1")
	case $text in
	*'Mozilla Public License'* | *'GNU '*'GENERAL PUBLIC LICENSE'* | *'GNU '*'General Public License'*) echo other && return ;;
	esac
	case $text in *'Apache License Version 2.0'* | *'Apache License, Version 2.0'*) found+=(Apache-2.0) ;; esac
	case $text in *'Permission is hereby granted, free of charge'*) found+=(MIT) ;; esac
	case $text in *'Redistribution and use in source and binary forms'*) found+=(BSD) ;; esac
	case $text in *'Permission to use, copy, modify, and'*'distribute'*) found+=(ISC) ;; esac
	echo "${found[*]:-other}"
}

section() { # section TITLE FILE…
	printf '\n%s\n%s\n' "$1" "$(printf '%s' "$1" | tr -c '\n' =)"
	shift
	for one in "$@"; do printf '\n%s\n\n' "--- ${one##*/}" && cat "$one"; done
}

notice=$(plain NOTICE)
{
	echo 'dlqbench contains the following software, under the licences given with each.'
	section "The Go programming language $(go env GOVERSION)" "$(go env GOROOT)/LICENSE"
	section 'uPlot' reports/document/assets/uPlot.LICENSE
} >"$file"
while read -r module version dir; do
	kinds=
	files=()
	while IFS= read -r one; do
		files+=("$one")
		case ${one##*/} in
		NOTICE*) [[ $notice == *"$(plain "$one")"* ]] || complain "$module: NOTICE does not repeat ${one##*/}" ;;
		LICENSE | LICENCE | COPYING | LICENSE.md | LICENSE.txt | LICENCE.md | LICENCE.txt | License*)
			kinds=$(kind "$one")
			[[ $kinds != *other* ]] || complain "$module: ${one##*/} is not one of the permissive licences known here"
			;;
		esac
	done < <(find "$dir" -maxdepth 1 -type f \
		\( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents' \) | sort)
	[ -n "$kinds" ] || complain "$module has no licence file"
	printf '%-70s %-40s %s\n' "$module" "$version" "$kinds"
	section "$module $version" "${files[@]}" >>"$file"
done <<<"$list"
exit $wrong
