#!/bin/sh
# Installs the gems of the Gemfile if they are not installed. Where there is no Ruby, no bundler or no registry of gems it
# says so, with code 77.
set -eu
for command in ruby bundle; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Ruby"; exit 77; }
done
bundle check >/dev/null 2>&1 || bundle install --quiet || { echo "the gems could not be installed"; exit 77; }
