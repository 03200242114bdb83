package learn

// What is said beside a subject file that was there before: samples, and the answer to calls.

import (
	"fmt"

	"github.com/dlqbench/dlqbench/scenarios"
)

// Given is what records are made from. Its paths are relative to the subject file.
type Given struct {
	Samples, Lines, ID, Format, Schema string
}

// give puts it into the file, in which nothing may say what records are made from.
func (k *look) give(g Given) error {
	if g.Samples == "" {
		return nil
	}
	if input := k.subject.Input; input != nil {
		has := func(what, key string) error {
			return fmt.Errorf("%s says already what records are made from (input.%s: %s): leave --samples, --format and "+
				"--schema out, or change it there", k.File, key, what)
		}
		switch {
		case input.Samples == g.Samples:
			return nil
		case input.Samples != "":
			return has(input.Samples, "samples")
		case input.Template != "":
			return has(input.Template, "template")
		case input.AsyncAPI != nil:
			return has(input.AsyncAPI.File, "asyncapi")
		case len(input.Topics) > 0:
			return fmt.Errorf("%s has several input topics: write there which of them gets these samples (input.topics: "+
				"[{topic: …, samples: %s, id: {at: %q}}])", k.File, g.Samples, g.ID)
		}
	}
	const seen = "Given with --samples. The place of the id is a guess."
	entries := []entry{{[]string{"input", "id"}, "{at: " + quoted(g.ID) + "}", seen}}
	for _, one := range []struct{ key, value string }{{"schema", g.Schema}, {"format", g.Format}, {"lines", g.Lines},
		{"samples", g.Samples}} {
		if one.value != "" {
			entries = append(entries, entry{[]string{"input", one.key}, quoted(one.value), ""})
		}
	}
	k.placed = true
	return k.putAll(entries...)
}

// answer puts the answer to calls into a file that says no more of them than what is called.
func (k *look) answer() error {
	if k.Answer == "" || k.Made {
		return nil
	}
	if len(k.subject.Downstreams) > 0 && !k.open() {
		return fmt.Errorf("%s says already how calls are answered (downstreams): leave --answer out, and write it there "+
			"(answers: {success: {body: …}})", k.File)
	}
	k.Made = true // what it then says of calls is still to be found
	text := ""
	for _, one := range k.subject.Downstreams {
		if text += "\n  - "; one.Name != "" {
			text += "name: " + one.Name + "\n    "
		}
		if one.HTTP == nil && one.GRPC == nil {
			text += one.Kind() + ": {}"
			continue
		}
		text += (&traffic{}).text("      ", one, k.success(one), func(int32) bool { return false })
	}
	if text == "" {
		text = "[{http: {answers: {success: {" + k.success(scenarios.Downstream{}) + "}}}}]"
	}
	k.text, _ = replace(k.text, "downstreams", "")
	return k.put(text, callsSeen, "downstreams")
}
