package main

import "runtime/debug"

// version is set by the linker (see the Makefile).
var version string //nolint:gochecknoglobals // the linker can only set a variable

// programVersion is what the linker set, or else the module version that `go install` recorded.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
