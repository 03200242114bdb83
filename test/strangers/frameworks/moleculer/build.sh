#!/bin/sh
# Installs what package-lock.json names, once. Where there is no Node or no npm it says so, with code 77.
set -eu
for command in node npm; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Node 20 or newer"; exit 77; }
done
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --silent --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
