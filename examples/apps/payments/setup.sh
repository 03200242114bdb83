#!/bin/sh
# Makes .venv with the worker and what pyproject.toml names, once. Without Python 3.10 with venv, it ends with code 77.
set -eu
cmp -s pyproject.toml .venv/pyproject.toml && exit 0
python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
	echo "no python3 of 3.10 or newer with venv"
	exit 77
}
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --editable '.[test]'
cp pyproject.toml .venv/pyproject.toml
