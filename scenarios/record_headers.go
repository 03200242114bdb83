package scenarios

// Headers that a subject's records must carry: a consumer may take nothing without a type, a correlation id or a trace
// of its own.

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// HeaderUUID stands for a fresh UUID of version 4 in the value of a record header.
const HeaderUUID = "{{.UUID}}"

// maxRecordHeader bounds the value of a record header in bytes, as it is written.
const maxRecordHeader = 1 << 10

// RecordHeaders returns the record headers of the scenario and of the subject that is judged with it (nil: none of its
// own), whose word counts where both name one.
func (s *Scenario) RecordHeaders(subject *SubjectFile) map[string]string {
	all := maps.Clone(s.Workload.RecordHeaders)
	if all == nil {
		all = map[string]string{}
	}
	if subject != nil {
		maps.Copy(all, subject.RecordHeaders)
	}
	return all
}

// ownHeader are the names of the headers that every record has anyway.
var ownHeader = regexp.MustCompile(`^(` + regexp.QuoteMeta(history.IDHeader) + `|trace-[0-9]+)$`)

func (c *checker) checkRecordHeaders(path string, headers map[string]string) {
	for _, name := range c.names(path) {
		n := c.root.get(path).fields[name]
		value := headers[name]
		switch {
		case n.bad:
		case name == "":
			c.add(n.key, "a header needs a name", "")
		case ownHeader.MatchString(name):
			c.add(n.key, fmt.Sprintf("every record has its own header %s already", name), "")
		case len(value) > maxRecordHeader:
			c.add(n.at, fmt.Sprintf("the value of a record header can have %d bytes at most", maxRecordHeader), "")
		case strings.Contains(strings.ReplaceAll(value, HeaderUUID, ""), "{{"):
			c.add(n.at, "a record header knows no other value than "+HeaderUUID, "")
		}
	}
}
