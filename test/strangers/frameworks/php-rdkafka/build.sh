#!/bin/sh
# Nothing is built. Where there is no PHP or one of its extensions is missing, it says so, with code 77.
set -eu
command -v php >/dev/null 2>&1 || { echo "no php in the PATH: install PHP 8.1 or newer"; exit 77; }
for extension in rdkafka curl pcntl; do
	php -d extension=rdkafka -r "exit(extension_loaded('$extension') ? 0 : 1);" 2>/dev/null || {
		echo "PHP has no extension $extension"
		exit 77
	}
done
