package history

import "fmt"

func outcomeNames() [OutcomeExhausted + 1]string {
	return [...]string{
		OutcomeNone: "", OutcomeSuccess: "success", OutcomeTransient: "transient", OutcomeRateLimited: "rate-limited",
		OutcomePermanent: "permanent", OutcomeLogical: "logical", OutcomeTimeout: "timeout", OutcomeReset: "reset",
		OutcomeUnknownID: "unknown-id", OutcomeExhausted: "exhausted",
	}
}

func (o Outcome) String() string {
	if names := outcomeNames(); int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// MarshalText writes the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads an outcome's name.
func (o *Outcome) UnmarshalText(text []byte) error {
	for i, name := range outcomeNames() {
		if name == string(text) {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no outcome", text)
}
