#!/bin/sh
# Builds the consumer with Cargo. librdkafka is compiled, once, which takes minutes. Where there is no Cargo or no C
# compiler it says so, with code 77.
set -eu
PATH="$PATH:$HOME/.cargo/bin"
for command in cargo cc make; do
	command -v $command >/dev/null 2>&1 || { echo "no $command in the PATH: install Rust, a C compiler and make"; exit 77; }
done
cargo build --release --quiet
