#!/bin/sh
# Installs what package-lock.json names, once. Where the client has no binary for this machine, its install script
# compiles librdkafka. What is missing is said, with code 77.
set -eu
for command in node npm; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Node 20 or newer"; exit 77; }
done
cmp -s package-lock.json node_modules/.installed && exit 0
headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
[ ! -f "$headers/include/node/node.h" ] || export npm_config_nodedir="$headers"
CKJS_LINKING=dynamic npm ci --no-audit --no-fund >install.log 2>&1 || { tail -n 5 install.log; echo "the client was not installed: it needs" \
	"its binary, or g++, make and Python 3 to compile it"; exit 77; }
cp package-lock.json node_modules/.installed
