#!/bin/sh
# Builds the project in the current folder with the .NET SDK: restores the packages that it names, and publishes it to
# out, if a file is newer than that. Where there is no SDK, or the packages are not to be had, it says so, with code 77.
set -eu
command -v dotnet >/dev/null 2>&1 || { echo "no dotnet in the PATH: install the .NET SDK (8.0 or newer)"; exit 77; }
[ -n "$(find . \( -name out -o -name bin -o -name obj \) -prune -o -type f -newer out/Orders.dll -print 2>&1)" ] || exit 0
dotnet restore --verbosity quiet || { echo "NuGet does not have the packages, or is not reachable"; exit 77; }
rm -rf out
dotnet publish --no-restore --nologo --configuration Release --output out --verbosity quiet
