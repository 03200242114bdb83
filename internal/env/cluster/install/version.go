package install

import (
	"fmt"
	"regexp"
	"strconv"
)

// DefaultVersion is the version of Apache Kafka that is used unless another is requested: the newest on which every
// shipped, applicable scenario gives the same verdict as elsewhere (docs/parity.md).
const DefaultVersion = "4.4.0"

// Version is a version of Apache Kafka.
type Version struct{ Major, Minor, Patch int }

var versionForm = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})\.(\d{1,3})$`)

// Supported names the versions known to work.
const Supported = "3.9.x and 4.0.x to 4.4.x"

// ParseVersion parses "4.1.0". It rejects versions that are not Supported.
func ParseVersion(text string) (Version, error) {
	found := versionForm.FindStringSubmatch(text)
	if found == nil {
		return Version{}, fmt.Errorf("%q is no version of Apache Kafka: write it whole, such as %s", text, DefaultVersion)
	}
	var v Version
	for i, part := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*part, _ = strconv.Atoi(found[i+1]) // at most three digits, according to the pattern
	}
	if v.Major == 3 && v.Minor == 9 || v.Major == 4 && v.Minor <= 4 {
		return v, nil
	}
	return Version{}, fmt.Errorf("Apache Kafka %s is not supported: choose one of %s, such as 3.9.1, 4.1.2 or %s",
		text, Supported, DefaultVersion)
}

// String returns "4.1.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast reports whether the version is major.minor or later.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// MinJava is the oldest Java that brokers of the version run on (KIP-750, KIP-1013).
func (v Version) MinJava() int {
	if v.AtLeast(4, 0) {
		return 17
	}
	return 11
}
