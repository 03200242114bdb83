#!/bin/sh
# Installs what package-lock.json of the current folder names, once, and compiles its TypeScript. Where there is no Node
# or no npm it says so, with code 77.
set -eu
for command in node npm; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Node 20.19 or newer"; exit 77; }
done
if ! cmp -s package-lock.json node_modules/.installed; then
	# npm compiles code in C with the headers of this Node if they are installed, and downloads them otherwise.
	headers=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
	[ ! -f "$headers/include/node/node.h" ] || export npm_config_nodedir="$headers"
	npm ci --no-audit --no-fund --loglevel=error >/dev/null
	cp package-lock.json node_modules/.installed
fi
[ ! -f tsconfig.json ] || npx tsc
