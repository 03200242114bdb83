#!/usr/bin/env bash
# Assembles an image of PostgreSQL for the tests from the server that is installed here, where no image can be pulled.
# It obeys the variables of the official image that dlqbench sets.
#
#	build.sh BIN      BIN: the folder with initdb and postgres; the image's name is the last line of the output
#
# It needs a Docker engine and busybox-static.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
image=dlqbench-test/postgres:$("$bin/postgres" --version | grep -oE '[0-9]+' | head -n 1)
# Where the packages were only unpacked, BIN has scripts that set the path of the libraries and call the programs.
if [ "$(head -c 2 "$bin/postgres")" = '#!' ]; then
	LD_LIBRARY_PATH=$(sed -n 's/^export LD_LIBRARY_PATH=//p' "$bin/postgres")
	export LD_LIBRARY_PATH
	bin=$(dirname "$(sed -n 's/^exec \([^ ]*\) .*/\1/p' "$bin/postgres")")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,etc,tmp} "$work/data/data"
chmod 1777 "$root/tmp"

mkdir -p "$root$bin" "$root$(dirname "$bin")/lib"
cp -L "$bin"/{initdb,postgres} "$root$bin/"
cp -L "$(dirname "$bin")"/lib/*.so "$root$(dirname "$bin")/lib/"
# Debian's packages have the rest beside it.
shared=${bin%/lib/postgresql/*}/share/postgresql/$(basename "$(dirname "$bin")")
mkdir -p "$root$shared"
cp -a "$shared/." "$root$shared/"
find "$root" -type f \( -name '*.so' -o -path '*/bin/*' \) -print0 | xargs -0 -n1 ldd 2>/dev/null |
	sed -nE 's/.*=> (\/[^ ]+) .*/\1/p; s/^\s*(\/[^ ]+) .*/\1/p' | sort -u | while read -r library; do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in sh cat; do ln -s busybox "$root/bin/$applet"; done
echo 'postgres:x:70:70::/var/lib/postgresql:/bin/sh' >"$root/etc/passwd"
install -m 755 "$here/entrypoint" "$root/entrypoint"
cp "$here/Dockerfile" "$work/"
sed -i "s|^ENV PGDATA|ENV PATH=$bin:/bin LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}\nENV PGDATA|" "$work/Dockerfile"

# The classic builder, as BuildKit is a package of its own.
DOCKER_BUILDKIT=0 docker build -q -t "$image" "$work" >&2
echo "$image"
