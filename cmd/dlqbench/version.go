package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (see the Makefile and .goreleaser.yaml).
var version string //nolint:gochecknoglobals // the linker can only set a variable

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Example: "  dlqbench version",
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.stdout, versionLine())
			return nil
		},
	}
}

// versionLine names the program, its version, the Go release that built it, and the platform.
func versionLine() string {
	return fmt.Sprintf("dlqbench %s %s %s/%s", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// programVersion returns the version that the linker set, or the module version that Go recorded: `go install` at a
// version records that version, and a build in a checkout the version of its commit. Without either it is "dev".
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
