#!/bin/sh
# Makes the recovery store, once, and starts the dataflow, with a snapshot every second.
set -eu
store=$RECOVERY_FOLDER
if [ ! -d "$store" ]; then
	mkdir "$store"
	.venv/bin/python -m bytewax.recovery "$store" 1
fi
exec .venv/bin/python -m bytewax.run flow --recovery-directory "$store" --snapshot-interval 1 --backup-interval 0
