#!/bin/sh
# The steps of action.yml. Settings come from the environment only.
#
#	ci/action.sh plan       says where dlqbench comes from: outputs mode (path, release or source), folder, key, and go
#	                        (missing, where one is needed)
#	ci/action.sh get        puts it into that folder, and the folder on the PATH of the steps that follow
#	ci/action.sh gate       runs ci/gate.sh: outputs verdict and report
#	ci/action.sh comment    writes the summary as the pull request's one comment, or updates it
#
# DLQBENCH_VERSION    a release (v1.2.3), a branch or a commit; empty: DLQBENCH_REF if that is a release, else this source
# DLQBENCH_REF        the ref by which the action is used
# DLQBENCH_CHECKSUM   SHA-256 of the release's archive for this platform; empty: what checksums.txt of the release says
# DLQBENCH_ARTIFACTS  the folder of the gate's reports (default: gate)
# DLQBENCH_COMMENT    name that tells this comment from those of other jobs (default: dlqbench)
# DLQBENCH_RELEASES   where releases are (default: GitHub)
#
# Exit code: that of the gate; 3 if there is no dlqbench to run. A comment that may not be written is a notice.
set -eu

module=github.com/dlqbench/dlqbench
releases=${DLQBENCH_RELEASES:-https://$module/releases/download}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(dirname -- "$here")
artifacts=${DLQBENCH_ARTIFACTS:-gate}

say() { printf 'action.sh: %s\n' "$*" >&2; }

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

released() { printf '%s\n' "$1" | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$'; }

wanted() { # the version that is asked for, or nothing
	if [ -n "${DLQBENCH_VERSION:-}" ]; then
		printf '%s' "$DLQBENCH_VERSION"
	elif released "${DLQBENCH_REF:-}"; then
		printf '%s' "$DLQBENCH_REF"
	fi
}

if command -v sha256sum >/dev/null; then sha256=sha256sum; else sha256='shasum -a 256'; fi

digest() { $sha256 | cut -d ' ' -f 1; } # the SHA-256 of stdin

plan() {
	version=$(wanted)
	folder=${RUNNER_TEMP:-/tmp}/dlqbench-bin
	output folder "$folder"
	if [ -z "${DLQBENCH_VERSION:-}" ] && program=$(command -v dlqbench); then
		say "using $program"
		output mode path
	elif released "$version"; then
		output mode release
	else
		output mode source
		command -v go >/dev/null || output go missing
		# What is built depends on these files; a branch or commit is given by its name and today's date.
		if [ -n "$version" ]; then
			key=$version-$(date -u +%Y%m%d)
		else
			key=$(cd "$source" && find . -type f ! -path './.git/*' ! -path './docs/*' ! -path './test/*' ! -path './runs/*' |
				LC_ALL=C sort | xargs $sha256 | digest)
		fi
		output key "$(uname -s)-$(uname -m)-$(printf '%s' "$key" | tr -c 'A-Za-z0-9.-' _)"
	fi
}

# fetch FILE: downloads a file of the release, as FILE in the folder.
fetch() { curl --fail --silent --show-error --location --retry 3 --output "$folder/$1" "$releases/$version/$1"; }

# release: downloads the archive of this platform, checks it, and unpacks it. 1: there is none; 2: it is not what was
# released.
release() {
	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in x86_64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
	archive=dlqbench_${version#v}_${os}_$arch.tar.gz
	fetch "$archive" || return 1
	sum=${DLQBENCH_CHECKSUM:-}
	if [ -z "$sum" ]; then
		fetch checksums.txt || { say "$version has no checksums.txt" && return 2; }
		sum=$(awk -v name="$archive" '$2 == name { print $1 }' "$folder/checksums.txt")
	fi
	got=$(digest <"$folder/$archive")
	if [ "$got" != "$sum" ]; then
		say "the SHA-256 of $archive is $got, but ${sum:-none} was expected: it is not used"
		return 2
	fi
	tar -xzf "$folder/$archive" -C "$folder" dlqbench || return 2
	say "installed $archive, SHA-256 $got"
}

build() {
	command -v go >/dev/null || {
		say 'there is no Go to build dlqbench with: add actions/setup-go before this step'
		return 3
	}
	if [ -n "$version" ]; then
		say "building $module at $version"
		GOBIN=$folder CGO_ENABLED=0 go install "$module/cmd/dlqbench@$version" || return 3
	else
		say "building $source"
		(cd "$source" && GOBIN=$folder CGO_ENABLED=0 go install -trimpath ./cmd/dlqbench) || return 3
	fi
}

get() {
	version=$(wanted)
	folder=$DLQBENCH_FOLDER
	mkdir -p "$folder"
	case $DLQBENCH_MODE in
	release)
		code=0
		release || code=$?
		if [ "$code" = 1 ] && [ -z "${DLQBENCH_CHECKSUM:-}" ]; then
			say "$version has no archive for this platform at $releases"
			build || exit 3
		elif [ "$code" != 0 ]; then
			exit 3
		fi
		;;
	source) [ -x "$folder/dlqbench" ] || build || exit 3 ;; # it may come from the cache
	*) return 0 ;;
	esac
	printf '%s\n' "$folder" >>"$GITHUB_PATH"
	"$folder/dlqbench" --version
}

gate() {
	code=0
	"$here/gate.sh" || code=$?
	case $code in
	0) verdict=pass ;;
	1) verdict=fail ;;
	2) verdict=usage ;;
	4) verdict=inconclusive ;;
	99) verdict=threshold ;;
	130) verdict=interrupted ;;
	*) verdict=environment ;;
	esac
	output verdict "$verdict"
	[ ! -f "$artifacts/index.html" ] || output report "$(CDPATH='' cd -- "$artifacts" && pwd)/index.html"
	exit "$code"
}

# post FILE: makes the file the pull request's comment.
post() {
	comments=repos/$GITHUB_REPOSITORY/issues/$number/comments
	known=$(gh api --paginate "$comments?per_page=100" \
		--jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$marker\"))) | .id") || return 1
	known=$(printf '%s\n' "$known" | head -n 1)
	if [ -n "$known" ]; then
		gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" -F "body=@$1"
	else
		gh api --method POST "$comments" -F "body=@$1"
	fi >/dev/null
}

comment() {
	number=$(printf '%s' "${GITHUB_REF:-}" | sed -n 's#^refs/pull/\([0-9]*\)/.*#\1#p')
	if [ -z "$number" ] || [ ! -f "$artifacts/summary.md" ]; then
		say 'there is no pull request or no summary: no comment is written'
		return 0
	fi
	marker="<!-- dlqbench gate: $(printf '%s' "${DLQBENCH_COMMENT:-dlqbench}" | tr -c 'A-Za-z0-9._-' _) -->"
	work=$(mktemp -d)
	# GitHub takes 65,536 characters.
	{ printf '%s\n' "$marker" && head -c 60000 "$artifacts/summary.md"; } >"$work/comment.md"
	if post "$work/comment.md" 2>"$work/refused"; then
		say "the comment of pull request $number is up to date"
	else
		printf '::notice::dlqbench wrote no comment: %s. The job needs the permission "pull-requests: write", which %s\n' \
			"$(paste -sd ' ' "$work/refused")" 'pull requests from forks do not have.'
	fi
	rm -rf "$work"
}

case ${1:-} in
plan | get | gate | comment) "$1" ;;
*)
	say 'write plan, get, gate or comment'
	exit 2
	;;
esac
