#!/usr/bin/env bash
# Installs the last commit as users do, with `go install github.com/dlqbench/dlqbench/cmd/dlqbench@VERSION` and as a tool
# of a module, with a fresh GOPATH: this module comes from a file:// proxy made of the commit, the others from the module
# cache.
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/dlqbench/dlqbench version=v0.0.1-test
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
proxy=$scratch/proxy/$module/@v tree=$scratch/tree
mkdir -p "$proxy" "$tree"
git archive HEAD | tar -x -C "$tree"
python3 - "$tree" "$proxy/$version.zip" "$module@$version" <<'PYTHON'
import os, sys, zipfile

tree, target, prefix = sys.argv[1:]
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
    for folder, folders, files in os.walk(tree):
        # Folders with a go.mod of their own are no part of the module.
        folders[:] = [one for one in folders if not os.path.exists(os.path.join(folder, one, "go.mod"))]
        for name in files:
            path = os.path.join(folder, name)
            archive.write(path, os.path.join(prefix, os.path.relpath(path, tree)))
PYTHON
go mod download
cp "$tree/go.mod" "$proxy/$version.mod"
printf '{"Version":"%s"}\n' "$version" >"$proxy/$version.info"
printf '%s\n' "$version" >"$proxy/list"

modules=$(go env GOMODCACHE)/cache/download
unset GOBIN
export GOPATH=$scratch/gopath GOMODCACHE=$scratch/gopath/pkg/mod GOFLAGS=-trimpath GONOSUMDB=$module CGO_ENABLED=0
export GOPROXY=file://$scratch/proxy,file://$modules GOSUMDB=off
cd "$scratch"
go install $module/cmd/dlqbench@$version
said=$("$GOPATH/bin/dlqbench" --version)
echo "$said"
[[ $said == "dlqbench $version "* ]] || { echo "test-install.sh: --version does not say $version"; exit 1; }
"$GOPATH/bin/dlqbench" list >/dev/null

mkdir user && cd user
go mod init example.com/user
go get -tool $module/cmd/dlqbench@$version
"$(go tool -n dlqbench)" list >/dev/null
