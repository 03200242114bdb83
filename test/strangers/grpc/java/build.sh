#!/bin/sh
# Builds the service with Maven, again if the protocol beside it is newer, of which maven.sh does not know.
set -eu
[ -z "$(find ../payments.proto -newer target/orders-1.jar 2>&1)" ] || rm -rf target
sh ../../maven.sh target/orders-1.jar
