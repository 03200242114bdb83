#!/bin/sh
# Installs what package-lock.json names, once. What is missing is said, with code 77.
set -eu
for command in node npm; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Node 20.19 or newer"; exit 77; }
done
cmp -s package-lock.json node_modules/.installed && exit 0
npm ci --no-audit --no-fund >install.log 2>&1 || { tail -n 5 install.log; exit 77; }
cp package-lock.json node_modules/.installed
