#!/bin/sh
# Builds a release with Mix. Where there is no Elixir or no registry of its packages it says so, with code 77.
set -eu
command -v mix >/dev/null 2>&1 || { echo "no mix in the PATH: install Elixir 1.14 or newer"; exit 77; }
export MIX_ENV=prod
[ -x _build/prod/rel/orders/bin/orders ] || {
	mix local.hex --force --if-missing && mix local.rebar --force --if-missing && mix deps.get
} >/dev/null 2>&1 || { echo "the packages could not be installed"; exit 77; }
mix release --overwrite --quiet
