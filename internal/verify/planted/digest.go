package planted

import (
	_ "embed"
	"strings"
)

// digests has a line "NAME DIGEST" for each planted bug. TestDigestsAreCurrent -update writes it.
//
//go:embed digests.txt
var digests string

const digestLength = 12

// Digest identifies the version of the code that plants the bug.
func (b Bug) Digest() string {
	_, after, _ := strings.Cut("\n"+digests, "\n"+b.Name+" ")
	digest, _, _ := strings.Cut(after, "\n")
	return digest
}
