package learn

import (
	"testing"
)

func TestEntriesAreAdded(t *testing.T) {
	t.Parallel()
	topic := entry{[]string{"input", "topic"}, "orders", "It fetches from it."}
	letters := entry{[]string{"contract", "dlq", "topic"}, "orders.dlq", "Dead letters went there."}
	for _, one := range []struct {
		name, file string
		entry      entry
		want       string
	}{
		{"a new mapping", "name: a\n", topic, "name: a\ninput:\n  # It fetches from it.\n  topic: orders\n"},
		{"a last line without its end", "name: a", topic, "name: a\ninput:\n  # It fetches from it.\n  topic: orders\n"},
		{"before the contract and its comment", "name: a\n# What it promises.\ncontract:\n  group: g\n", topic,
			"name: a\ninput:\n  # It fetches from it.\n  topic: orders\n# What it promises.\ncontract:\n  group: g\n"},
		{"a mapping in lines", "input:\n  # Our samples.\n  samples: s.jsonl\nname: a\n", topic,
			"input:\n  # It fetches from it.\n  topic: orders\n  # Our samples.\n  samples: s.jsonl\nname: a\n"},
		{"a mapping in braces", "input: {samples: s.jsonl} # ours\n", topic,
			"input: {topic: orders, samples: s.jsonl} # ours\n"},
		{"behind other letters", "# für Bestellungen\nname: é\ninput: {samples: ü.jsonl}\n", topic,
			"# für Bestellungen\nname: é\ninput: {topic: orders, samples: ü.jsonl}\n"},
		{"empty braces", "name: a\ninput: {}\n", topic, "name: a\ninput: {topic: orders}\n"},
		{"two levels that are missing", "name: a\n", letters,
			"name: a\ncontract:\n  dlq:\n    # Dead letters went there.\n    topic: orders.dlq\n"},
		{"the second level", "contract:\n  group: g\n", letters,
			"contract:\n  dlq:\n    # Dead letters went there.\n    topic: orders.dlq\n  group: g\n"},
		{"a second level in braces", "contract:\n  dlq: {enabled: true}\n", letters,
			"contract:\n  dlq: {topic: orders.dlq, enabled: true}\n"},
		{"all in braces", "contract: {group: g}\n", letters, "contract: {dlq: {topic: orders.dlq}, group: g}\n"},
		{"lines of its own", "name: a\n", entry{[]string{"downstreams"}, "\n  - http: {}", "Seen."},
			"name: a\n# Seen.\ndownstreams:\n  - http: {}\n"},
		{"one member", "contract:\n    group: g\n", letters,
			"contract:\n    dlq:\n      # Dead letters went there.\n      topic: orders.dlq\n    group: g\n"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			have, err := put([]byte(one.file), one.entry)
			if err != nil || string(have) != one.want {
				t.Errorf("%v\n%s\nwant\n%s", err, have, one.want)
			}
		})
	}
	if _, err := put([]byte("contract: 3\n"), letters); err == nil {
		t.Error("a number takes a key")
	}
}
