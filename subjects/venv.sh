#!/bin/sh
# Makes .venv in the current folder with what requirements.txt names, once: a later call with the same requirements
# does nothing. The Python of the environment is 3.12 or newer, from the PATH or from pyenv. Several calls at once do
# no harm: each builds its own, and the first one is kept.
set -eu

usable() {
	"$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

find_python() {
	for name in python3.13 python3.12 python3.14 python3; do
		if usable "$name"; then
			command -v "$name"
			return
		fi
	done
	# The commands that pyenv puts on the PATH work for the version that is switched on; the others lie in its own folder.
	if command -v pyenv >/dev/null 2>&1; then
		for version in $(pyenv versions --bare | sort -r); do
			python=$(pyenv root)/versions/$version/bin/python3
			if usable "$python"; then
				echo "$python"
				return
			fi
		done
	fi
	echo "this subject needs Python 3.12 or newer: none was found on the PATH or in pyenv." \
		"Install one (pyenv install 3.13) and run again." >&2
	exit 77
}

built() { [ -x .venv/bin/python ] && cmp -s requirements.txt .venv/requirements.txt; }

if built; then
	exit 0
fi
python=$(find_python)
new=.venv-$$
trap 'rm -rf "$new" "$new.old"' EXIT
"$python" -m venv "$new"
"$new/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
cp requirements.txt "$new/requirements.txt"
if built; then
	exit 0 # another call was faster
fi
if [ -e .venv ]; then
	mv .venv "$new.old" 2>/dev/null || true # another call may have done so
fi
# A folder that is there by now is another call's: mv would put this one into it.
"$python" -c 'import os, sys; os.rename(*sys.argv[1:])' "$new" .venv 2>/dev/null || built
