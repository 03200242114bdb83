package scenarios

// This file holds settings of a scenario as other files write them: dlqbench.yaml and benches.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Settings are values by the path that --set takes.
type Settings map[string]Value

// Value is a value of a setting as it was written.
type Value struct{ json.RawMessage }

// SchemaText allows anything: what a value may be depends on its path, and is checked with the scenario.
func (Value) SchemaText() string {
	return `{"description": "A value as it would stand in the scenario at this path."}`
}

// String is the value as --set takes it: text that YAML reads as that very text stands without quotes.
func (v Value) String() string {
	var text string
	if json.Unmarshal(v.RawMessage, &text) == nil && plainText.MatchString(text) && !speaking.MatchString(text) {
		return text
	}
	return string(v.RawMessage)
}

// plainText matches text that YAML reads unchanged without quotes, except words and numbers with a meaning in YAML.
var plainText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/%+-]*$`)
var speaking = regexp.MustCompile(
	"(?i)^(true|false|null|yes|no|on|off|y|n|[0-9][0-9._]*(e[+-]?[0-9]+)?|0[xob][0-9a-f_]+)$")

// Setting is an override, and its path in the file that has it.
type Setting struct{ Path, Value, Place string }

// Settings lists the settings at a place of the file in the order in which it has them.
func (s *Strict) Settings(place string, settings Settings) (list []Setting) {
	for _, path := range Ordered(s, place, settings) {
		list = append(list, Setting{path, settings[path].String(), Below(place, path)})
	}
	return list
}

// Ordered returns the keys of the mapping at a place of a file in the order in which the file has them.
func Ordered[T any](s *Strict, place string, mapping map[string]T) []string {
	return slices.SortedFunc(maps.Keys(mapping), func(a, b string) int {
		first, second := s.Where(Below(place, a)), s.Where(Below(place, b))
		return cmp.Or(cmp.Compare(first.Line, second.Line), cmp.Compare(first.Column, second.Column), strings.Compare(a, b))
	})
}

// plainName matches a name that a file gives to settings, a workload or a list of faults.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Named returns the sound names in the mapping at a place of a file, in its order. It complains about a mapping without
// any, and about those that are not plain.
func Named[T any](s *Strict, place string, mapping map[string]T) []string {
	if s.Has(place) && len(mapping) == 0 {
		s.Complain(place, "there is nothing in it: write a name and what it stands for, or leave the key out", "")
	}
	sound := slices.DeleteFunc(Ordered(s, place, mapping), func(name string) bool { return !s.Sound(Below(place, name)) })
	for _, name := range sound {
		if !plainName.MatchString(name) {
			s.Complain(Below(place, name), "a name has letters, digits, dots, dashes and underscores", "")
		}
	}
	return sound
}

// ThresholdSet is the override that makes an expression the scenario's threshold with this index, the next after its
// own.
func ThresholdSet(index int, expression string) string {
	quoted := strconv.Quote(expression) // Go and YAML escape all characters of a valid threshold alike
	if index == 0 {
		return fmt.Sprintf("expect.thresholds=[%s]", quoted)
	}
	return fmt.Sprintf("expect.thresholds[%d]=%s", index, quoted)
}

// Below is the path of a key of the mapping at a place of a file.
func Below(place, key string) string { return place + "/" + escape(key) }

// Provider is the Kafka to run against, as the flags of dlqbench run say it.
type Provider struct {
	// Provider: embedded (default), process, docker or external.
	Provider string `json:"provider,omitempty" jsonschema:"enum=embedded,enum=process,enum=docker,enum=external"`
	// KafkaVersion goes with process.
	KafkaVersion string `json:"kafka_version,omitempty"`
	// Image goes with docker.
	Image string `json:"image,omitempty"`
	// Bootstrap goes with external: host:port,host:port.
	Bootstrap string `json:"bootstrap,omitempty"`
	// KafkaConfig goes with external: a properties file with TLS and SASL settings.
	KafkaConfig string `json:"kafka_config,omitempty"`
	// Toxiproxy is the API of a toxiproxy server on this machine, or start: the links are proxies there.
	Toxiproxy string `json:"toxiproxy,omitempty"`
}
