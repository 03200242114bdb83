package gate

import (
	"errors"
	"strings"

	"github.com/dlqbench/dlqbench/scenarios"
)

// Fit says which of these shipped scenarios can't be run with the subject file at this path, and why, and which
// invariants it does not promise. Nothing is known of a file that is not there, or that can't be read.
func Fit(path string, names []string) (refused map[string]string, unpromised []string) {
	subject, err := scenarios.LoadSubject(path)
	if err != nil {
		return nil, nil
	}
	refused = map[string]string{}
	for _, name := range names {
		data, _ := scenarios.Shipped(name)
		scenario, _, err := scenarios.ParseForSubject(name, data, nil, path)
		var problems *scenarios.Problems
		if errors.As(err, &problems) {
			refused[name], _, _ = strings.Cut(problems.Problems[0].Message, " (") // what to write in the file instead
		} else if err == nil {
			if why := scenario.Blind(subject); why != "" {
				refused[name] = why
			}
		}
	}
	told, err := subject.Describe()
	if err != nil {
		return refused, nil
	}
	for _, one := range told.NotJudged {
		unpromised = append(unpromised, one.Invariant)
	}
	return refused, unpromised
}
