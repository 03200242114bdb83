#!/bin/sh
# Makes .venv in the current folder with what requirements.txt names, once. Where there is no Python 3.9 with venv it
# says so, with code 77.
set -eu
cmp -s requirements.txt .venv/requirements.txt && exit 0
python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || {
	echo "no python3 of 3.9 or newer with venv"
	exit 77
}
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
cp requirements.txt .venv/requirements.txt
