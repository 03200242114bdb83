// Command vet runs the analyzers of go vet. Unlike go vet, it reads all dependencies from source, where go vet compiles
// them: for another platform than this one, that takes a tenth of the processor time. GOOS and GOARCH choose the
// platform. Packages that don't compile there are errors, too.
//
// Usage: vet [-test=false] PACKAGE…
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
